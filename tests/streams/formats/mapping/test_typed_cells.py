"""Typed cells of maps: `{Wert:decimal}`, `{Wert:decimal?}`, in CSV and JSON."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Iterator
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dotr.errors.diagnostics import Refused
from dotr.evaluation.expressions.values.terms import read as value_of
from dotr.evaluation.expressions.values.terms import write
from dotr.model.places import Document
from dotr.model.templates import Cell
from dotr.model.terms import XSD
from dotr.streams.formats.mapping.typed_cells import CellSettings, drain_left_out, reader_of
from dotr.streams.formats.reading import Reader, check_input
from dotr.streams.records import ElementMap, Format, InputFile, Record
from tests.support.scans import assert_scan_of

pytestmark = pytest.mark.core


@pytest.fixture(autouse=True)
def nothing_counted() -> Iterator[None]:
    drain_left_out()
    yield
    drain_left_out()


def read(tmp_path: Path, text: str, template: str, **further: Any) -> list[Record]:
    path = tmp_path / "in.txt"
    path.write_text(text)
    form = Format.JSON if text.startswith("{") else Format.CSV
    file = InputFile("in", str(path), form, prefixes=(("", "http://e/"),), map=ElementMap("t", Document("map", template), **further))
    check_input(file)
    with Reader(file) as reader, Reader(file, elements=False) as scan:
        records = list(reader.records())
        assert_scan_of(list(scan.records()), records)
    return records


def outcomes(records: list[Record]) -> list[object]:
    """The objects of each element without the datatypes' namespace, or why the record is unreadable."""
    return [record.why if record.element is None else [each[2].replace(XSD, "") for each in record.element.triples] for record in records]


def term(cell: str, text: str, **further: Any) -> str | None:
    """The term of a text, without the namespace; None where it is left out, "wrong" where it is of another type."""
    found = reader_of(Cell.of(f"{cell}?"), CellSettings(**further))(text)
    return "wrong" if found is False else found and found.replace(XSD, "")


@pytest.mark.parametrize(
    ("type", "right", "wrong"),
    [
        (
            "integer",
            {"0042": "42", "+7": "7", "-0": "0", " 12 ": "12", "3.000": "3", "-8.": "-8", "9" * 30: "9" * 30},
            ["3.5", "1e3", "1,000", "0x1", "1 2", "٣", "-", "NaN", "true"],
        ),
        (
            "decimal",
            {"08.50": "8.5", "-0.0": "0", ".25": "0.25", "4": "4", "\t6.0": "6"},
            ["6,5", "1e3", "n/a", "INF", "--1", "1.2.3"],
        ),
        ("double", {"25": "2.5E1", "1e-3": "1.0E-3", "-0": "-0.0E0", ".5E2": "5.0E1"}, ["NaN", "INF", "Infinity", "1e999", "1e", "x"]),
        ("boolean", {"TRUE": "true", "0": "false", " False": "false", "1": "true"}, ["yes", "01", "1.0", "on"]),
        (
            "date",
            {"2023-06-05": "2023-06-05", "2023-06-05-00:00": "2023-06-05Z"},
            ["2023-02-30", "5.6.2023", "2023-06-05T00:00", "23-06-05"],
        ),
    ],
)
def test_text_of_a_type_is_a_canonical_term(type: str, right: dict[str, str], wrong: list[str]) -> None:
    for text, value in right.items():
        assert term(f"x:{type}", text) == f'"{value}"^^<{type}>', text
    for text in wrong:
        assert term(f"x:{type}", text) == "wrong", text
        with pytest.raises(ValueError, match=f"^x: .* is no {type}$"):
            reader_of(Cell.of(f"x:{type}"), CellSettings())(text)
    for text in ("", "  ", "\t"):
        assert term(f"x:{type}", text) is None


def test_iris_and_strings() -> None:
    assert [term("x:iri", text) for text in (" urn:a:b ", "a b", "room", "")] == ["<urn:a:b>", "wrong", "wrong", None]
    assert [term("x:string", text) for text in (" 7 ", "true", '"', " ", "")] == ['" 7 "', '"true"', '"\\""', '" "', None]


def test_mark_of_decimals_is_that_of_the_input() -> None:
    for type, written in (("decimal", "7.5"), ("double", "7.5E0")):
        assert term(f"x:{type}", "7,50", decimal=",") == f'"{written}"^^<{type}>'
        assert term(f"x:{type}", "7.50", decimal=",") == "wrong"
    assert [term("x:integer", text, decimal=",") for text in ("7,0", "7.0")] == ['"7"^^<integer>', "wrong"]


