"""Items of `each`: records with their own text and number, of nested lists and of lists side by side, at a constant cost."""

from __future__ import annotations

import json
import re
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dotr.errors.diagnostics import Refused
from dotr.model.places import Document
from dotr.model.stream import Reason
from dotr.streams.connectors.receivers import MessageQueue
from dotr.streams.formats.json.cuts import JsonCut, document_cuts
from dotr.streams.formats.json.records import DECODER
from dotr.streams.formats.mapping import json_paths as paths
from dotr.streams.formats.mapping.json_paths import ItemFinder, parse_path
from dotr.streams.formats.messages import item_decoder, message_decoder
from dotr.streams.formats.reading import Reader, check_input
from dotr.streams.formats.segments import MAGIC, SegmentReader, encode_frame
from dotr.streams.lateness import Lateness
from dotr.streams.records import SHOWN, START, ElementMap, Format, InputFile, Message, Position, Record
from tests.support.scans import assert_scan_of

pytestmark = pytest.mark.core

EX = "http://e/"


def file_of(template: str, each: str, time: str = "at", path: Path | str = "", **settings: Any) -> InputFile:
    mapped = ElementMap(time, Document("map", template), each=each)
    return InputFile("in", str(path), Format.JSON, prefixes=(("", EX),), map=mapped, **settings)


def decoded(file: InputFile, body: object) -> list[Record]:
    raw = body if isinstance(body, bytes) else json.dumps(body, ensure_ascii=False).encode()
    records = message_decoder(file)(Message(raw, 7, topic="t"), True)
    assert_scan_of(message_decoder(file)(Message(raw, 7, topic="t"), False), records)
    return records


def read(file: InputFile, position: Position = START) -> list[Record]:
    with Reader(file, position) as reader:
        return list(reader.records())


def values(record: Record) -> list[str]:
    assert record.element is not None, record.why
    return [value.split("^^")[0].strip('"') for _, _, value in record.element.triples]


def test_item_has_its_own_text_and_number() -> None:
    file = file_of("[] :v {v} .", "list[]")
    raw = b'{"n": 1, "list": [{"at": 5, "v": "\xc3\xa9"} , {"v":2}, 7]}'
    first, second, third = decoded(file, raw)
    assert (first.raw, first.item, first.time) == ('{"at": 5, "v": "é"}'.encode(), "1", 5_000_000)
    assert (second.raw, second.item, second.why) == (b'{"v":2}', "2", "item 2 of list[]: it has no at")
    assert (third.raw, third.item, third.why) == (b"7", "3", "item 3 of list[]: it is no JSON object")


def test_dead_letter_of_any_reason_names_the_item() -> None:
    file = file_of("[] :v {v} .", "list[]")
    lateness = Lateness.of(file)
    letters = [lateness.rejection(file, record) for record in decoded(file, {"list": [{"at": 9}, {"at": 3}, {"at": "soon"}]})]
    assert [letter and (letter.reason, letter.text, letter.why.split(":")[0]) for letter in letters] == [
        None,
        (Reason.LATE, '{"at": 3}', "item 2 of list[]"),
        (Reason.UNREADABLE, '{"at": "soon"}', "item 3 of list[]"),
    ]
    [record] = decoded(file, {"list": [{"at": 9, "v": 1}]})
    assert record.dead_letter(file, Reason.FAILED, "the query failed").why == "item 1 of list[]: the query failed"


def test_text_of_an_item_is_bounded() -> None:
    records = decoded(file_of("[] :v {v} .", "list[]"), {"list": [{"v": "é" * SHOWN}, {"v": 1, "w": "x" * SHOWN}]})
    assert [len(record.raw) for record in records] == [SHOWN - 1, SHOWN]


