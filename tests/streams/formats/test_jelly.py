"""Jelly: elements, positions, broken and hostile frames, and frames of our own as another library reads them."""

from __future__ import annotations

import gzip
import io
import random
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyjelly")

from pyjelly import jelly
from pyjelly.integrations.generic.generic_sink import IRI, BlankNode, Literal
from pyjelly.integrations.generic.parse import parse_jelly_grouped

from dotr.errors.diagnostics import Refused
from dotr.model.stream import Firing, Reason
from dotr.model.terms import XSD
from dotr.model.time import Clock
from dotr.streams.formats.content import whole_reason
from dotr.streams.formats.messages import Message, message_decoder
from dotr.streams.formats.rdf.jelly_frames import FrameDecoder, FrameEncoder, delimited, frames
from dotr.streams.formats.rdf.named_graphs import NamedGraph, nquads_texts
from dotr.streams.formats.reading import Reader, check_input
from dotr.streams.formats.writing import frame_writer
from dotr.streams.records import START, Format, GraphSettings, InputFile, Position, Record
from tests.support.scans import assert_scan_of

pytestmark = pytest.mark.core

AT = "http://www.w3.org/ns/prov#generatedAtTime"
Rows = Sequence[tuple[str, dict[str, Any]]]
"""The kind and the fields of each row of a frame."""


def frame(rows: Rows) -> bytes:
    built = jelly.RdfStreamFrame()
    for kind, fields in rows:
        getattr(built.rows.add(), kind).MergeFrom(getattr(jelly, KINDS[kind])(**fields))
    return bytes(built.SerializeToString())


KINDS = {
    "options": "RdfStreamOptions",
    "name": "RdfNameEntry",
    "prefix": "RdfPrefixEntry",
    "datatype": "RdfDatatypeEntry",
    "triple": "RdfTriple",
    "quad": "RdfQuad",
    "graph_start": "RdfGraphStart",
    "graph_end": "RdfGraphEnd",
    "namespace": "RdfNamespaceDeclaration",
}


def options(physical: int = 1, **others: int) -> tuple[str, dict[str, Any]]:
    sizes = {"max_name_table_size": 16, "max_prefix_table_size": 4, "max_datatype_table_size": 4}
    return "options", {"physical_type": physical, "version": 1, **sizes, **others}


def iri(name: int, prefix: int = 0) -> Any:
    return jelly.RdfIri(prefix_id=prefix, name_id=name)


NAMES: Rows = (
    ("prefix", {"value": "http://e/"}),
    *(("name", {"value": name}) for name in ("a", "p", "b")),
    ("prefix", {"value": ""}),
    ("name", {"value": AT}),
    ("datatype", {"value": f"{XSD}integer"}),
)
"""Prefix 1 and the names 1 to 3 are `:a`, `:p`, `:b`; name 4 is the time, under the empty prefix 2."""


def at(time: int, subject: int = 1) -> dict[str, Any]:
    return {"s_iri": iri(subject, 1), "p_iri": iri(4, 2), "o_literal": jelly.RdfLiteral(lex=str(time), datatype=1)}


def reading(path: Path, **settings: Any) -> InputFile:
    return InputFile("in", str(path), Format.JELLY, **settings)


def read(file: InputFile, start: Position = START, *, elements: bool = True) -> list[Record]:
    with Reader(file, start, elements=elements) as reader:
        return list(reader.records())


def records(tmp_path: Path, *bodies: bytes, **settings: Any) -> list[Record]:
    """The records of a file of frames, which are the same in a scan, when compressed, and from each position."""
    content = b"".join(map(delimited, bodies))
    return records_of(tmp_path, content, **settings)


def records_of(tmp_path: Path, content: bytes, **settings: Any) -> list[Record]:
    plain, packed = tmp_path / "in.jelly", tmp_path / "in.jelly.gz"
    plain.write_bytes(content)
    packed.write_bytes(gzip.compress(content))
    file = reading(plain, **settings)
    found = read(file)
    assert read(replace(file, path=str(packed))) == found
    assert_scan_of(read(file, elements=False), found)
    end = 0
    for number, record in enumerate(found):
        assert end <= record.offset < record.end <= len(content)
        end = record.end
        assert (record.time is None) == (record.element is None) == bool(record.why)
        assert read(file, Position(record.offset, record.line)) == found[number:]
    return found


