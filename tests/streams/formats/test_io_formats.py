"""Formats: elements, unreadable records, positions, and agreement of a scan with a full reading."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from itertools import chain
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dotr.errors.diagnostics import Refused
from dotr.model.places import Document
from dotr.model.stream import Firing, Reason
from dotr.model.terms import XSD
from dotr.model.time import Clock, Unit
from dotr.streams.formats.reading import Reader, check_input, clock_of
from dotr.streams.formats.writing import StreamFormat, compile_writer
from dotr.streams.records import START, ElementMap, Format, InputFile, Position, Record
from tests.support.scans import assert_scan_of

pytestmark = pytest.mark.core

EX = "http://e/"
TIME = "<http://www.w3.org/ns/prov#generatedAtTime>"


def input_file(path: Path, form: Format, csv: ElementMap | None = None) -> InputFile:
    return InputFile("in", str(path), form, prefixes=(("", EX), ("xsd", XSD)), map=csv)


def read(file: InputFile, start: Position = START, *, elements: bool = True) -> list[Record]:
    with Reader(file, start, elements=elements) as reader:
        return list(reader.records())


def records(tmp_path: Path, form: Format, text: str | bytes, csv: ElementMap | None = None) -> list[Record]:
    """The records of a text, with the invariants of records checked."""
    return records_of_file(tmp_path, text, lambda path: input_file(path, form, csv))


def records_of_file(
    tmp_path: Path, text: str | bytes, spec: Callable[[Path], InputFile], shown: Callable[[Record], Record] = lambda each: each
) -> list[Record]:
    """The records of a text as a file of a specification, with the invariants of records checked; `shown` projects what is compared."""

    def read(file: InputFile, start: Position = START, *, elements: bool = True) -> list[Record]:
        with Reader(file, start, elements=elements) as reader:
            return [shown(record) for record in reader.records()]

    content = text.encode() if isinstance(text, str) else text
    plain, packed = tmp_path / "in.txt", tmp_path / "in.gz"
    plain.write_bytes(content)
    packed.write_bytes(gzip.compress(content))
    file, compressed = spec(plain), spec(packed)
    found = read(file)
    assert read(compressed) == found
    assert_scan_of(read(file, elements=False), found)
    for number, record in enumerate(found):
        assert (record.time is None) == (record.element is None) == bool(record.why)
        assert record.element is None or record.element.time == record.time
        assert record.line == content[: record.offset].count(b"\n") + 1
        assert not number or found[number - 1].end <= record.offset
        assert read(file, Position(record.offset, record.line)) == found[number:]
        assert read(compressed, Position(record.offset, record.line)) == found[number:]
    for same in (file, compressed):
        with Reader(same) as reader:
            pieces = [list(reader.records(record.offset)) for record in found]
            assert [shown(each) for each in (*chain.from_iterable(pieces), *reader.records())] == found
            assert all(len(piece) == (number > 0) for number, piece in enumerate(pieces))
            for number in [*range(len(found)), *reversed(range(len(found)))]:
                reader.move(Position(found[number].offset, found[number].line))
                assert shown(next(reader.records())) == found[number]
    return found


def seconds(found: list[Record]) -> list[float | None]:
    return [None if record.time is None else record.time / 1_000_000 for record in found]


# --- ndjson ---


def test_ndjson_elements(tmp_path: Path) -> None:
    lines = [
        '{"time": 10, "graph": ":r1 a :Temp ; :has_val 70 ."}',
        '{"graph": "[] :p [ :q _:x ], _:x .", "time": "1970-01-01 00:00:12", "rule": "R"}',
        "",
        '{"time": 13, "graph": ""}',
        '{"time": 13, "graph": ":a :p :b, :b . :a :p :b ."}',
    ]
    found = records(tmp_path, Format.NDJSON, "\n".join(lines))
    assert seconds(found) == [10, 12, 13, 13]
    assert [record.line for record in found] == [1, 2, 4, 5]
    graphs = [record.element.triples for record in found if record.element]
    a = "<http://www.w3.org/1999/02/22-rdf-syntax-ns#type>"
    assert graphs[0] == ((f"<{EX}r1>", a, f"<{EX}Temp>"), (f"<{EX}r1>", f"<{EX}has_val>", f'"70"^^<{XSD}integer>'))
    assert (
        set(graphs[1]) == {("_:0", f"<{EX}p>", "_:1"), ("_:1", f"<{EX}q>", "_:2"), ("_:0", f"<{EX}p>", "_:2")} or graphs[1][0][0] == "_:0"
    )
    assert graphs[2:] == [(), ((f"<{EX}a>", f"<{EX}p>", f"<{EX}b>"),)]


@pytest.mark.parametrize(
    ("line", "why", "stamp"),
    [
        (b"{", "no JSON", None),
        (b"[]", "no JSON object", None),
        (b'{"graph": ""}', "no time", None),
        (b'{"time": 1.5, "graph": ""}', "neither an integer nor a date-time", None),
        (b'{"time": true, "graph": ""}', "neither an integer nor a date-time", None),
        (b'{"time": "10", "graph": ""}', "no ISO 8601", None),
        (b'{"time": 7}', "no graph", 7),
        (b'{"time": 7, "graph": 1}', "no text", 7),
        (b'{"time": 7, "graph": ":a :b"}', "unexpected end", 7),
        (b'{"time": 7, "graph": "x:a :b :c ."}', "prefix", 7),
        (b'{"time": 7, "graph": "<a> :b :c ."}', "absolute IRI", 7),
        (b'{"time": 7, "graph": ":a :b \'\\ud800\' ."}', "surrogate", 7),
        (b'{"time": 7, "graph": ":a :b <<( 1 :b :c )>> ."}', "not a valid RDF quoted triple subject", 7),
        (b'{"time": 7, "graph": "<<( :a :b :c )>> :b :c ."}', "not a valid subject", 7),
        (b'{"time": 7, "graph": ":a :b <<( :a :b ?c )>> ."}', "not", 7),
        (b'{"time": 7, "graph": "\xff"}', "UTF-8", None),
        (b"[" * 100_000, "nested too deeply", None),
        (b'{"time": 99999999999999999999, "graph": ""}', "time.unit", None),
    ],
)
def test_unreadable_line_is_rejected_and_reading_continues(tmp_path: Path, line: bytes, why: str, stamp: int | None) -> None:
    good = b'{"time": 7, "graph": ""}'
    first, broken, last = records(tmp_path, Format.NDJSON, b"\n".join([good, line, good]))
    assert (first.time, last.time) == (7_000_000, 7_000_000)
    assert why in broken.why
    assert broken.stamp == (None if stamp is None else stamp * 1_000_000)
    assert broken.text == line.decode(errors="replace")
    letter = broken.dead_letter(input_file(tmp_path / "x", Format.NDJSON), Reason.UNREADABLE)
    assert (letter.line, letter.time, letter.input) == (2, broken.stamp, "in")


def test_byte_order_mark_is_skipped(tmp_path: Path) -> None:
    assert seconds(records(tmp_path, Format.NDJSON, b'\xef\xbb\xbf{"time": 1, "graph": ""}\r\n')) == [1]


# --- N-Quads ---


def time_line(graph: str, time: int) -> str:
    return f'<{EX}{graph}> {TIME} "{time}"^^<{XSD}integer> .\n'


def quad_line(graph: str, value: str = "1") -> str:
    return f'_:s <{EX}p> "{value}" <{EX}{graph}> .\n'


def test_nquads_elements_with_the_time_on_either_side(tmp_path: Path) -> None:
    text = (
        time_line("a", 1)
        + quad_line("a")
        + "# a comment\n\n"
        + quad_line("a", "2")
        + quad_line("b")
        + time_line("b", 2)
        + time_line("c", 3)
    )
    found = records(tmp_path, Format.NQUADS, text)
    assert seconds(found) == [1, 2, 3]
    assert [record.line for record in found] == [1, 6, 8]
    assert [record.element and record.element.triples for record in found] == [
        (("_:0", f"<{EX}p>", '"1"'), ("_:0", f"<{EX}p>", '"2"')),
        (("_:0", f"<{EX}p>", '"1"'),),
        (),
    ]


def test_nquads_other_statements_about_a_graph_are_dropped(tmp_path: Path) -> None:
    (record,) = records(tmp_path, Format.NQUADS, f"<{EX}a> <{EX}by> <{EX}x> .\n" + quad_line("a") + time_line("a", 1))
    assert record.element is not None
    assert len(record.element.triples) == 1


@pytest.mark.parametrize(
    ("text", "times", "lines"),
    [
        (quad_line("a") + time_line("b", 2), [None, 2], [1, 2]),
        (time_line("a", 1) + quad_line("a") + quad_line("b") + quad_line("a"), [1, None, None], [1, 3, 4]),
        (time_line("a", 1) + time_line("a", 2) + quad_line("a"), [None], [1]),
        (time_line("a", 1) + time_line("a", 1) + quad_line("a"), [1], [1]),
        (f"<{EX}x> <{EX}p> <{EX}y> .\n" + time_line("a", 1) + quad_line("a"), [None, 1], [1, 2]),
        (f'<{EX}a> {TIME} "soon" .\n' + quad_line("a"), [None], [1]),
        (f'<{EX}a> {TIME} "1" .\n' + quad_line("a"), [1], [1]),
        (f'<{EX}a> {TIME} "2014-02-30T00:00:00"^^<{XSD}dateTime> .\n' + quad_line("a"), [None], [1]),
        # a broken line that is alone, inside a graph, with a graph's name, and beside a time without triples
        (time_line("a", 1) + quad_line("a") + "broken\n" + time_line("b", 2) + quad_line("b"), [1, None, 2], [1, 3, 4]),
        (time_line("a", 1) + "broken\n" + quad_line("a") + time_line("b", 2) + quad_line("b"), [None, 2], [1, 4]),
        (time_line("a", 1) + quad_line("a") + f"broken <{EX}a> .\n" + time_line("b", 2) + quad_line("b"), [None, 2], [1, 4]),
        (f"broken <{EX}a> .\n" + quad_line("a") + time_line("a", 1) + quad_line("b") + time_line("b", 2), [None, 2], [1, 4]),
        (time_line("a", 1) + "broken\n" + time_line("b", 2) + quad_line("b"), [None, 2], [1, 3]),
        ("broken\n" + time_line("b", 2), [None], [1]),
        ("broken\nbroken\n", [None, None], [1, 2]),
    ],
)
def test_nquads_broken_statement_makes_at_most_its_graph_unreadable(
    tmp_path: Path, text: str, times: list[int | None], lines: list[int]
) -> None:
    found = records(tmp_path, Format.NQUADS, text)
    assert seconds(found) == times
    assert [record.line for record in found] == lines


# --- TriG ---


def test_trig_elements(tmp_path: Path) -> None:
    text = (
        "@prefix : <http://e/> . # } not a block\n"
        "PREFIX prov: <http://www.w3.org/ns/prov#>\n"
        ':a { :s :p "}", """long " {\n"" }""", \'it\\\'s . }\' ; :q 1.5, .5, :x.y . }\n'
        ':a prov:generatedAtTime "1970-01-01T00:00:01Z"^^<http://www.w3.org/2001/XMLSchema#dateTime> ; :by :me .\n'
        "@prefix : <http://f/> .\n"
        "{ :b prov:generatedAtTime 2 . }\nGRAPH :b { [] :p [ :q () ] }\n.\n"
        "<http://f/c> prov:generatedAtTime 3.<http://f/c>{:s :p :o}_:d prov:generatedAtTime 4 ._:d{:s :p :o}"
    )
    found = records(tmp_path, Format.TRIG, text)
    assert seconds(found) == [1, 2, 3, 4]
    assert [record.line for record in found] == [3, 7, 10, 10]
    triples = [record.element.triples for record in found if record.element]
    assert [value for _, _, value in triples[0]] == [
        '"}"',
        '"long \\" {\\n\\"\\" }"',
        '"it\'s . }"',
        f'"1.5"^^<{XSD}decimal>',
        f'".5"^^<{XSD}decimal>',
        "<http://e/x.y>",
    ]
    assert {predicate for _, predicate, _ in triples[1]} == {"<http://f/p>", "<http://f/q>"}