@pytest.mark.parametrize(
    ("body", "why", "reason"),
    [
        ({"n": 1}, "it has no a.list", Reason.UNREADABLE),
        ({"a": {"list": None}}, "it has no a.list", Reason.UNREADABLE),
        ({"a": [1]}, "it has no a.list", Reason.UNREADABLE),
        ([1], "it has no a.list", Reason.UNREADABLE),
        ({"a": {"list": {"x": 1}}}, "an object is found where `each` needs a list", Reason.UNREADABLE),
        ({"a": {"list": "x"}}, "a value is found where `each` needs a list", Reason.UNREADABLE),
        ({"a": {"list": []}}, "its list is empty", Reason.EMPTY),
        (
            b'{"a": {"list": [{"at": 1}, {]}}',
            "it is no JSON: expecting property name enclosed in double quotes at column 29",
            Reason.UNREADABLE,
        ),
        (b'{"a": {"list": [1 2]}}', "it is no JSON: expecting ',' delimiter at column 18", Reason.UNREADABLE),
        (b'{"a": {"list": [1,]}}', "it is no JSON: expecting value at column 19", Reason.UNREADABLE),
        (b'{"a": {"list": [1]} "b": 2}', "it is no JSON: expecting ',' delimiter at column 21", Reason.UNREADABLE),
        (b'{"a": {"list": [1]}}}', "it is no JSON: extra data at column 21", Reason.UNREADABLE),
        (b'{"a": {"list": [1]', "it is no JSON: expecting ',' delimiter at column 19", Reason.UNREADABLE),
        (b"", "it is an empty message", Reason.EMPTY),
        (b'{"a": {"list": [' + b"[" * 70 + b"]" * 70 + b"]}}", "it is nested too deeply: more than 64 brackets", Reason.LIMIT),
        (b'{"a": {"list": [], "c": ' + b"[" * 70 + b"]" * 70 + b"}}", "it is nested too deeply: more than 64 brackets", Reason.LIMIT),
        (b'{"a": {"list": [' + b"[" * 9_999 + b"]}}", "it is nested too deeply: more than 64 brackets", Reason.LIMIT),
        (b'{"a": {"list": [{"at": 1}]}, "of": "\\ud800"}', "it has half of a surrogate pair, which is no character", Reason.UNREADABLE),
    ],
)
def test_message_without_items_is_one_record(body: object, why: str, reason: Reason) -> None:
    [record] = decoded(file_of("[] :v {^.of} .", "a.list[]"), body)
    assert (record.why[: len(why)], record.reason, record.item) == (why, reason, "")


def test_half_of_a_surrogate_pair_costs_its_item() -> None:
    records = decoded(file_of("[] :v {v} .", "list[]"), b'{"x": 1, "list": [{"at": 1, "v": "\\ud800"}, {"at": 2, "v": "\\u00e9"}]}')
    assert [record.why for record in records] == ["item 1 of list[]: it has half of a surrogate pair, which is no character", ""]


def test_last_list_of_a_name_counts() -> None:
    file = file_of("[] :v {v} ; :of {^.of} .", "a.list[]")
    records = decoded(
        file, b'{"of": 1, "a": {"list": [{"at": 1, "v": 1}]}, "a": {"list": [{"at": 2, "v": 2}], "list": [{"at": 3, "v": 3}]}, "of": 2}'
    )
    assert [values(record) for record in records] == [["3", "2"]]
    [record] = decoded(file, b'{"a": {"list": [{"at": 1}]}, "a": {}}')
    assert record.why == "it has no a.list"


def test_nested_lists_give_each_item_its_own_outer_items() -> None:
    file = file_of("[] :plant {^.name} ; :line {^.lines[].id} ; :of {^.lines[].cells[].no} ; :v {v} .", "lines[].cells[].readings[]")
    lines = [
        {
            "id": "L1",
            "cells": [
                {"no": 1, "readings": [{"at": 1, "v": 10}, {"at": 2, "v": 11}]},
                {"no": 2},
                {"readings": [{"at": 3, "v": 12}], "no": 3},
            ],
        },
        {"id": "L2"},
        7,
        {"cells": [{"readings": []}, {"no": None, "readings": [{"at": 4, "v": 13}]}], "id": "L4"},
    ]
    records = decoded(file, {"lines": lines, "name": "north"})
    assert [(record.item, values(record)) for record in records] == [
        ("1.1.1", ["north", "L1", "1", "10"]),
        ("1.1.2", ["north", "L1", "1", "11"]),
        ("1.3.1", ["north", "L1", "3", "12"]),
        ("4.2.1", ["north", "L4", "13"]),
    ]


@pytest.mark.parametrize(
    ("body", "why", "reason"),
    [
        ({"a": []}, "its list is empty", Reason.EMPTY),
        ({"a": [{"b": []}, {}]}, "its list is empty", Reason.EMPTY),
        ({"a": [{}, 5, {"b": None}]}, "it has no a[].b", Reason.UNREADABLE),
        ({"a": None}, "it has no a[].b", Reason.UNREADABLE),
        ({"a": [{"b": [1]}, {"b": 5}]}, "a value is found where `each` needs a list", Reason.UNREADABLE),
    ],
)
def test_nested_lists_that_are_missing(body: object, why: str, reason: Reason) -> None:
    [record] = decoded(file_of("[] :v {v} .", "a[].b[]"), body)
    assert (record.why, record.reason) == (why, reason)