def triples(record: Record) -> list[str]:
    assert record.element is not None, record.why
    return [" ".join(triple).replace("http://e/", "") for triple in record.element.triples]


def test_frame_of_triples_is_an_element(tmp_path: Path) -> None:
    """Terms that a statement leaves out are those of the one before, and names of one frame are used by the next."""
    first = frame([options(), *NAMES, ("triple", {"s_iri": iri(1, 1), "p_iri": iri(2), "o_bnode": "x y"}), ("triple", at(5))])
    second = frame(
        [("triple", {"s_bnode": "x y", "p_iri": iri(2, 1), "o_iri": iri(0)}), ("triple", {"o_bnode": "z"}), ("triple", at(6, 3))]
    )
    one, empty, two = records(tmp_path, first, b"", second)
    assert (one.time, one.line, two.time, two.line) == (5_000_000, 1, 6_000_000, 3)
    assert triples(one)[0] == "<a> <p> _:0"
    assert triples(two)[:2] == ["_:0 <p> <b>", "_:0 <p> _:1"]
    assert FrameDecoder(1000).nquads(first).startswith("<http://e/a> <http://e/p> _:_782079 .\n")
    assert empty.reason is Reason.EMPTY


def test_time_may_be_at_another_predicate(tmp_path: Path) -> None:
    body = frame([options(), *NAMES, ("triple", {"s_iri": iri(1, 1), "p_iri": iri(2), "o_literal": jelly.RdfLiteral(lex="7", datatype=1)})])
    [record] = records(tmp_path, body, graphs=GraphSettings("<http://e/p>"))
    assert record.time == 7_000_000
    [record] = records(tmp_path, body)
    assert record.why == "it has no prov:generatedAtTime"


def test_named_graphs_with_times_are_elements(tmp_path: Path) -> None:
    """Of quads, and of graphs, of which one goes on in the next frame."""
    default = {"g_default_graph": jelly.RdfDefaultGraph()}
    quads = [
        ("quad", {**at(5, 1), **default}),
        ("quad", {**at(6, 3), **default}),
        ("quad", {"s_iri": iri(2, 1), "p_iri": iri(2), "o_iri": iri(2), "g_iri": iri(1)}),
        ("quad", {"g_iri": iri(3)}),
    ]
    one, two = records(tmp_path, frame([options(2), *NAMES, *quads]))
    assert [(record.time, triples(record)) for record in (one, two)] == [(5_000_000, ["<p> <p> <p>"]), (6_000_000, ["<p> <p> <p>"])]
    assert one.line == two.line == 1
    graphs = [
        ("graph_start", default),
        ("triple", at(5, 1)),
        ("graph_end", {}),
        ("graph_start", {"g_iri": iri(1, 1)}),
        ("triple", {"s_iri": iri(2, 1), "p_iri": iri(2), "o_bnode": "b"}),
    ]
    further = frame([("triple", {"o_iri": iri(3, 1)}), ("graph_end", {}), ("graph_start", default), ("triple", at(8, 1))])
    one, two = records(tmp_path, frame([options(3), *NAMES, *graphs]), further)
    assert (one.time, triples(one)) == (5_000_000, ["<p> <p> _:0"])
    assert (two.time, triples(two)) == (8_000_000, ["<p> <p> <b>"])


def test_wrong_statement_costs_its_frame_alone(tmp_path: Path) -> None:
    """An IRI or a language that is none, a literal as subject, and an IRI that would end the statement and begin another."""
    wrong: list[dict[str, Any]] = [
        {"s_literal": jelly.RdfLiteral(lex="x"), "p_iri": iri(2, 1), "o_iri": iri(3)},
        {"s_iri": iri(1, 1), "p_iri": iri(2), "o_literal": jelly.RdfLiteral(lex="x", langtag="a <http://e/g> .\n<http://e/a")},
        {"s_iri": iri(1, 1), "p_iri": iri(2), "o_iri": iri(5)},
        {"s_iri": iri(1, 2), "p_iri": iri(2, 1), "o_iri": iri(3)},
    ]
    evil = ("name", {"id": 5, "value": "c> .\n<http://e/a> <http://e/p> <http://e/"})
    bodies = [frame([options(), *NAMES, evil])]
    bodies += [frame([("triple", statement), ("triple", at(5))]) for statement in wrong]
    found = records(tmp_path, *bodies, frame([("triple", at(6))]))
    assert [record.time for record in found[1:]] == [None] * 4 + [6_000_000]
    assert all(record.why.startswith("its statement 1 is no RDF: ") for record in found[1:5])
    letter = found[1].dead_letter(reading(tmp_path / "in.jelly"))
    assert (letter.reason, letter.line) == (Reason.UNREADABLE, 2)


