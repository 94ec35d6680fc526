"""Times of records that are made of several cells, or of the first of several that is there, in CSV and JSON."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dotr.errors.diagnostics import Refused
from dotr.evaluation.expressions.values.times import iso
from dotr.model.places import Document
from dotr.streams.formats.messages import message_decoder
from dotr.streams.formats.reading import Reader, check_input
from dotr.streams.records import ElementMap, Format, InputFile, Message, Record
from tests.support.scans import assert_scan_of

pytestmark = pytest.mark.core

MAP = Document("map", "[] <http://e/v> {v} .")


def input_of(form: Format, time: str | tuple[str, ...], path: str = "", **further: Any) -> InputFile:
    return InputFile("in", path, form, map=ElementMap(time, MAP, **further))


def read(tmp_path: Path, text: str, time: str | tuple[str, ...], **further: Any) -> list[str]:
    """The time of each record, or why it is unreadable."""
    form = Format.JSON if text.startswith("{") else Format.CSV
    path = tmp_path / "in.txt"
    path.write_text(text)
    file = input_of(form, time, str(path), **further)
    check_input(file)
    with Reader(file) as reader, Reader(file, elements=False) as scan:
        records = list(reader.records())
        assert_scan_of(list(scan.records()), records)
    return [shown(record) for record in records]


def shown(record: Record) -> str:
    return record.why if record.time is None else iso(record.time)


def test_template_of_columns_is_one_text(tmp_path: Path) -> None:
    text = 'jour;heure;v\n05.02.2023;7h30;1\n05.02.2023;;2\n;7h30;3\n"05.02.2023";"24h00";4\n05.02.2023;7:30;5\n'
    assert read(tmp_path, text, "{jour} {heure}", delimiter=";", time_format="%d.%m.%Y %Hh%M", time_zone="Europe/Paris") == [
        "2023-02-05T06:30:00Z",
        "it has no time: jour or heure is not there",
        "it has no time: jour or heure is not there",
        "2023-02-05T23:00:00Z",
        "its time, {jour} {heure}: 05.02.2023 7:30 is not of the form %d.%m.%Y %Hh%M",
    ]


def test_template_is_read_as_iso_where_no_format_is_declared(tmp_path: Path) -> None:
    text = "y,m,d,clock,%s,v\n2023,02,05,07:30,x,1\n2023,2,05,07:30,x,1\n"
    assert read(tmp_path, text, "{y}-{m}-{d}T{clock}:00Z") == [
        "2023-02-05T07:30:00Z",
        "its time, {y}-{m}-{d}T{clock}:00Z: '2023-2-05T07:30:00Z' is no ISO 8601 date-time",
    ]


def test_first_of_a_list_that_is_there_counts(tmp_path: Path) -> None:
    text = "seen,day,hour,v\n1,2023-02-05,07,1\n,2023-02-05,07,2\n,2023-02-05,,3\nlater,2023-02-05,07,4\n"
    assert read(tmp_path, text, ("seen", "{day} {hour}:00")) == [
        "1970-01-01T00:00:01Z",
        "2023-02-05T07:00:00Z",
        "it has no time: seen and {day} {hour}:00 are not there",
        "its time, seen: 'later' is neither an integer nor an ISO 8601 date-time",
    ]


def test_name_in_quotes_is_a_column(tmp_path: Path) -> None:
    text = "u{t},$u,at:date,v\n1,2023-02-05,07:00,1\n"
    assert read(tmp_path, text, '"u{t}"') == ["1970-01-01T00:00:01Z"]
    assert read(tmp_path, text, '{"$u"} {"at:date"}') == ["2023-02-05T07:00:00Z"]


def test_template_of_paths_takes_text_and_numbers(tmp_path: Path) -> None:
    objects: list[Any] = [
        {"at": {"day": "2023-02-05", "hour": 7}, "v": 1},
        {"at": {"day": "2023-02-05", "hour": None}, "v": 2},
        {"at": {"day": "2023-02-05", "hour": True}, "v": 3},
        {"at": {"day": ["2023-02-05"], "hour": 7}, "v": 4},
        {"v": 5},
    ]
    text = "".join(json.dumps(each) + "\n" for each in objects)
    assert read(tmp_path, text, "{at.day} {at.hour}", time_format="%Y-%m-%d %H") == [
        "2023-02-05T07:00:00Z",
        "it has no time: at.day or at.hour is not there",
        "its time, {at.day} {at.hour}, is neither text nor a number",
        "its time, {at.day} {at.hour}, is neither text nor a number",
        "it has no time: at.day or at.hour is not there",
    ]


def test_first_path_that_is_there_counts_and_items_may_use_the_message(tmp_path: Path) -> None:
    items = [{"at": None, "h": "07:00", "v": 1}, {"at": 1.5, "v": 2}, {"at": "", "v": 3}, {"v": 4}]
    text = json.dumps({"day": "2023-02-05", "items": items})
    assert read(tmp_path, text, ("at", "{^.day} {h}"), each="items[]") == [
        "2023-02-05T07:00:00Z",
        "1970-01-01T00:00:01.5Z",
        "item 3 of items[]: its time, at: it is empty",
        "item 4 of items[]: it has no time: at and {^.day} {h} are not there",
    ]


@pytest.mark.parametrize("form", [Format.JSON, Format.CSV])
def test_time_of_the_transport_may_stand_in_a_list(form: Format) -> None:
    columns = ("at", "v") if form is Format.CSV else ()
    file = input_of(form, ("$timestamp", "at", "$received"), columns=columns)
    bodies = [b"5,1", b",1"] if form is Format.CSV else [b'{"at": 5, "v": 1}', b'{"v": 1}']
    decode = message_decoder(file)
    sent = [Message(bodies[0], 1, 3_000_000, 4_000_000), Message(bodies[0], 2, None, 4_000_000), Message(bodies[1], 3, None, 4_000_000)]
    assert [shown(record) for message in sent for record in decode(message, True)] == [
        "1970-01-01T00:00:03Z",
        "1970-01-01T00:00:05Z",
        "1970-01-01T00:00:04Z",
    ]
    (unreadable,) = decode(Message(bodies[1], 4), True)
    assert (unreadable.time, unreadable.stamp) == (None, None)
    assert unreadable.why == "it has no time: $timestamp and at and $received are not there"


@pytest.mark.parametrize(
    ("time", "reported"),
    [
        ("{day} {tags[]}", "T107 time: tags[] goes through a list, and an element has one time"),
        (("day", "{day} {a..b}"), "T107 time: a member's name is missing after a."),
    ],
)
def test_path_that_is_no_part_of_a_time_is_refused(time: str | tuple[str, ...], reported: str) -> None:
    with pytest.raises(Refused) as refused:
        check_input(input_of(Format.JSON, time))
    assert reported in str(refused.value)


def test_missing_column_of_a_template_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Refused) as refused:
        read(tmp_path, "Date,Tyme,v\n", ("{Date} {Time}", '"Da'))
    assert [each.message for each in refused.value.diagnostics][:2] == [
        f"{tmp_path}/in.txt has no column Time, which time names",
        f'{tmp_path}/in.txt has no column "Da, which time names',
    ]


@given(st.lists(st.tuples(st.sampled_from(["", "a", "%", "{", '"', "x y", "1"]), st.text('a%"\\,;{}: \n', max_size=4)), max_size=5))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
def test_any_cells_give_a_time_or_a_reason(tmp_path: Path, rows: list[tuple[str, str]]) -> None:
    """Scans and full readings agree, in CSV and in JSON, whatever the cells hold."""
    objects = "".join(json.dumps({"a%": one, "b": other, "v": 1}) + "\n" for one, other in rows)
    cells = [[each.replace('"', '""') for each in row] for row in rows]
    quoted = "a%,b,v\n" + "".join(f'"{one}","{other}",1\n' for one, other in cells)
    for text in (objects, quoted):
        if rows:
            assert len(read(tmp_path, text, ("%{a%}%{b}", "{b}", "a%"), time_format="%%%Y%%%m%d")) == len(rows)


def test_map_with_several_times_is_the_same_in_another_process() -> None:
    for time in ("at", "{a} {b}", ("a", "{b} {c}")):
        file = input_of(Format.CSV, time, "a.csv", time_format="unix")
        assert InputFile.from_json(file.to_json()) == file