def test_further_lists_around_an_item_repeat() -> None:
    file = file_of("[] :tag {^.meta.tags[]} ; :part {^.a[].parts[].n} ; :first {^.a[0].id} ; :v {v} .", "a[].b[]")
    body = {
        "a": [{"id": "x", "b": [{"at": 1, "v": 1}]}, {"id": "y", "parts": [{"n": 3}, {}, {"n": 4}], "b": [{"at": 2, "v": 2}]}],
        "meta": {"tags": ["p", "q"]},
    }
    assert [values(record) for record in decoded(file, body)] == [["p", "q", "x", "1"], ["p", "q", "3", "4", "x", "2"]]


def test_lists_side_by_side_are_read_item_by_item() -> None:
    file = file_of("[] :of {^.station} ; :v {^.h.celsius[]} ; :w {[2].speed} .", "h.time[], h.celsius[], h.wind[]", "^.h.time[]")
    body = {"h": {"time": [1, 2, 3], "wind": [{"speed": 7}, None, {}], "celsius": [4.5, None, -1]}, "station": "s"}
    records = decoded(file, body)
    assert [(record.time, values(record), record.raw) for record in records] == [
        (1_000_000, ["s", "4.5", "7"], b'[1,4.5,{"speed": 7}]'),
        (2_000_000, ["s"], b"[2,null,null]"),
        (3_000_000, ["s", "-1"], b"[3,-1,{}]"),
    ]
    [longer] = decoded(file, {"h": {"time": [1, 2], "celsius": [1, 2], "wind": [1]}})
    assert longer.why == "lists side by side differ in the number of their items: 2 in h.time[], 2 in h.celsius[], 1 in h.wind[]"
    [missing] = decoded(file, {"h": {"time": [1, 2], "celsius": [1, 2]}})
    assert missing.why == "it has no h.wind"
    [empty] = decoded(file, {"h": {"time": [], "celsius": [], "wind": []}})
    assert empty.reason is Reason.EMPTY
    [again] = decoded(file, b'{"h": {"time": [1], "celsius": [2], "wind": [3]}, "h": {"time": [1]}}')
    assert again.why == "it has no h.celsius"


def test_lists_side_by_side_in_nested_lists() -> None:
    file = file_of("[] :of {^.s[].id} ; :v {^.s[].v[]} .", "s[].t[], s[].v[]", "^.s[].t[]")
    records = decoded(file, {"s": [{"id": "a", "t": [1, 2], "v": [3, 4]}, {"id": "b"}, {"id": "c", "t": [5], "v": [6]}]})
    assert [(record.item, record.time, values(record)) for record in records] == [
        ("1.1", 1_000_000, ["a", "3"]),
        ("1.2", 2_000_000, ["a", "4"]),
        ("3.1", 5_000_000, ["c", "6"]),
    ]


def test_items_may_be_lists_and_values() -> None:
    records = decoded(file_of("[] :v {[1].x} .", "[]", "[0]"), [[1, {"x": 5}], [2], {"at": 3}, 4])
    assert [record.time for record in records] == [1_000_000, 2_000_000, None, None]
    assert [record.why for record in records[2:]] == ["item 3 of []: it has no [0]", "item 4 of []: it is no JSON object"]
    assert values(records[0]) == ["5"]
    records = decoded(file_of("[] :v {^.data[]} .", "data[]", "^.t"), {"t": 6, "data": ["x", 1.5, None, True]})
    assert [values(record) for record in records] == [["x"], ["1.5"], [], ["true"]]


def test_list_as_a_message_is_its_items() -> None:
    file = file_of("[] :v {v} ; :topic {$topic} .", "")
    records = decoded(file, [{"at": 1, "v": 5}, {"v": 6}, 7])
    assert [(record.item, record.why) for record in records] == [
        ("1", ""),
        ("2", "item 2 of []: it has no at"),
        ("3", "item 3 of []: it is no JSON object"),
    ]
    assert values(records[0]) == ["5", "t"]
    assert [record.reason for record in decoded(file, [])] == [Reason.EMPTY]
    assert [record.why for record in decoded(file, [1, 2])] == ["it is no JSON object"]
    records = decoded(file_of("[] :v {v} ; :of {^.[0].v} .", "[]"), [{"at": 1, "v": 5}, {"at": 2, "v": 6}])
    assert [values(record) for record in records] == [["5", "5"], ["6", "5"]]