def test_times_and_dates_are_read_as_those_of_the_input() -> None:
    berlin = {"time_format": "%d.%m.%Y, %H:%M", "time_zone": "Europe/Berlin"}
    assert term("x:dateTime", " 05.06.2023, 09:30", **berlin) == '"2023-06-05T07:30:00Z"^^<dateTime>'
    assert term("x:dateTime", "26.03.2023, 02:30", **berlin) == "wrong", "clocks were put forward"
    assert [term("x:date", text, **berlin) for text in ("05.06.2023", "2023-06-05", "05.06.2023, 09:30")] == [
        '"2023-06-05"^^<date>', '"2023-06-05"^^<date>', "wrong"
    ]  # fmt: skip
    assert term("x:dateTime", "2023-06-05 09:30+02:00") == '"2023-06-05T07:30:00Z"^^<dateTime>'
    assert term("x:dateTime", "1685950200500", time_format="unix_ms") == '"2023-06-05T07:30:00.5Z"^^<dateTime>'


@given(st.floats(allow_nan=False, allow_infinity=False), st.integers(0, 17))
def test_doubles_are_those_of_the_engine(number: float, places: int) -> None:
    for text in (f"{number:.{places}f}", f"{number % 10_000:.{places}f}", repr(number), f"{number:.{places}e}"):
        expected = write(float(text)) if math.isfinite(float(text)) else False
        assert reader_of(Cell.of("x:double?"), CellSettings())(text) == expected


@given(st.datetimes())
def test_times_as_they_stand_are_those_of_the_input(time: datetime) -> None:
    text = time.isoformat(timespec="seconds")
    read = reader_of(Cell.of("x:dateTime"), CellSettings())
    assert read(f"{text}Z") == read(f"{text}+00:00") == f'"{text}Z"^^<{XSD}dateTime>'
    for wrong in ("2023-02-29T10:00:00Z", "2023-13-01T10:00:00Z"):
        with pytest.raises(ValueError, match="no dateTime"):
            read(wrong)
    for unusual in ("2023-01-01T24:00:00", "2023-01-01T10:00:60"):
        assert read(f"{unusual}Z") == read(f"{unusual}+00:00")


@given(st.decimals(allow_nan=False, allow_infinity=False, places=6, min_value=-(10**9), max_value=10**9), st.sampled_from(["", "0", "000"]))
def test_decimals_are_those_of_the_engine(number: Decimal, zeros: str) -> None:
    digits = f"{abs(number):f}"
    text = f"{'-' if number < 0 else ''}{zeros}{digits}{zeros if '.' in digits else ''}"
    assert reader_of(Cell.of("x:decimal"), CellSettings())(text) == write(number)
    value = float(number)
    assert value_of(reader_of(Cell.of("x:double"), CellSettings())(repr(value)) or "") == value


MIXED = "[] :i {i:integer} ; :d {d:decimal?} ; :plain {d} ."


def test_wrong_cell_makes_a_row_unreadable_and_an_optional_one_leaves_out_its_triples(tmp_path: Path) -> None:
    records = read(tmp_path, 't,i,d\n1,007,2.50\n2,7.5,1\n3,,n/a\n4,8, \n5,9,\n6,"x ""y",1\n', MIXED)
    assert outcomes(records) == [
        ['"7"^^<integer>', '"2.5"^^<decimal>', '"2.50"^^<decimal>'],
        "i: '7.5' is no integer",
        ['"n/a"'],
        ['"8"^^<integer>', '" "'],
        ['"9"^^<integer>'],
        "i: 'x \"y' is no integer",
    ]
    assert [record.stamp for record in records if record.why] == [2_000_000, 6_000_000], "a record counts for lateness by its time"
    assert drain_left_out() == {("in", "d"): 1}
    assert outcomes(read(tmp_path, "t,s\n1,\n2, \n", "[] :s {s:string} .")) == [[], ['" "']]


def test_values_of_json_are_read_as_their_text(tmp_path: Path) -> None:
    objects = [
        {"t": 1, "i": "007", "d": 2.5},
        {"t": 2, "i": 7.0, "d": "2.50"},
        {"t": 3, "i": True, "d": 1},
        {"t": 4, "i": None, "d": {"a": 1}},
        {"t": 5, "i": [1], "d": 1},
        {"t": 6, "i": "", "d": " "},
    ]
    template = "[] :i {i:integer} ; :d {d:decimal?} ; :s {d:string?} ; :b {b:boolean} ."
    assert outcomes(read(tmp_path, "".join(json.dumps(each) + "\n" for each in objects), template)) == [
        ['"7"^^<integer>', '"2.5"^^<decimal>', '"2.5"'],
        ['"7"^^<integer>', '"2.5"^^<decimal>', '"2.50"'],
        "i: 'true' is no integer",
        [],
        "i: its list is no integer",
        ['" "'],
    ]
    assert drain_left_out() == {("in", "d"): 2}