@pytest.mark.parametrize(
    ("middle", "times"),
    [
        (":b { :s :p } :b prov:generatedAtTime 2 .\n", [1, None, 3]),
        (":b { :s :p \n:b prov:generatedAtTime 2 .\n", [1, None, 3]),
        (":b { :s :p 'x }\n:b prov:generatedAtTime 2 .\n", [1, None, 3]),
        (":b { :s :p '''x }\n:b prov:generatedAtTime 2 .\n", [1, None, 3]),
        (":b { :s :p <http://e/ b> }\n:b prov:generatedAtTime 2 .\n", [1, None, 3]),
        (":b :c :d .\n", [1, None, 3]),
        ("}\n", [1, None, 3]),
        ("@prefix x <y> .\n", [1, None, 3]),
        ("{ :x prov:generatedAtTime 1 . :y prov:generatedAtTime 2 }\n", [1, None, 3]),
        (":b { }\n:b prov:generatedAtTime 2 .\n", [1, 2, 3]),
    ],
)
def test_trig_broken_statement_makes_at_most_its_graph_unreadable(tmp_path: Path, middle: str, times: list[int | None]) -> None:
    head = "PREFIX : <http://e/> PREFIX prov: <http://www.w3.org/ns/prov#>\n"
    found = records(
        tmp_path,
        Format.TRIG,
        f"{head}:a {{ :s :p :o }}\n:a prov:generatedAtTime 1 .\n{middle}:c {{ :s :p :o }}\n:c prov:generatedAtTime 3 .\n",
    )
    assert seconds(found) == times
    if None in times:
        assert found[1].text.split() == middle.split()


