"""Lines of files and whole messages as values: `format: text`."""

from __future__ import annotations

from pathlib import Path

import pytest

from dotr.model.places import Document
from dotr.model.stream import Reason
from dotr.streams.formats.messages import Message, message_decoder
from dotr.streams.formats.reading import Reader
from dotr.streams.lateness import TimeFilter
from dotr.streams.records import START, ElementMap, Format, InputFile, Position, Record
from tests.conftest import Project
from tests.support.scans import assert_scan_of

pytestmark = pytest.mark.core

XSD = "^^<http://www.w3.org/2001/XMLSchema#"


def file_of(path: Path | str, template: str, time: str = "$value", *, record: int = 1 << 20, **settings: str) -> InputFile:
    mapped = ElementMap(time, Document("map", template), **settings)  # type: ignore[arg-type]
    return InputFile("in", str(path), Format.TEXT, prefixes=(("", "http://e/"),), map=mapped, record=record)


def read(file: InputFile, position: Position = START) -> list[Record]:
    with Reader(file, position) as reader, Reader(file, position, elements=False) as scan:
        records = list(reader.records())
        assert_scan_of(list(scan.records()), records)
    return records


def value_of(record: Record) -> str:
    assert record.element is not None, record.why
    return record.element.triples[0][2]


@pytest.mark.parametrize(
    ("body", "term"),
    [
        (b"21.5", f'"21.5"{XSD}decimal>'),
        (b" -7\n", f'"-7"{XSD}integer>'),
        (b"1e3\r\n", f'"1e3"{XSD}double>'),
        (b"true", f'"true"{XSD}boolean>'),
        (b"false ", f'"false"{XSD}boolean>'),
        (b"True", '"True"'),
        (b"ON", '"ON"'),
        (b"null", '"null"'),
        (b"007", '"007"'),
        (b"+5", '"+5"'),
        (b"NaN", '"NaN"'),
        (b'"a"', r'"\"a\""'),
        (b'{"v": 5}', r'"{\"v\": 5}"'),
        (b" a\tb \n", r'" a\tb "'),
        (b"a\nb\n", r'"a\nb"'),
        ("\ufeffé".encode(), '"é"'),
    ],
)
def test_a_message_is_one_value(body: bytes, term: str) -> None:
    decode = message_decoder(file_of("", "[] :value {$value} .", "$timestamp"))
    [record] = decode(Message(body, 7, 5_000_000), True)
    assert (record.offset, record.end, record.line, record.time) == (7, 8, 7, 5_000_000)
    assert value_of(record) == term


@pytest.mark.parametrize("body", [b"", b"\n", b" \t\r\n", "\u00a0".encode()])
def test_a_blank_message_is_empty(body: bytes) -> None:
    decode = message_decoder(file_of("", "[] :value {$value} .", "$timestamp"))
    for elements in (True, False):
        [record] = decode(Message(body, 7, 5_000_000), elements)
        assert (record.reason, record.element, record.judged_time) == (Reason.EMPTY, None, 5_000_000)


