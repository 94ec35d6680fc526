"""JSON inputs: cuts, paths, maps with repetition, times, and positions inside a message."""

from __future__ import annotations

import gzip
import json
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dotr.errors.diagnostics import Refused
from dotr.model.places import Document
from dotr.model.stream import Reason
from dotr.streams.formats.json.cuts import document_cuts
from dotr.streams.formats.reading import Reader, check_input
from dotr.streams.records import START, ElementMap, Format, InputFile, Position, Record
from tests.support.scans import assert_scan_of

pytestmark = pytest.mark.core

EX = "http://e/"
XSD = "http://www.w3.org/2001/XMLSchema#"
MAP = "<{id}> :v {v} ."


def file_of(path: Path | str, template: str = MAP, time: str = "at", **settings: Any) -> InputFile:
    record = settings.pop("record", 1 << 20)
    mapped = ElementMap(time, Document("map", template), **settings)
    return InputFile("in", str(path), Format.JSON, prefixes=(("", EX), ("xsd", XSD)), map=mapped, record=record)


def read(file: InputFile, position: Position = START, *, elements: bool = True) -> list[Record]:
    with Reader(file, position, elements=elements) as reader:
        return list(reader.records())


def shown(record: Record) -> list[str]:
    assert record.element is not None, record.why
    return [" ".join(triple).replace(f"<{EX}", ":").replace(">", "") for triple in record.element.triples]


def message(number: int, **further: object) -> dict[str, object]:
    return {"id": f"urn:x:{number}", "v": number, "at": number, **further}


@pytest.mark.parametrize("indent", [None, 2])
@pytest.mark.parametrize("as_array", [False, True])
def test_lines_documents_and_arrays_give_the_same_elements(tmp_path: Path, indent: int | None, as_array: bool) -> None:
    objects = [message(1), message(2, note='a "}" \\ in text'), message(3)]
    text = json.dumps(objects, indent=indent) if as_array else "\n".join(json.dumps(each, indent=indent) for each in objects)
    path = tmp_path / "a.json"
    path.write_text(text)
    records = read(file_of(path))
    assert [record.time for record in records] == [1_000_000, 2_000_000, 3_000_000]
    for number, record in enumerate(records):
        assert read(file_of(path), Position(record.offset, record.line)) == records[number:]
        assert json.loads(text.encode()[record.offset : record.end].strip().rstrip(b",]")) == objects[number]


def test_broken_line_is_one_unreadable_record(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text('{"id": "urn:x:1", "at": 1}\n{"id": "urn:x:2", "at\n\n{"id": "urn:x:3", "at": 3}\n[4]\n')
    records = read(file_of(path))
    assert [(record.line, record.time, record.why) for record in records] == [
        (1, 1_000_000, ""),
        (2, None, "it is no JSON: invalid control character at column 22"),
        (4, 3_000_000, ""),
        (5, None, "it is no JSON object"),
    ]


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ('{"id": "urn:x:1", "v": 1}', "it has no at"),
        ('{"id": "urn:x:1", "at": "soon"}', "its time, at: 'soon' is neither an integer nor an ISO 8601 date-time"),
        ('{"id": "urn:x:1", "at": [1]}', "its time, at, is neither text nor a number"),
        ('{"id": "x y", "v": 1, "at": 1}', "'x y' is no absolute IRI"),
        ('{"id": "urn:x:1", "v": {"a": 1}, "at": 1}', "an object is found where the map needs a value"),
        ('{"id": "urn:x:1", "v": [1], "at": 1}', "a list is found where the map needs a value"),
        ('{"id": "urn:x:1", "v": NaN, "at": 1}', "NaN is no JSON"),
        ('{"id": -Infinity, "v": 1, "at": 1}', "-Infinity is no JSON"),
        ('{"id": "urn:x:1", "v": 1, "at": NaN}', "its time, at, is neither text nor a number"),
        ('{"id": "urn:x:1", "v": "\\ud800", "at": 1}', "it has half of a surrogate pair, which is no character"),
        ('{"id": "urn:x:1", "v": 1e400, "at": 1e400}', "its time, at: 1e400 is no time: it is out of range; is time.unit right?"),
    ],
)
def test_unusable_object_is_unreadable_and_has_its_time_in_a_scan_too(tmp_path: Path, value: str, reason: str) -> None:
    path = tmp_path / "a.json"
    path.write_text(value + "\n")
    [record] = read(file_of(path))
    assert (record.time, record.why, record.reason) == (None, reason, Reason.UNREADABLE)
    assert_scan_of(read(file_of(path), elements=False), [record])