@pytest.mark.parametrize(("written", "time"), [('3, "soon"', 3), ('"soon", "x"', None), ("3, 4", None), ("3, 03", 3)])
def test_trig_unreadable_record_is_judged_by_its_only_valid_time(tmp_path: Path, written: str, time: int | None) -> None:
    text = f"@prefix prov: <http://www.w3.org/ns/prov#> .\n<urn:g> {{ <urn:a> <urn:b> <urn:c> }} <urn:g> prov:generatedAtTime {written} .\n"
    [record] = records(tmp_path, Format.TRIG, text)
    assert (None if record.judged_time is None else record.judged_time // 1_000_000) == time
    assert (record.time is None) == (written != "3, 03")


def test_trig_unfinished_statement_at_the_end_is_rejected(tmp_path: Path) -> None:
    found = records(tmp_path, Format.TRIG, f"<{EX}a> {{ <{EX}s> <{EX}p> ''' }}\n<{EX}b> {{ }}\n<{EX}c> {{ <{EX}s> <{EX}p>")
    assert seconds(found) == [None, None]


_FIRINGS = st.lists(
    st.builds(
        Firing,
        st.integers(0, 10**15),
        st.just("R"),
        st.just("E"),
        st.just((("x", '"1"'),)),
        st.lists(
            st.tuples(
                st.sampled_from(["<http://e/s>", "_:b1"]),
                st.just("<http://e/p>"),
                st.sampled_from(['"a } . { # \\" \\\\"@en', '"\\n"', "<x:y>"]),
            ),
            unique=True,
        ).map(tuple),
        st.just(0),
    ),
    max_size=5,
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=40)
@given(_FIRINGS)
def test_output_of_a_pipeline_is_readable_as_input(tmp_path: Path, firings: list[Firing]) -> None:
    expected = None
    for form in (StreamFormat.NDJSON, StreamFormat.TRIG, StreamFormat.NQUADS, StreamFormat.JSONLD):
        text = "".join(compile_writer(form, Clock(dated=True))(firings))
        found = records(tmp_path, Format(form.value), text)
        assert [record.time for record in found] == [firing.time for firing in firings], form
        graphs = [record.element and record.element.triples for record in found]
        expected = expected or graphs
        assert graphs == expected


# --- CSV ---


def csv_map(text: str, time: str = "t", delimiter: str = ",") -> ElementMap:
    return ElementMap(time, Document("map", text), delimiter)


ALL = csv_map(":s :a {a} ; :b :x{b}, '{b}', '{a} {b}'@en, [ :c {c} ] .")


def values(record: Record) -> list[str]:
    assert record.element is not None
    return [value for _, _, value in record.element.triples]


def test_csv_cells(tmp_path: Path) -> None:
    text = 't,a,b,c\n1,5,Å/b,x\n2,5.0,"q ""r"", s",1e3\n1970-01-01T00:00:03,007,,\n'
    first, second, third = records(tmp_path, Format.CSV, text, ALL)
    assert seconds([first, second, third]) == [1, 2, 3]
    assert values(first) == [f'"5"^^<{XSD}integer>', f"<{EX}x%C3%85%2Fb>", '"Å/b"', '"5 Å/b"@en', "_:0", '"x"']
    assert values(second) == [
        f'"5.0"^^<{XSD}decimal>',
        f"<{EX}xq%20%22r%22%2C%20s>",
        '"q \\"r\\", s"',
        '"5.0 q \\"r\\", s"@en',
        "_:0",
        f'"1e3"^^<{XSD}double>',
    ]
    assert values(third) == ['"007"', "_:0"]


def test_csv_blank_nodes_are_numbered_by_appearance_in_the_triples(tmp_path: Path) -> None:
    (record,) = records(tmp_path, Format.CSV, "t,a,b\n1,,2\n", csv_map("[] :p {a} . [] :p {b} . :s :p [] ."))
    assert record.element is not None
    assert [(subject, value) for subject, _, value in record.element.triples] == [("_:0", f'"2"^^<{XSD}integer>'), (f"<{EX}s>", "_:1")]


def test_csv_records_over_several_lines_have_their_first_line(tmp_path: Path) -> None:
    text = '\ufefft,"a\nb",c\r\n1,"x\ny",2\r\n\r\n2,"z","3"\r\n'
    first, second = records(tmp_path, Format.CSV, text, csv_map(":s :p '{c}'"))
    assert (first.line, second.line) == (3, 6)
    assert first.text == '1,"x\ny",2'
    assert (values(first), values(second)) == (['"2"'], ['"3"'])


@pytest.mark.parametrize(
    ("row", "why"),
    [
        ("2,a", "it has 2 columns where the header has 3"),
        ("2", "it has 1 column where"),
        ("2,a,b,c", "it has 4 columns"),
        ("soon,a,b", "its time, t: 'soon' is neither"),
        (",a,b", "its time, t: it is empty"),
        ('2,"a,b', "a quote is never closed"),
        ("2,a\rb,c", "no row"),
        (b"2,\xff,b", "UTF-8"),
    ],
)
def test_csv_unreadable_row_is_one_line(tmp_path: Path, row: str | bytes, why: str) -> None:
    raw = row if isinstance(row, bytes) else row.encode()
    found = records(tmp_path, Format.CSV, b"t,a,b\n1,a,b\n" + raw + b"\n3,a,b\n4,a,b\n", csv_map(":s :p {a}, {b}"))
    assert seconds(found) == [1, None, 3, 4]
    assert why in found[1].why
    assert found[1].raw == raw + b"\n"


def test_csv_stray_quote_makes_one_line_unreadable(tmp_path: Path) -> None:
    text = 't,a\n1,"x\n2,y\n3,"z\n4,"ok"\n5,"o""k"\n6,"no"t\n7,o"k\n8,"\n'
    found = records(tmp_path, Format.CSV, text, csv_map(":s :p {a}"))
    assert [record.line for record in found] == list(range(2, 10))
    assert seconds(found) == [None, 2, None, 4, 5, None, 7, None]


_CELLS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), max_size=6)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
@given(st.lists(st.tuples(_CELLS, _CELLS), max_size=4))
def test_csv_module_output_is_read_back(tmp_path: Path, rows: list[tuple[str, str]]) -> None:
    import csv
    import io

    from pyoxigraph import Literal, NamedNode

    out = io.StringIO()
    csv.writer(out).writerows([("t", "a", "b"), *((number, *row) for number, row in enumerate(rows))])
    found = records(tmp_path, Format.CSV, out.getvalue(), csv_map(':s :p "{a}", "{b}|{a}", <http://x/{a}> .'))
    assert seconds(found) == list(range(len(rows)))
    for record, (a, b) in zip(found, rows, strict=True):
        expected = [*([str(Literal(a))] if a else []), *([str(Literal(f"{b}|{a}"))] if a and b else [])]
        assert values(record)[: len(expected)] == expected
        for iri in values(record)[len(expected) :]:
            NamedNode(iri[1:-1])


