"""Messages of brokers by format: elements, times, content types, and unreadable messages."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from dotr.model.places import Document
from dotr.model.stream import Reason
from dotr.model.terms import XSD
from dotr.streams.formats.messages import Message, message_decoder
from dotr.streams.lateness import EVERY_TIME, TimeFilter
from dotr.streams.records import ElementMap, Format, GraphSettings, InputFile, Record
from tests.support.scans import assert_scan_of

pytestmark = pytest.mark.core

EX = "http://e/"
AT = "<http://www.w3.org/ns/prov#generatedAtTime>"
PREFIXES = f"@prefix : <{EX}> . @prefix prov: <http://www.w3.org/ns/prov#> . "


def decoded(spec: InputFile, message: Message) -> list[Record]:
    """The records of a message, with the invariants of records checked."""
    decode = message_decoder(spec)
    records = decode(message, True)
    assert_scan_of(decode(message, False), records)
    for record in records:
        assert (record.time is None) == (record.element is None) == bool(record.why)
        assert record.element is None or record.element.time == record.time
        assert (record.offset, record.end, record.line) == (message.place, message.place + 1, message.place)
    return records


def spec_of(form: Format, time: str = "", mapped: ElementMap | None = None, record: int = 1 << 23) -> InputFile:
    return InputFile("in", "", form, prefixes=(("", EX),), map=mapped, graphs=GraphSettings(time), record=record)


def sizes(records: list[Record]) -> list[tuple[float | None, int]]:
    """The time in seconds and the number of triples of each record."""
    return [(None if each.time is None else each.time / 1e6, len(each.element.triples) if each.element else 0) for each in records]


def mapped(time: str, template: str, **settings: object) -> ElementMap:
    return ElementMap(time, Document("map", template), **settings)  # type: ignore[arg-type]


def test_ndjson_messages_are_elements() -> None:
    spec = spec_of(Format.NDJSON)
    good = b'{"time": 10, "graph": ":a :p 1, 2 ."}'
    assert sizes(decoded(spec, Message(good, 7))) == [(10, 2)]
    assert sizes(decoded(spec, Message(b"\n" + good + b"\r\n", 7))) == [(10, 2)]
    assert sizes(decoded(spec, Message(good + b"\n" + good + b"\n{}", 7))) == [(10, 2), (10, 2), (None, 0)]
    assert sizes(decoded(spec, Message(b'{\n "time": 10,\n "graph": ""\n}', 7))) == [(10, 0)]
    for broken in (b"{", b"[]", b'{"time": 10, "graph": ":a :p"}', b"\xff", good + b"{}"):
        [record] = decoded(spec, Message(broken, 7))
        assert (record.time, record.raw, record.reason) == (None, broken, Reason.UNREADABLE)


def test_json_map_reads_properties_of_the_transport() -> None:
    template = "<{id}> :key {$key} ; :topic {$topic} ; :part {$partition} ; :no {$offset} ; :at {$timestamp} ; :unit {$header.unit} ."
    spec = spec_of(Format.JSON, mapped=mapped("at", template))
    body = b'{"id": "urn:x", "at": 3}'
    message = Message(body, 9, 5_000_000, key=b"k", headers=(("unit", b"C"), ("UNIT", b"K")), topic="t", partition=2)
    [record] = decoded(spec, message)
    assert record.element is not None
    values = [value.partition("^^")[0] for _, _, value in record.element.triples]
    assert values == ['"k"', '"t"', '"2"', '"9"', '"5000"', '"K"']
    [record] = decoded(spec, Message(body, 9, topic="t"))
    assert record.element is not None
    assert len(record.element.triples) == 3  # without key, timestamp and header
    [record] = decoded(spec, message._replace(key=b"\xff"))
    assert record.why == "its $key is not UTF-8"


def test_json_items_of_each_have_the_place_of_the_message() -> None:
    spec = spec_of(Format.JSON, mapped=mapped("at", ":s :v {v} ; :of {^.of} .", each="data[]"))
    body = json.dumps({"of": 1, "data": [{"at": 1, "v": 2}, {"v": 3}, {"at": 2}]}).encode()
    assert sizes(decoded(spec, Message(body, 4))) == [(1, 2), (None, 0), (2, 1)]


@pytest.mark.parametrize("form", [Format.JSON, Format.CSV, Format.NDJSON, Format.TURTLE, Format.TRIG])
def test_elements_have_the_time_of_the_transport(form: Format) -> None:
    bodies = {
        Format.JSON: b'{"v": 1}',
        Format.CSV: b"1",
        Format.NDJSON: b'{"graph": ":s :p 1 ."}',
        Format.TURTLE: f"<{EX}s> <{EX}p> 1 .".encode(),
        Format.TRIG: f"<{EX}g> {{ <{EX}s> <{EX}p> 1 }}".encode(),
    }
    for time, message in (("$timestamp", Message(bodies[form], 1, timestamp=7)), ("$received", Message(bodies[form], 1, received=7))):
        settings = {"columns": ("v",)} if form is Format.CSV else {}
        element_map = mapped(time, ":s :p {v} .", **settings) if form in (Format.JSON, Format.CSV) else None
        spec = spec_of(form, "" if element_map else time, element_map)
        [record] = decoded(spec, message)
        assert record.element is not None
        assert (record.time, len(record.element.triples)) == (7, 1)
        [record] = decoded(spec, message._replace(timestamp=None, received=None))
        assert record.why == f"its transport gives it no time ({time})"


def test_csv_rows_with_declared_columns_and_with_a_header() -> None:
    template = ":{a} :v {b} ."
    spec = spec_of(Format.CSV, mapped=mapped("t", template, columns=("t", "a", "b")))
    assert sizes(decoded(spec, Message(b'1,x,"5,6"', 3))) == [(1, 1)]
    assert sizes(decoded(spec, Message(b"1,x,5\n2,y,\n", 3))) == [(1, 1), (2, 0)]
    assert sizes(decoded(spec, Message(b"1,x", 3))) == [(None, 0)]
    with_header = spec_of(Format.CSV, mapped=mapped("t", template))
    assert sizes(decoded(with_header, Message(b"b,t,a\n5,1,x\n", 3))) == [(1, 1)]
    [record] = decoded(with_header, Message(b"b,t\n5,1\n", 3))
    assert "no column a" in record.why
    [record] = decoded(with_header, Message(b"\n", 3))
    assert "no header" in record.why


def test_graphs_of_trig_and_nquads_are_elements() -> None:
    times = ":g prov:generatedAtTime 5 ; :by :rule . :h prov:generatedAtTime 4 . :e prov:generatedAtTime 6 ."
    trig = f"{PREFIXES} :g {{ :a :p 1, 2 }} :h {{ :b :p 3 }} {times}"
    assert sizes(decoded(spec_of(Format.TRIG), Message(trig.encode(), 1))) == [(5, 2), (4, 1), (6, 0)]
    quads = f'<{EX}a> <{EX}p> "1" <{EX}g> .\n<{EX}g> {AT} "5"^^<{XSD}integer> .\n<{EX}a> <{EX}p> "1" <{EX}h> .\n'
    assert sizes(decoded(spec_of(Format.NQUADS), Message(quads.encode(), 1))) == [(5, 1), (None, 0)]
    alone = f'<{EX}g> {AT} "5"^^<{XSD}integer> .\n'
    assert sizes(decoded(spec_of(Format.NQUADS), Message(alone.encode(), 1))) == [(5, 0)]
    assert sizes(decoded(spec_of(Format.NTRIPLES), Message(alone.encode(), 1))) == [(5, 1)]


def test_graphs_without_times_are_one_element() -> None:
    trig = f"{PREFIXES} :g {{ :a :p _:x }} _:x :at 5 ; :q _:x . :h {{ :b :at 5 }}"
    [record] = decoded(spec_of(Format.TRIG, f"<{EX}at>"), Message(trig.encode(), 1))
    assert record.element is not None
    assert record.element.triples[0][2] == record.element.triples[1][0] == "_:0"
    assert sizes([record]) == [(5, 4)]


@pytest.mark.parametrize(
    ("text", "time", "why"),
    [
        (":a :p 1 ; prov:generatedAtTime 5 . :b prov:generatedAtTime 5 .", 5, ""),
        (':a prov:generatedAtTime "1970-01-01T00:00:05Z"^^xsd:dateTime, "1970-01-01T01:00:05+01:00"^^xsd:dateTime .', 5, ""),
        (":a prov:generatedAtTime 5, 6 .", None, "it has more than one prov:generatedAtTime"),
        (":a :p 1 .", None, "it has no prov:generatedAtTime"),
        (':a prov:generatedAtTime "5" .', 5, ""),
        (":a prov:generatedAtTime :b .", None, "its prov:generatedAtTime is no time: <"),
        (":a prov:generatedAtTime [] .", None, "its prov:generatedAtTime is no time: a blank node"),
        (":a prov:generatedAtTime 5", None, "unexpected end (line 1, column"),
        ("", None, "it is an empty message"),
    ],
)
def test_time_of_a_turtle_message(text: str, time: int | None, why: str) -> None:
    body = f"{PREFIXES}@prefix xsd: <{XSD}> . {text}" if text else ""
    [record] = decoded(spec_of(Format.TURTLE), Message(body.encode(), 1))
    assert record.time == (None if time is None else time * 1_000_000)
    assert record.why.startswith(why)
    assert record.reason is (Reason.UNREADABLE if text else Reason.EMPTY)


@pytest.mark.parametrize("form", [each for each in Format if each not in (Format.PARQUET, Format.RECORDING)])  # files alone
def test_limits_are_checked_before_parsing(form: Format) -> None:
    element_map = mapped("t", ":s :p {v} .", columns=("t", "v")) if form in (Format.JSON, Format.CSV) else None
    element_map = mapped("$value", ":s :p {$value} .") if form is Format.TEXT else element_map
    [record] = decoded(spec_of(form, mapped=element_map, record=100), Message(b"x" * 101, 1))
    assert (record.reason, len(record.raw)) == (Reason.LIMIT, 100)
    if form not in (Format.CSV, Format.TEXT, Format.JELLY):
        deep = b"[" * 20_000 if "json" in form.value else b"<a:> <a:> " + b"[ <a:> " * 20_000
        [record] = decoded(spec_of(form, mapped=element_map), Message(deep, 1))
        assert (record.reason, len(record.raw)) == (Reason.LIMIT, min(len(deep), 1 << 16))


@pytest.mark.parametrize("form", [form for form in Format if form not in (Format.PARQUET, Format.RECORDING)])
def test_a_message_without_bytes_is_empty(form: Format) -> None:
    element_map = mapped("t", ":s :p {v} .", columns=("t", "v")) if form in (Format.JSON, Format.CSV) else None
    element_map = mapped("$value", ":s :p {$value} .") if form is Format.TEXT else element_map
    [record] = decoded(spec_of(form, mapped=element_map), Message(b"", 1))
    assert (record.reason, record.time, record.element) == (Reason.EMPTY, None, None)


def test_content_type_of_another_format_is_unreadable() -> None:
    body = f"<{EX}a> {AT} 5 ."
    for header in ("content-type", "Content-Type", "RDF-Message-Content-Type"):
        good, other = (Message(body.encode(), 1, headers=((header, each),)) for each in (b"text/turtle;charset=utf-8", b"application/trig"))
        assert sizes(decoded(spec_of(Format.TURTLE), good)) == [(5, 1)]
        [record] = decoded(spec_of(Format.TURTLE), other)
        assert record.why == f"its {header}, application/trig, does not fit the format turtle"


@pytest.mark.parametrize("form", [Format.JSON, Format.CSV, Format.NDJSON])
@pytest.mark.parametrize("single", [False, True])
def test_graphs_of_late_messages_and_of_other_times_are_not_parsed(form: Format, single: bool) -> None:
    """Times 5, 9, 9, 7, 12 with a delay of 2, or with one element an instant; the filter passes (5, 9]."""
    bodies = {
        Format.JSON: '{{"t": {}, "v": 1}}',
        Format.CSV: "{},1",
        Format.NDJSON: '{{"time": {}, "graph": ":s :p 1 ."}}',
    }
    settings = {"columns": ("t", "v")} if form is Format.CSV else {}
    element_map = mapped("t", ":s :p {v} .", **settings) if form in (Format.JSON, Format.CSV) else None
    spec = replace(spec_of(form, mapped=element_map), delay=0 if single else 2_000_000, single=single)
    times = [5, 9, 9, 7, 6, 12, 8]
    for time_filter, expected in (
        (TimeFilter(), [5, 9, 12] if single else [5, 9, 9, 7, 12]),
        (TimeFilter(after=5_000_000, until=9_000_000), [9] if single else [9, 9, 7]),
        (EVERY_TIME, times),
    ):
        decode = message_decoder(spec, time_filter)
        found = [record for place, time in enumerate(times) for record in decode(Message(bodies[form].format(time).encode(), place), True)]
        assert [record.time for record in found] == [time * 1_000_000 for time in times]
        assert [record.time for record in found if record.element is not None] == [time * 1_000_000 for time in expected]


def test_broken_row_is_unreadable_and_not_second_of_its_own_time() -> None:
    spec = replace(spec_of(Format.CSV, mapped=mapped("t", "<{id}> :p 1 .", columns=("t", "id"))), single=True)
    [record] = message_decoder(spec, TimeFilter())(Message(b"5,no IRI", 0), True)
    assert (record.time, record.stamp) == (None, 5_000_000)