@pytest.mark.parametrize(
    "text", ['[{"at": 1, "v": 5}, {"v": 6}]\n[]\n[{"at": 2, "v": 7}]', '[\n {"at": 1, "v": 5},\n {"v": 6}\n] []\n[{"at": 2, "v": 7}]\n']
)
@pytest.mark.parametrize("each", ["", "[]"])
def test_lists_in_files(tmp_path: Path, text: str, each: str) -> None:
    path = tmp_path / "a.json"
    path.write_text(text)
    file = file_of("[] :v {v} .", each, path=path)
    records = read(file)
    assert [record.judged_time for record in records if record.reason is not Reason.EMPTY] == [1_000_000, None, 2_000_000]
    if each:
        assert [record.item for record in records] == ["1", "2", "", "1"]
        assert records[1].why == "item 2 of []: it has no at"
    for number, record in enumerate(records):
        assert read(file, Position(record.offset, record.line)) == records[number:]


@pytest.mark.parametrize(
    ("each", "time", "template", "reported"),
    [
        ("a[], b", "at", ":s :v 1 .", "T107 each: b names no list"),
        ("a[], b[].c[]", "at", ":s :v 1 .", "T107 each: a[] and b[].c[] are not side by side"),
        ("a[].b[], c[].b[]", "at", ":s :v 1 .", "T107 each: a[].b[] and c[].b[] are not side by side"),
        ("a[], b[], a[]", "at", ":s :v 1 .", "T107 each: a[] is there twice"),
        ("a[] b[]", "at", ":s :v 1 .", "T107 each: ' b[]' is no part of a path"),
        ("^.a[]", "at", ":s :v 1 .", "T107 each: ^.a[] names no list"),
        ("$key", "at", ":s :v 1 .", "T107 each: $key is no path in the message"),
        ("a[]", "^.b[]", ":s :v 1 .", "T107 time: ^.b[] goes through a list"),
        ("a[]", "b[]", ":s :v 1 .", "T107 time: b[] goes through a list"),
        ("a[].b[]", "^.a[].c[]", ":s :v 1 .", "T107 time: ^.a[].c[] goes through a list"),
        ("a[]", "at", ":s :p [ :x {^.b[]} ; :y {c[]} ] .", "map:1:25: T108 {^.b[]} and {c[]} go through two lists"),
    ],
)
def test_each_that_cannot_be_used_is_refused(each: str, time: str, template: str, reported: str) -> None:
    with pytest.raises(Refused) as refused:
        check_input(file_of(template, each, time))
    assert str(refused.value).startswith(reported)


def test_items_are_decoded_when_they_are_requested(monkeypatch: pytest.MonkeyPatch) -> None:
    file = file_of("[] :v {v} .", "list[]")
    body = json.dumps({"list": [{"at": number, "v": number} for number in range(1_000)]}).encode()
    records = iter(item_decoder(file)(Message(body, 1), True))
    next(records)
    queue = MessageQueue(file)
    assert queue.offer([Message(body, 0), Message(b'{"list": [{"at": 1}]}', 0)], lambda: None)
    sizes = []
    while (chunk := queue.read(300)) is not None:
        sizes.append(len(chunk.records))
    assert sizes == [300, 300, 300, 101]


def test_memory_of_many_items_is_a_small_multiple_of_the_message() -> None:
    body = json.dumps({"list": [{"at": number, "v": 1} for number in range(15_000)]}).encode()
    records = item_decoder(file_of("[] :v {v} .", "list[]"))
    tracemalloc.start()
    try:
        assert sum(record.time is not None for record in records(Message(body, 1), True)) == 15_000
        assert tracemalloc.get_traced_memory()[1] < 4 * len(body)
    finally:
        tracemalloc.stop()