BROKEN: dict[str, tuple[Rows, str]] = {
    "without options": ([("triple", at(5))], "no options of a stream are before its first row"),
    "huge table": ([options(max_name_table_size=2**32 - 1)], "it declares a table of 4,294,967,295 entries, and 4,096 are the most"),
    "entry beyond its table": ([options(), ("name", {"id": 17, "value": "a"})], "it defines entry 17 of a table of 16"),
    "entry beyond all tables": ([options(), ("name", {"id": 2**32 - 1, "value": "a"})], "it defines entry 4,294,967,295 of a table of 16"),
    "undefined entry": ([options(), ("triple", at(5))], "it refers to entry 1 of a table, which is not defined"),
    "nothing to repeat": ([options(), *NAMES, ("triple", {"s_iri": iri(1, 1)})], "it repeats a term that no statement before it has"),
    "quad among triples": ([options(), *NAMES, ("quad", at(5))], "it has a row quad, which its stream may not have"),
    "triple among quads": ([options(2), *NAMES, ("triple", at(5))], "it has a triple outside of a graph, in a stream of quads or graphs"),
    "graph among quads": ([options(2), ("graph_end", {})], "it has a row graph_end, which its stream may not have"),
    "graph without a name": ([options(3), ("graph_start", {})], "it begins a graph without a name"),
    "no type": ([options(0)], "its options name none of the types TRIPLES, QUADS and GRAPHS"),
    "a later version": ([options(version=3)], "it is in version 3 of Jelly, and 1 and 2 are known"),
    "other options": ([options(), options(2)], "it has other options than the stream began with"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_nothing_behind_a_broken_frame_is_read(tmp_path: Path, name: str) -> None:
    rows, why = BROKEN[name]
    good = frame([options(), *NAMES, ("triple", at(5))])
    broken, rest = records(tmp_path, frame(rows), good, good)
    assert (broken.why, broken.line, broken.reason) == (why, 1, Reason.UNREADABLE)
    assert (rest.why, rest.line) == ("it is behind a frame that cannot be read, and its names may be defined there", 2)
    assert [record.time for record in records(tmp_path, frame(rows))] == [None]


def test_lengths_that_do_not_fit(tmp_path: Path) -> None:
    good = delimited(frame([options(), *NAMES, ("triple", at(5))]))
    assert [record.why for record in records_of(tmp_path, good + good[:-1])] == ["", "the file ends within it"]
    assert [record.why for record in records_of(tmp_path, good + b"\x80")] == ["", "the file ends within it"]
    assert [record.why for record in records_of(tmp_path, good + b"\xff" * 11)][1] == "its length is no number"
    for length in (b"\xff\xff\xff\xff\xff\xff\xff\xff\x7f", b"\x81\x08"):
        read, long, rest = records_of(tmp_path, good + length + good * 30, record=1024)
        assert (read.why, long.reason, long.why) == ("", Reason.LIMIT, "it has more than 1,024 bytes (limits.record)")
        assert rest.end == len(good) * 31 + len(length)
    assert records_of(tmp_path, b"") == []


def test_frame_without_a_length_is_a_file_of_one(tmp_path: Path) -> None:
    """Its first row, the options, may be 10 bytes long, as the length of a frame may be."""
    for settings in ({}, {"max_prefix_table_size": 300}):
        rest = frame([*NAMES, ("triple", at(5))])
        [record] = records_of(tmp_path, frame([options(**settings)]) + rest)
        assert record.time == 5_000_000, settings
    ten = b"\x0a\x08\x0a\x06\x10\x01\x48\x08\x78\x01"
    assert len(ten) == 10
    assert records(tmp_path, ten, frame([]))[0].reason is Reason.EMPTY


def test_what_a_frame_unpacks_to_is_bounded(tmp_path: Path) -> None:
    """A long name that many statements use or repeat, long names over many frames, and many short ones."""
    long = [options(), *NAMES, ("name", {"id": 5, "value": "x" * 500}), ("triple", {"s_iri": iri(5, 1), "p_iri": iri(2), "o_iri": iri(3)})]
    [record] = records(tmp_path, frame([*long, *[("triple", {})] * 20]), record=4096)
    assert (record.reason, record.why) == (Reason.LIMIT, "unpacked, it has more than 4,096 bytes (limits.record)")
    names = [frame([("name", {"id": number, "value": "x" * 1000})]) for number in range(1, 9)]
    found = records(tmp_path, frame([options()]), *names, record=4096)
    assert [record.reason for record in found] == [Reason.EMPTY] * 4 + [Reason.LIMIT, Reason.UNREADABLE]
    assert found[-2].why == "its tables of names: it has more than 4,096 bytes (limits.record)"
    again = [frame([("name", {"id": 1, "value": "x" * 1000})])] * 9
    assert {record.reason for record in records(tmp_path, frame([options()]), *again, record=4096)} == {Reason.EMPTY}
    empty = [("name", {"id": number}) for number in range(1, 101)]
    [record] = records(tmp_path, frame([options(max_name_table_size=100), *empty]), record=4096)
    assert record.reason is Reason.LIMIT


@pytest.mark.parametrize("depth", [3, 64, 65, 99, 5000])
def test_nested_triple_terms_are_bounded(tmp_path: Path, depth: int) -> None:
    body = b"\x4a\x04\x08\x01\x10\x01"  # an object that is an IRI
    head = b"\x0a\x04\x08\x01\x10\x01\x2a\x02\x10\x02"  # subject and predicate
    for _ in range(depth):
        inner = head + body
        body = b"\x62" + delimited(inner)
    rows = frame([options(), *NAMES, ("triple", at(5))])
    found = records(tmp_path, rows + b"\x0a" + delimited(b"\x12" + delimited(head + body)), record=1 << 20)
    if depth > 64:
        assert found[0].time is None
        assert found[0].reason is (Reason.LIMIT if depth < 99 else Reason.UNREADABLE)
    else:
        assert triples(found[0])[1].count("<<(") == depth


def test_random_bytes_are_dead_letters(tmp_path: Path) -> None:
    """Nothing but records comes of them: files of random bytes, and frames of ours of which some bytes are others."""
    rng = random.Random(7)
    good = b"".join(map(delimited, (frame([options(), *NAMES, ("triple", at(5))]), frame([("triple", at(6))]))))
    path = tmp_path / "in.jelly"
    decode = message_decoder(InputFile("in", "", Format.JELLY, record=1 << 16))
    for _ in range(400):
        content = bytearray(good if rng.random() < 0.8 else rng.randbytes(rng.randrange(60)))
        for _ in range(rng.randrange(4)):
            if content:
                content[rng.randrange(len(content))] = rng.randrange(256)
        path.write_bytes(content)
        found = read(reading(path, record=1 << 16))
        assert sum(record.end - record.offset for record in found) == len(content)
        assert_scan_of(read(reading(path, record=1 << 16), elements=False), found)
        told = decode(Message(bytes(content), 3), True)
        assert told or not content
        assert_scan_of(decode(Message(bytes(content), 3), False), told)


# --- messages ---

DECODE = message_decoder(InputFile("in", "", Format.JELLY))


def test_message_is_a_frame_with_its_options() -> None:
    body = frame([options(), *NAMES, ("triple", at(5))])
    for _ in range(2):
        [record] = DECODE(Message(body, 7, headers=(("content-type", b"application/x-jelly-rdf"),)), True)
        assert (record.time, record.offset, record.line) == (5_000_000, 7, 7)
    [record] = DECODE(Message(frame([("triple", at(6))]), 8), True)
    assert record.why == "no options of a stream are before its first row"
    [record] = DECODE(Message(body, 9, headers=(("content-type", b"text/turtle"),)), True)
    assert record.why == "its content-type, text/turtle, does not fit the format jelly"


def test_body_may_have_several_frames_behind_their_lengths() -> None:
    body = delimited(frame([options(), *NAMES, ("triple", at(5))])) + delimited(frame([("triple", at(6))])) + b"\x07"
    found = DECODE(Message(body, 7), True)
    assert [(record.time, record.offset, record.end) for record in found] == [(5_000_000, 7, 8), (6_000_000, 7, 8), (None, 7, 8)]


# --- frames of our own ---

RICH = [
    NamedGraph(
        "<https://data.example/fire/5000000-1>",
        5_000_000,
        "R 1",
        (
            ("_:b", "<http://e/p>", '"x \\"é\\" \\n"'),
            ("_:b", "<http://e/p>", '""'),
            ("_:b", "<http://e/p#q>", '"warm"@en'),
            ("_:b", "<http://e/p#q>", '"salaam"@ar--rtl'),
            ("<urn:x:y>", "<http://e/p>", '"2.50"^^<http://www.w3.org/2001/XMLSchema#decimal>'),
            ("<urn:x:y>", "<http://e/p>", '<<( _:b <http://e/p> <<( <http://e/> <http://e/p> "1" )>> )>>'),
        ),
        41,
    ),
    NamedGraph("<http://e/empty>", 6_000_000, "", ()),
]


def test_frames_have_the_quads_of_n_quads() -> None:
    makes: list[Callable[[], list[bytes]]] = [lambda: frames(RICH, Clock()), lambda: list(map(FrameEncoder(Clock()).frame, RICH))]
    for make in makes:
        decoder = FrameDecoder(1 << 20)
        assert [decoder.nquads(each) for each in make()] == nquads_texts(RICH, Clock())
        assert make() == make()


def test_frames_of_one_graph_are_streams_by_themselves_and_together() -> None:
    """A reader of a stream that is pushed may begin with any of its frames; tables are smaller than what it has in all."""
    graphs = [
        NamedGraph(
            f"<http://e{number}/g>",
            number,
            "R",
            tuple((f"<http://e{number}/{n}#{n}>", "<http://e/p>", f'"{n}"^^<http://t/{n}>') for n in range(400)),
        )
        for number in range(3)
    ]
    texts = nquads_texts(graphs, Clock())
    for start in range(3):
        decoder = FrameDecoder(1 << 20)
        assert [decoder.nquads(each) for each in frames(graphs[start:], Clock())] == texts[start:]
    encoder, decoder = FrameEncoder(Clock()), FrameDecoder(1 << 20)
    assert [decoder.nquads(encoder.frame(graph)) for graph in graphs * 3] == texts * 3
    assert [decoder.nquads(each) for each in frames(graphs, Clock())] == texts


def test_other_library_reads_our_frames() -> None:
    simple = [RICH[0]._replace(triples=RICH[0].triples[:5]), RICH[1]]
    sinks = list(parse_jelly_grouped(io.BytesIO(b"".join(map(delimited, frames(simple, Clock()))))))
    assert [len(list(sink)) for sink in sinks] == [8, 1]
    terms = {term for statement in sinks[0] for term in statement}
    assert {IRI("https://data.example/fire/5000000-1"), BlankNode("b"), Literal("warm", langtag="en")} <= terms


def fired(number: int, graph: tuple[tuple[str, str, str], ...] | None) -> Firing:
    return Firing(number * 1_000_000, "R", "Fire", (), graph, 0)


def test_output_is_read_as_an_input(tmp_path: Path) -> None:
    """As a file, the files of batches one behind the other, and messages; an event without a graph is left out."""
    firings = [fired(number, RICH[0].triples if number % 2 else ()) for number in range(5)]
    write = frame_writer(Clock())
    content = b"".join(frame for firing in [*firings[:2], fired(2, None), *firings[2:]] for frame in write([firing]))
    expected = [(firing.time, len(firing.graph or ())) for firing in firings]

    def found(read: list[Record]) -> list[tuple[int | None, int]]:
        return [(record.time, -1 if record.element is None else len(record.element.triples)) for record in read]

    assert found(records_of(tmp_path, content)) == expected
    again = frame_writer(Clock())
    assert found(records_of(tmp_path, content + b"".join(again(firings)))) == expected * 2
    messages = frame_writer(Clock(), messages=True)(firings)
    assert found([record for body in messages for record in DECODE(Message(body, 0), True)]) == expected


def test_file_is_read_from_its_start(tmp_path: Path) -> None:
    assert whole_reason(reading(tmp_path / "a.jelly")) == "names that its frames define are used by later ones"


def test_library_is_loaded_where_it_is_named_and_told_where_it_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code = "import sys, dotr.streams.formats.reading, dotr.streams.formats.writing; print('pyjelly' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "False\n"
    monkeypatch.setitem(sys.modules, "pyjelly", None)
    with pytest.raises(Refused) as refused:
        check_input(InputFile("in", "", Format.JELLY))
    problem = refused.value.diagnostics[0]
    assert (problem.code, problem.hint) == ("C226", "pip install 'dotr[jelly]'")