def test_constants_in_members_that_nothing_reads_are_nothing(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text('{"id": "urn:x:1", "v": 1, "at": 1, "w": NaN, "x": [Infinity, {"y": -Infinity}]}\n')
    [record] = read(file_of(path))
    assert shown(record) == [f'<urn:x:1 :v "1"^^<{XSD}integer']
    [record] = read(file_of(path, "<{id}> :v {x[]} ."))
    assert record.why == "Infinity is no JSON"


GLUED = [
    pytest.param('{{"at": 1, "v": "é"}}{{"at": 2, "v": 2}} {{"at": 3, "v": 3}}\n{{"at": 4, "v": 4}}{}', id="some lines have several"),
    pytest.param('{{"at": 1, "v": "é"}}{{"at": 2, "v": 2}}{{"at": 3, "v": 3}}\t{{"at": 4, "v": 4}}{}', id="one line"),
    pytest.param('{{"at": 1,\n"v": "é"}}{{"at": 2, "v": 2}} {{"at": 3,\n "v": 3}}{{"at": 4, "v": 4}}{}', id="over lines"),
    pytest.param(
        '\x1e{{"at": 1, "v": "é"}}\n\x1e{{"at": 2, "v": 2}}\n\x1e\n\x1e{{"at": 3, "v": 3}}\n\x1e{{"at": 4, "v": 4}}{}', id="separators"
    ),
    pytest.param(
        '\x1e{{\n"at": 1, "v": "é"}}\n\x1e{{"at": 2,\n "v": 2}}\x1e{{"at": 3, "v": 3}}\n\x1e{{"at": 4, "v": 4}}{}',
        id="separators over lines",
    ),
    pytest.param(
        '\ufeff{{"at": 1, "v": "é"}}{{"at": 2, "v": 2}}\r\n{{"at": 3, "v": 3}}{{"at": 4, "v": 4}}{}', id="a mark of the byte order"
    ),
]


@pytest.mark.parametrize("text", GLUED)
@pytest.mark.parametrize("end", ["", "\n", "\r\n\r\n"])
@pytest.mark.parametrize("limit", [30, 1 << 20])
@pytest.mark.parametrize("packed", [False, True])
def test_objects_one_after_the_other_are_elements(tmp_path: Path, text: str, end: str, limit: int, packed: bool) -> None:
    path = tmp_path / "a.json"
    raw = text.format(end).encode()
    path.write_bytes(gzip.compress(raw) if packed else raw)
    file = file_of(path, ":s :v {v} .", record=limit)
    records = read(file)
    assert [record.time for record in records] == [1_000_000, 2_000_000, 3_000_000, 4_000_000], [record.why for record in records]
    assert_scan_of(read(file, elements=False), records)
    for number, record in enumerate(records):
        assert json.loads(record.raw.decode("utf-8-sig").strip("\x1e \r\n")) == json.loads(
            raw[record.offset : record.end].decode("utf-8-sig").strip("\x1e \r\n")
        )
        assert record.line == 1 + raw.count(b"\n", 0, record.offset)
        assert read(file, Position(record.offset, record.line)) == records[number:]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"at": 1}{"at": 2, "v"}{"at": 3}\n{"at": 4}\n', [(1, '{"at": 1}'), (None, '{"at": 2, "v"}{"at": 3}'), (4, '{"at": 4}')]),
        ('{"at": 1}{"at": [\n{"at": 4}\n', [(1, '{"at": 1}'), (None, '{"at": [\n{"at": 4}\n')]),  # no line ends in an object
        ('{"at": 1}\n{"at": 2}{"at": [\n{"at": 4}\n', [(1, '{"at": 1}'), (2, '{"at": 2}'), (None, '{"at": ['), (4, '{"at": 4}')]),
        ('{"at": 1}\n{"at": 2}{"at": 3} x\n{"at": 4}\n', [(1, '{"at": 1}'), (2, '{"at": 2}'), (None, '{"at": 3} x'), (4, '{"at": 4}')]),
        ('\x1e{"at": 1}\n\x1e{"at": 2\n\x1e{"at": 4}\n', [(1, '\x1e{"at": 1}'), (None, '\x1e{"at": 2'), (4, '\x1e{"at": 4}')]),
        ('\x1e{\n"at": 1}\n\x1e{"at": "2\n\x1e{"at": 4}\n', [(1, '{\n"at": 1}'), (None, '{"at": "2\n'), (4, '{"at": 4}')]),
    ],
)
def test_broken_object_costs_the_rest_of_its_line(tmp_path: Path, text: str, expected: list[tuple[int | None, str]]) -> None:
    path = tmp_path / "a.json"
    path.write_text(text)
    records = read(file_of(path, ":s :v {v} ."))
    for number, record in enumerate(records):
        assert read(file_of(path, ":s :v {v} ."), Position(record.offset, record.line)) == records[number:]
    assert [(record.time and record.time // 1_000_000, record.text) for record in records] == [
        (at, each.removesuffix("\n")) for at, each in expected
    ]


def test_cost_of_objects_in_one_line_is_that_of_their_text(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text('{"at": 1, "v": "é"}' * 20_000 + "\n")  # looking at the whole line for each of them would take a minute
    records = read(file_of(path, ":s :v {v} ."))
    assert len(records) == 20_000
    assert records[-1].end == path.stat().st_size
    assert sum(len(record.raw) for record in records) == path.stat().st_size


def test_long_line_of_short_objects_is_cut_into_them(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    long = '{"at": 3, "v": "' + "x" * 300 + '"}'
    path.write_text('{"at": 1}\n' + '{"at": 2}' * 50 + long + '{"at": 4, "v"\n{"at": 5}\n' + "x" * 300 + '\n{"at": 6}')
    records = read(file_of(path, ":s :v {v} .", record=100))
    found = [(record.line, record.time and record.time // 1_000_000, record.reason.value) for record in records]
    broken = [(2, None, "limit"), (2, None, "unreadable")]
    assert found == [
        (1, 1, "unreadable"),
        *[(2, 2, "unreadable")] * 50,
        *broken,
        (3, 5, "unreadable"),
        (4, None, "limit"),
        (5, 6, "unreadable"),
    ]


def test_time_of_an_unreadable_object_is_read(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text('{"at": 1, "id": "\\ud800"}\n{"at": 2, "id": "x y"}\n{"at": "\\ud800"}\n')
    for elements in (True, False):
        assert [record.judged_time for record in read(file_of(path), elements=elements)] == [1_000_000, 2_000_000, None]
    assert "surrogate" in read(file_of(path))[2].why


def test_terms_of_numbers_keep_their_lexical_form(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text('{"at": 1, "i": 10, "d": 2.50, "e": 1E3, "t": true, "s": "007", "n": null, "empty": "", "i": 11}\n')
    [record] = read(file_of(path, "[] :i {i} ; :d {d} ; :e {e} ; :t {t} ; :s {s} ; :n {n} ; :m {missing.x} ; :empty {empty} ."))
    assert shown(record) == [
        f'_:0 :i "11"^^<{XSD}integer',
        f'_:0 :d "2.50"^^<{XSD}decimal',
        f'_:0 :e "1E3"^^<{XSD}double',
        f'_:0 :t "true"^^<{XSD}boolean',
        '_:0 :s "007"',
        '_:0 :empty ""',
    ]


def test_list_repeats_the_smallest_part_of_the_template_around_it(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text('{"at": 1, "id": "urn:x:1", "tags": ["a", "b"], "parts": [{"n": 1, "of": "A"}, {"n": 2}], "none": null}\n')
    [record] = read(
        file_of(path, "<{id}> :tag {tags[]} ; :part [ :no {parts[].n} ; :of {parts[].of} ] ; :x {none[].y} ; :first {tags[0]} .")
    )
    assert shown(record) == [
        '<urn:x:1 :tag "a"',
        '<urn:x:1 :tag "b"',
        "<urn:x:1 :part _:0",
        f'_:0 :no "1"^^<{XSD}integer',
        '_:0 :of "A"',
        "<urn:x:1 :part _:1",
        f'_:1 :no "2"^^<{XSD}integer',
        '<urn:x:1 :first "a"',
    ]


def test_nested_lists_repeat_inside_each_other(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text('{"at": 1, "p": [{"n": 1, "s": [{"m": 1}, {"m": 2}]}, {"n": 2, "s": []}]}\n')
    [record] = read(file_of(path, ":s :part [ :no {p[].n} ; :sub [ :m {p[].s[].m} ; :in {p[].n} ] ] ."))
    assert shown(record) == [
        ":s :part _:0",
        f'_:0 :no "1"^^<{XSD}integer',
        "_:0 :sub _:1",
        f'_:1 :m "1"^^<{XSD}integer',
        f'_:1 :in "1"^^<{XSD}integer',
        "_:0 :sub _:2",
        f'_:2 :m "2"^^<{XSD}integer',
        f'_:2 :in "1"^^<{XSD}integer',
        ":s :part _:3",
        f'_:3 :no "2"^^<{XSD}integer',
    ]


@pytest.mark.parametrize(
    ("template", "settings", "reported"),
    [
        (":s :p [ :a {x[].n} ; :b {y[].n} ] .", {}, "map:1:25: T108 {x[].n} and {y[].n} go through two lists: each item with each"),
        (":s :p ( {x[]} ) .", {}, "map:1:9: T108 {x[]} cannot repeat inside a list in parentheses"),
        (":s :p <<( :a :b {x[]} )>> .", {}, "map:1:17: T108 {x[]} cannot repeat inside a quoted triple"),
        (":s :p {a..b} .", {}, "map:1:7: T107 a member's name is missing after a."),
        (":s :p {$topic} .", {}, "map:1:7: T107 $topic is a property of messages of a broker, not of files"),
        (":s :p {x} .", {"time": "x[]"}, "T107 time: x[] goes through a list, and an element has one time"),
        (":s :p {x} .", {"each": "x"}, "T107 each: x names no list: a path of `each` ends with [], as in data[]"),
    ],
)
def test_map_that_cannot_be_used_is_refused(tmp_path: Path, template: str, settings: dict[str, str], reported: str) -> None:
    with pytest.raises(Refused) as refused:
        check_input(file_of("", template, **{"time": "at", **settings}))
    assert str(refused.value).startswith(reported)


@pytest.mark.parametrize("packed", [False, True])
def test_items_of_each_are_elements_with_distinct_positions(tmp_path: Path, packed: bool) -> None:
    path = tmp_path / ("a.json.gz" if packed else "a.json")
    first = {"sent": 7, "data": [message(1), {"id": "no IRI", "at": 2}, message(3)]}
    raw = f"{json.dumps(first)}\n{json.dumps({'data': []})}\n{json.dumps({'sent': 8, 'data': [message(4)]})}\n{{}}\n".encode()
    path.write_bytes(gzip.compress(raw) if packed else raw)
    file = file_of(path, "<{id}> :v {v} ; :sent {^.sent} .", each="data[]")
    records = read(file)
    assert [(record.line, record.time, record.why) for record in records] == [
        (1, 1_000_000, ""),
        (1, None, "item 2 of data[]: 'no IRI' is no absolute IRI"),
        (1, 3_000_000, ""),
        (2, None, "its list is empty"),
        (3, 4_000_000, ""),
        (4, None, "it has no data"),
    ]
    assert shown(records[2])[1] == f'<urn:x:3 :sent "7"^^<{XSD}integer'
    for number, record in enumerate(records):
        assert read(file, Position(record.offset, record.line)) == records[number:]


def test_times_are_parsed_in_a_format_and_a_zone(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text('{"t": {"at": "01.03.2024 08:00"}}\n{"t": {"at": "31.03.2024 02:30"}}\n')
    file = file_of(path, ":s :p 1 .", "t.at", time_format="%d.%m.%Y %H:%M", time_zone="Europe/Berlin")
    good, missing = read(file)
    assert good.time == 1_709_276_400_000_000
    assert missing.why == "its time, t.at: there is no 31.03.2024 02:30 in Europe/Berlin: clocks were put forward"


def test_object_beyond_the_limit_is_one_dead_letter(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    for before, between, after in (("", "\n", ""), ("[", ",\n", "]")):
        long = json.dumps(message(2, note="x" * 100_000 + "{["))
        path.write_text(before + between.join([json.dumps(message(1)), long, json.dumps(message(3))]) + after)
        records = read(file_of(path, record=1_000))
        assert [(record.line, record.time, record.reason.value) for record in records] == [
            (1, 1_000_000, "unreadable"),
            (2, None, "limit"),
            (3, 3_000_000, "unreadable"),
        ]
        assert all(len(record.raw) <= 1_000 for record in records)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)


@given(objects=st.lists(st.dictionaries(st.text(max_size=3), VALUES, max_size=3), max_size=4), data=st.data())
def test_cuts_of_a_document_are_its_objects(objects: list[dict[str, object]], data: st.DataObject) -> None:
    indent = data.draw(st.sampled_from([None, 1]))
    array = data.draw(st.booleans())
    text = (
        json.dumps(objects, indent=indent) if array else " \n".join(json.dumps(each, indent=indent, ensure_ascii=False) for each in objects)
    )
    raw = text.encode("utf-8", "surrogatepass")
    cuts = list(document_cuts(BytesIO(raw), 0, 1, 1 << 20))
    assert [json.loads(cut.raw.decode("utf-8", "surrogatepass")) for cut in cuts] == objects
    assert [raw[cut.offset : cut.end] for cut in cuts] == [cut.raw for cut in cuts]
    assert [1 + raw.count(b"\n", 0, cut.offset) for cut in cuts] == [cut.line for cut in cuts]