def refused(check: Callable[[], object]) -> list[tuple[str, str, str]]:
    with pytest.raises(Refused) as caught:
        check()
    return [(each.code, each.message, each.hint) for each in caught.value.diagnostics]


def test_missing_column_error_lists_the_columns(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("time,speed\n")
    file = input_file(path, Format.CSV, csv_map(":s :p {sped}", "TIMESTAMP"))
    (first, second) = refused(lambda: check_input(file))
    assert (first[0], second[0]) == ("I103", "I103")
    assert "no column TIMESTAMP, which time names" in first[1]
    assert first[2] == "Its columns are time, speed."
    assert second[2] == "Did you mean speed? Its columns are time, speed."


def test_invalid_input_is_refused_before_reading(tmp_path: Path) -> None:
    empty = tmp_path / "empty.csv"
    empty.write_text("\n")
    twice = tmp_path / "twice.csv"
    twice.write_text("t,t\n")
    wrong = tmp_path / "wrong.csv"
    wrong.write_text("t;a\n")
    assert refused(lambda: check_input(input_file(empty, Format.CSV, csv_map(""))))[0][0] == "I102"
    assert refused(lambda: check_input(input_file(twice, Format.CSV, csv_map(""))))[0][0] == "I104"
    assert "is the delimiter ','?" in refused(lambda: check_input(input_file(wrong, Format.CSV, csv_map(""))))[0][2]
    assert [code for code, _, _ in refused(lambda: check_input(input_file(tmp_path / "no", Format.CSV, csv_map("x:a :b {t"))))] == [
        "I101",
        "T103",
        "T101",
    ]
    assert refused(lambda: check_input(input_file(tmp_path, Format.NDJSON)))[0][0] == "I101"
    assert refused(lambda: check_input(InputFile("in", str(empty), Format.NDJSON, prefixes=(("a", "b c"),))))[0][0] == "I105"


def test_csv_delimiter_is_configurable(tmp_path: Path) -> None:
    found = records(tmp_path, Format.CSV, 't;a\n1;x,y\n2;"x;y"\n', csv_map(":s :p {a}", delimiter=";"))
    assert [values(record) for record in found] == [['"x,y"'], ['"x;y"']]


# --- any format ---


def test_damaged_file_is_read_up_to_the_damage(tmp_path: Path) -> None:
    path = tmp_path / "a.ndjson.gz"
    whole = gzip.compress("".join(f'{{"time": {n}, "graph": ":a :p {n * n} ."}}\n' for n in range(5000)).encode())
    path.write_bytes(whole[: len(whole) // 2])
    found = read(input_file(path, Format.NDJSON))
    assert len(found) > 100
    assert [record.time is None for record in found] == [False] * (len(found) - 1) + [True]
    assert "cannot be read from here on" in found[-1].why
    assert found[-1].line == len(found)


def test_output_times_are_date_times_if_an_input_has_date_times(tmp_path: Path) -> None:
    def clock(*times: object) -> Clock:
        path = tmp_path / "a.ndjson"
        path.write_text("broken\n" + "".join(json.dumps({"time": time, "graph": ""}) + "\n" for time in times))
        return clock_of([input_file(path, Format.NDJSON)], Unit.MINUTE)

    assert clock("2014-08-01T00:00:00", 5) == Clock(Unit.MINUTE, dated=True)
    assert clock(0, 5) == Clock(Unit.MINUTE)
    assert clock("1970-01-01T00:00:00", "1970-01-01T00:00:01") == Clock(Unit.MINUTE, dated=True)
    assert clock() == Clock(Unit.MINUTE)


def test_an_unfinished_json_text_names_its_column_once(tmp_path: Path) -> None:
    path = tmp_path / "a.ndjson"
    path.write_text('{"time": 5, "graph": ":a\n')
    with Reader(InputFile("in", str(path), Format.NDJSON)) as reader:
        (record,) = reader.records()
    assert record.why == "it is no JSON: invalid control character at column 25"