def test_cost_of_an_item_is_constant(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The characters that are looked at for escapes and brackets are those of the message, whatever the number of items."""
    path = tmp_path / "a.json"
    scanned = 0

    def skip(text: str, at: int) -> tuple[Any, int]:
        nonlocal scanned
        value, end = DECODER.scan_once(text, at)  # type: ignore[attr-defined]
        scanned += end - at
        return value, end

    monkeypatch.setattr(paths, "_SKIP", skip)
    path.write_text(json.dumps({"x": "é", "list": [{"at": number, "v": "\\" * 60} for number in range(2_000)]}))
    assert len(read(file_of("[] :v {v} .", "list[]", path=path))) == 2_000
    assert scanned < path.stat().st_size


def test_position_inside_a_message_of_a_line_is_found_without_the_lines_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.json"
    path.write_text("".join(json.dumps({"list": [{"at": 10 * line + item, "v": "é"} for item in range(3)]}) + "\n" for line in range(5)))
    file = file_of("[] :v {v} .", "list[]", path=path)
    records = read(file)
    found = 0
    find = ItemFinder.find

    def counted(self: ItemFinder, text: str, at: int) -> Any:
        nonlocal found
        found += 1
        return find(self, text, at)

    monkeypatch.setattr(ItemFinder, "find", counted)
    assert read(file, Position(records[13].offset, records[13].line)) == records[13:]
    assert found == 1


def test_position_inside_a_message_of_a_document_is_found_behind_the_messages_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dotr.streams.formats.json.records._INDEX_BYTES", 100)
    path = tmp_path / "a.json"
    path.write_text(json.dumps([{"list": [{"at": 10 * n + item, "v": "é}"} for item in range(3)]} for n in range(9)], indent=1))
    file = file_of("[] :v {v} .", "list[]", path=path)
    records = read(file)
    cut: list[JsonCut] = []

    def counted(*arguments: Any, **named: Any) -> Iterator[JsonCut]:
        for each in document_cuts(*arguments, **named):
            cut.append(each)
            yield each

    monkeypatch.setattr("dotr.streams.formats.json.records.document_cuts", counted)
    for number, record in enumerate(records):
        cut.clear()
        assert read(file, Position(record.offset, record.line)) == records[number:]
        assert len(cut) == 9 - number // 3
    path.write_text(path.read_text() + " ")  # in a file of other bytes nothing is known
    assert read(file, Position(records[13].offset, records[13].line)) == records[13:]


def test_segment_is_read_from_the_frame_of_a_position(tmp_path: Path) -> None:
    file = file_of("[] :v {v} .", "", framed=True)
    bodies = [b'{"at": 1, "v": 1}', b'[{"at": 2, "v": 1}, {"at": 3, "v": 1}]', b'{"at": 4, "v": 1}']
    path = tmp_path / "s"
    path.write_bytes(MAGIC + b"".join(encode_frame(Message(body, place, 5, 6)) for place, body in enumerate(bodies, 1)))
    with path.open("rb") as stream:
        reader = SegmentReader(stream, file, START, elements=True)
        records = [record for _ in bodies for record in reader.next() or ()]
        assert [record.time for record in records] == [1_000_000, 2_000_000, 3_000_000, 4_000_000]
        for number, record in enumerate(records):
            reader = SegmentReader(stream, file, Position(record.offset, record.line), elements=True)
            assert reader.offset == (record.offset if number != 2 else len(MAGIC))
            rest: list[Record] = []
            while (more := reader.next()) is not None:
                rest += more
            assert rest == records[number:]


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abcx"), inner, max_size=3),
    max_leaves=12,
)


@given(
    value=VALUES,
    each=st.sampled_from(["a[]", "a.b[]", "a[].b[]", "a[].b[].c[]", "[]", "[].a[]", "a[1].b[]"]),
    indent=st.sampled_from([None, 1]),
)
def test_items_are_those_of_the_decoded_message(value: object, each: str, indent: int | None) -> None:
    """The finder against a walk over the decoded message."""
    text = json.dumps(value, indent=indent)

    def items(here: Any, steps: tuple[Any, ...], numbers: tuple[int, ...]) -> list[tuple[tuple[int, ...], Any]]:
        if not steps:
            return [(numbers, here)]
        if isinstance(steps[0], str):
            return items(here.get(steps[0]) if isinstance(here, dict) else None, steps[1:], numbers)
        if isinstance(steps[0], int):
            return items(here[steps[0]] if isinstance(here, list) and len(here) > steps[0] else None, steps[1:], numbers)
        if here is not None and not isinstance(here, list):
            raise TypeError
        return [found for number, item in enumerate(here or (), 1) for found in items(item, steps[1:], (*numbers, number))]

    try:
        expected: Any = items(value, parse_path(each).steps, ())
    except TypeError:
        expected = None
    try:
        groups, end = ItemFinder(each, (), 64, DECODER.scan_once).find(text, 0)  # type: ignore[attr-defined]
    except ValueError as error:
        found: Any = expected if expected in ([], None) else error
        why = "it has no" if expected == [] else "value is found where|object is found where"
        assert re.search(why, str(error))  # noqa: PT017 (any of two errors, or none)
    else:
        assert end == len(text)
        found = [
            ((*group.numbers, at), json.loads(text[start:stop]))
            for group in groups
            for at, (start, stop) in enumerate(zip(group.starts[0], group.ends[0], strict=True), 1)
        ]
    assert found == expected