def test_lines_are_values(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(b"\xef\xbb\xbf5\r\n\n7\n\xff\nsoon\n" + b"9" * 50 + b"\n 8")
    file = file_of(path, "[] :value {$value} ; :no {$number} .", record=40)
    records = read(file)
    assert [(each.line, each.time, each.why, each.reason) for each in records] == [
        (1, 5_000_000, "", Reason.UNREADABLE),
        (2, None, "it is blank", Reason.EMPTY),
        (3, 7_000_000, "", Reason.UNREADABLE),
        (4, None, "it is not UTF-8 (byte 0)", Reason.UNREADABLE),
        (5, None, "its time: 'soon' is neither an integer nor an ISO 8601 date-time", Reason.UNREADABLE),
        (6, None, "it has more than 40 bytes (limits.record)", Reason.LIMIT),
        (7, 8_000_000, "", Reason.UNREADABLE),
    ]
    for number, record in enumerate(records):
        assert read(file, Position(record.offset, record.line)) == records[number:]
        if record.element is not None:
            assert record.element.triples[1][2] == f'"{record.line}"{XSD}integer>'
    assert records[3].dead_letter(file).encoding == "base64"
    latin = file_of(path, "[] :value {$value} .", encoding="iso8859-1")
    assert read(latin)[3].why == "its time: 'ÿ' is neither an integer nor an ISO 8601 date-time"


@pytest.mark.parametrize(
    ("time", "settings", "expected"),
    [
        ("$stem", {"time_format": "%Y-%m-%d"}, 1_772_323_200),
        ("$file[-1]", {"time_format": "%Y-%m-%d.txt"}, 1_772_323_200),
        ("{$file[-1]}T{$value}Z", {"time_format": "%Y-%m-%d.txtT%H:%M%z"}, 1_772_323_200),
    ],
)
def test_the_time_of_a_line_may_be_outside_of_it(tmp_path: Path, time: str, settings: dict[str, str], expected: int) -> None:
    path = tmp_path / "2026-03-01.txt"
    path.write_text("00:00\n")
    file = file_of(path, "[] :value {$value} .", time, **settings)  # type: ignore[arg-type]
    assert [(each.time, each.why) for each in read(file)] == [(expected * 1_000_000, "")]


@pytest.mark.parametrize(
    ("time", "why"),
    [
        ("$header.at", "it has no time: $header.at is not there"),
        ("$key", "its time, $key: 'k' is neither an integer nor an ISO 8601 date-time"),
        ("$topic[1]", "it has no time: $topic[1] is not there"),
        ("$received", "its transport gives it no time ($received)"),
    ],
)
def test_a_time_that_a_message_does_not_have_makes_it_unreadable(time: str, why: str) -> None:
    decode = message_decoder(file_of("", "[] :value {$value} .", time))
    message = Message(b"5", 7, key=b"k", topic="a")
    for elements in (True, False):
        assert [(each.time, each.why) for each in decode(message, elements)] == [(None, why)]
    [record] = message_decoder(file_of("", "[] :value {$value} .", "$header.at"))(message._replace(headers=(("AT", b"9"),)), True)
    assert record.time == 9_000_000


def test_an_iri_that_is_none_leaves_the_time(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("5\n")
    [record] = read(file_of(tmp_path / "a.txt", "<{$value}> :is :here ."))
    assert (record.time, record.stamp, record.why) == (None, 5_000_000, "'5' is no absolute IRI")


def test_late_values_make_no_terms(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("5\n9\n6\n8\n")
    with Reader(file_of(tmp_path / "a.txt", "[] :value {$value} ."), time_filter=(passed := TimeFilter(until=8_000_000))) as reader:
        assert [each.element is not None for each in reader.records()] == [True, False, False, False]
    assert passed.greatest == 9_000_000


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ("time: $value", "C202 a text input needs map\n"),
        ("map: '[] :v {$value} .'", "C202 a text input needs time\ntime: $value names the text that holds the time."),
        ("time: $value, map: '[] :v {value} .'", "T107 a text has no value\nA text is one value, {$value}; beside it"),
        ("time: at, map: '[] :v {$value} .'", "T107 time: a text has no at\n"),
        ("time: $key, map: '[] :v {$value} .'", "T107 $key is a property of messages of a broker, not of files\n"),
        ("time: $received, map: '[] :v {$value} .'", "C204 $received is the time that what is copied when it arrives"),
        ("time: $value, map: '[] :v {$value} .', decimal: ','", "C204 decimal belongs to csv, not to text\n"),
        ("time: $value, map: '[] :v {$value} .', each: 'a[]'", "C204 each belongs to csv, json and parquet, not to text\n"),
    ],
)
def test_a_configuration_that_cannot_be_used_is_refused(project: Project, given: str, told: str) -> None:
    project.write("a.txt", "5\n")
    project.change("c.yaml", "format: ndjson, path: a.ndjson", f"format: text, path: a.txt, {given}")
    message = project.refused("check", "c.yaml")
    assert told in "\n".join(line for line in message.splitlines() if not line.startswith(" ")) + "\n"


def test_a_run_counts_blank_lines(project: Project) -> None:
    project.write("in/hall.txt", "1\n\n2\n?\n")
    project.write(
        "r.dotr", "PREFIX : <http://e/>\nrule R define E = [ [] :v ?v ] from F = [ SELECT ?v WHERE { ?x :is ?v } ] with E.?v = F.?v\n"
    )
    settings = "format: text, path: 'in/*.txt', time: $value, map: '[] :is :{$stem} .'"
    project.change("c.yaml", "format: ndjson, path: a.ndjson", settings)
    answer = project.dotr("run", "c.yaml")
    assert answer.code == 0, answer
    assert "1 empty" in answer.err