def test_typed_paths_repeat_with_their_lists_and_are_parts_of_triple_terms(tmp_path: Path) -> None:
    text = json.dumps({"t": 1, "n": "3", "parts": [{"n": "01", "of": "urn:a"}, {"n": "x", "of": "urn:b"}, {"n": 2}]}) + "\n"
    template = "[] :n {n:integer} ; :part [ :no {parts[].n:integer?} ; :of {parts[].of:iri} ; :in {n:integer} ] ."
    template += " :s :p <<( :a :b {n:decimal} )>> ."
    ((record),) = read(tmp_path, text, template)
    assert record.element is not None
    found = [each[2].replace(XSD, "") for each in record.element.triples if not each[2].startswith("_")]
    assert found == [
        '"3"^^<integer>',
        *('"1"^^<integer>', "<urn:a>", '"3"^^<integer>'),
        *("<urn:b>", '"3"^^<integer>'),
        *('"2"^^<integer>', '"3"^^<integer>'),
        '<<( <http://e/a> <http://e/b> "3"^^<decimal> )>>',
    ]
    assert drain_left_out() == {("in", "parts[].n"): 1}


def test_only_a_type_behind_the_last_colon_counts(tmp_path: Path) -> None:
    text = 't,a:decimal,b:speed,"c{d}"\n1,1.50,2,3\n'
    assert outcomes(read(tmp_path, text, """[] :a {"a:decimal"} ; :b {b:speed} ; :c {"c{d}"} ; :d {"a:decimal":decimal} .""")) == [
        ['"1.50"^^<decimal>', '"2"^^<integer>', '"3"^^<integer>', '"1.5"^^<decimal>']
    ]
    text = '{"t": 1, "a:integer": "1", "b": {"c:iri": "urn:x"}}\n'
    assert outcomes(read(tmp_path, text, """[] :a {"a:integer"} ; :b {b."c:iri":iri} .""")) == [['"1"', "<urn:x>"]]


def test_typed_iri_is_a_subject_and_a_predicate(tmp_path: Path) -> None:
    ((record),) = read(tmp_path, "t,s,p\n1,urn:a,urn:b\n", "{s:iri} {p:iri} :o .")
    assert record.element is not None
    assert record.element.triples == (("<urn:a>", "<urn:b>", "<http://e/o>"),)


@pytest.mark.parametrize(
    ("template", "reported"),
    [
        ("[] :p <http://e/{x:decimal}> .", "T110 a type inside of a name or a text: {x:decimal}"),
        ("[] :p :x{x:integer?} .", "T110 a type inside of a name or a text: {x:integer?}"),
        ("[] :p '{x:date}'@en .", "T110 a type inside of a name or a text: {x:date}"),
        ("[] :p <{x:iri}> .", "T110 a type inside of a name or a text: {x:iri}"),
        ("{x:string} :p :o .", "T106 a literal cannot be a subject"),
        ("[] {x:string} :o .", "T106 a literal cannot be a predicate"),
        ("[] :p {y:decimal} .", "has no column y, which map names"),
        ("[] :p {x:time} .", "has no column x:time, which map names"),
    ],
)
def test_misplaced_type_is_refused(tmp_path: Path, template: str, reported: str) -> None:
    with pytest.raises(Refused) as refused:
        read(tmp_path, "t,x\n1,2\n", template)
    assert reported in str(refused.value)


WORDS = st.sampled_from(["", " ", "1", "1.0", "true", "2024-01-01", "urn:x", "n/a", "1e400", "\0"])
CELLS = WORDS | st.text('0123456789.eE+-:TZ "\\\0\n', max_size=8)


@given(st.lists(CELLS, min_size=1, max_size=4))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=20)
def test_any_text_is_a_term_or_left_out_or_an_error(tmp_path: Path, cells: list[str]) -> None:
    """CSV and JSON agree on texts, and optional cells leave out what is an error otherwise."""
    types = ("integer", "decimal", "double", "boolean", "date", "dateTime", "iri")
    usable = [cell for cell in cells if "\0" not in cell]
    quoted = [cell.replace('"', '""') for cell in usable]
    for type in types:
        for mark in ("", "?"):
            template = f"[] :x {{x:{type}{mark}}} ."
            rows = read(tmp_path, "t,x\n" + "".join(f'1,"{cell}"\n' for cell in quoted), template)
            objects = read(tmp_path, "".join(json.dumps({"t": 1, "x": cell}) + "\n" for cell in usable) or "{}\n", template)
            if usable:
                assert outcomes(rows) == outcomes(objects)
                assert all(record.why == "" for record in rows) or not mark


def test_usual_numbers_are_the_terms_of_their_values() -> None:
    """Usual texts are taken as they stand, others by their value: the terms are the same."""
    chance = random.Random(3)
    integer, exact = (reader_of(Cell.of(f"w:{kind}"), CellSettings()) for kind in ("integer", "decimal"))
    for digits in (1, 2, 8, 9, 17, 18, 19, 30) * 20:
        whole = chance.randrange(-(10**digits), 10**digits)
        number = Decimal(whole).scaleb(-chance.randrange(12))
        assert integer(str(whole)) == write(whole)
        assert exact(format(number, "f")) == write(number)
    assert (integer("-0"), exact("-0.0"), exact("0.50")) == (write(0), write(Decimal(0)), write(Decimal("0.5")))
