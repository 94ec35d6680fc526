"""A fuzzer of the parsers of all languages, formats and messages: whatever they are given, they answer with diagnostics, soon and in little
memory.

`python -m tests.fuzz --inputs 20000 --seed 7` mutates the repository's own files: bytes, tokens, splices, nesting, long runs, escapes, huge
numbers, characters, lines, truncation. An input is a function of its seed and number, so that `--seed 7 --only 1234` gives it again, and
`--show` writes it to standard output. Each input may take five seconds of CPU and 500 MB. Batches run in child processes: where one dies,
the input that it was at is named. Findings are printed as they come, one of each kind and place whole; the exit code is 1 if there are any.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import resource
import select
import subprocess
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final, NamedTuple

from tests.support.paths import ROOT

if TYPE_CHECKING:
    from dotr.model.places import Document
    from dotr.streams.records import InputFile, Message, Record

SECONDS: Final = 5.0
MEMORY: Final = 500 << 20
BATCH: Final = 250
_SILENT: Final = 120.0
"""A child that says nothing for so long (of the clock, which other processes take from, too) is killed."""
_LONGEST: Final = 1 << 19
_COMMENTED: Final = 5_000
"""Characters of a text that is compiled again with comments."""
_PREFIXES: Final = {"": "http://e/", "x": "http://x/"}


# What is fuzzed: a function of the input's bytes, which writes them to a file where the parser reads one.


def _program(suffix: str) -> Callable[[bytes], None]:
    """Compiles and explains a file. With a comment in each of its blanks, it is the same program, and no text shows the comments."""

    def read(data: bytes) -> None:
        from dotr.model.places import Document
        from dotr.runtimes.pipeline.config import read_document

        document = read_document(_file(f"a.{suffix}", data))
        explained = _explained(document)
        if len(document.text) < _COMMENTED and "dotr:" not in document.text:
            assert _explained(Document(document.name, commented(document.text))) == explained, "comments change it"

    return read


def _explained(document: Document) -> str:
    from dotr.commands.explain.explanation import explanation
    from dotr.commands.explain.text import text
    from dotr.engine.spec import ProgramSpec
    from dotr.languages.programs import compile_program

    program = compile_program(ProgramSpec((document,), prefixes=_PREFIXES))
    return re.sub(r"line \d+", "line", "\n".join(text(explanation("a", program))))


def commented(text: str) -> str:
    """The text with a comment in each blank outside of strings and comments.

    >>> print(commented("a 'b c' # d\\n"))
    a # ] } ) ' " < .
    'b c' # ] } ) ' " < .
    # d
    # ] } ) ' " < .
    <BLANKLINE>
    """
    from dotr.syntax.scan import TOKEN

    return "".join(
        f"{token[0]}# ] }} ) ' \" < .\n" if token.lastgroup == "blank" and token[0][0] != "#" else token[0]
        for token in TOKEN.finditer(text)
    )


def _datalog(data: bytes) -> None:
    from dotr.runtimes.pipeline.config import read_document
    from dotr.syntax.datalog import parse_datalog

    parse_datalog(read_document(_file("a.dlog", data)), _PREFIXES)


def _configuration(data: bytes) -> None:
    from dotr.runtimes.pipeline.config import read_config
    from dotr.runtimes.pipeline.inputs import read_inputs

    config = read_config(_file("a.yaml", data))
    config.spec()
    read_inputs(config, [])


def _rule_tests(data: bytes) -> None:
    from dotr.commands.test.reports import run_tests

    for outcome in run_tests([_file("t.yaml", data)]):
        "".join(map(str, outcome.problems))


def _maps(data: bytes) -> None:
    from dotr.runtimes.pipeline.config import read_document
    from dotr.streams.formats.csv.map import check_columns, compile_map
    from dotr.streams.formats.mapping.map_terms import columns_of
    from dotr.streams.formats.mapping.maps import column_name, is_origin, origin_cells, parsed_map
    from dotr.streams.records import ElementMap, Format, InputFile

    file = InputFile("a", "", Format.CSV, prefixes=tuple(_PREFIXES.items()), map=ElementMap("t", read_document(_file("map", data))))
    header = ["t"]
    for cell in columns_of(parsed_map(file).template):
        with suppress(ValueError):
            header += [] if is_origin(cell) or column_name(cell) in header else [column_name(cell)]
    check_columns(file, header)
    make = compile_map(file, header)
    for value in ("", "5", "a b", 'é"\\\n'):
        make([value] * (len(header) + len(origin_cells(file))))


def _turtle(data: bytes) -> None:
    from dotr.instant.datalog.background.loading import load_graphs
    from dotr.syntax.turtle.graphs import TurtleReader, read_graph

    try:
        text = data.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        text = data.decode("utf-8", "replace")

    def outcome(read: Callable[[str], object]) -> object:
        try:
            return read(text)
        except ValueError as error:
            return str(error)

    whole = outcome(lambda text: read_graph(text, _PREFIXES, 64))
    if "nested too deeply" not in str(whole):
        assert outcome(TurtleReader(_PREFIXES).read) == whole
    load_graphs([_file("a.ttl", data)])


def _stream(suffix: str) -> Callable[[bytes], None]:
    def read(data: bytes) -> None:
        from dotr.model.places import Document
        from dotr.streams.formats.reading import Reader, check_input
        from dotr.streams.records import ElementMap, Format, InputFile, Position

        mapped = ElementMap("t", Document("map", "[] :p {x} ; :q '{y}' ; :r x:{x} .")) if suffix in ("csv", "json") else None
        if suffix == "json" and (number := len(data) % 5):  # items of lists, whose cells are of all depths
            each = ("", "l[]", "l[].m[]", "l[], k[]", "[]")[number]
            cells = Document("map", "[] :p {x} ; :q '{^.t}' ; :r {[0]} , {$item} ; :s {^.l[].t} .")
            mapped = ElementMap(("t", "^.t", "{^.t}{x}"), cells, each=each)
        if suffix == "csv" and (kind := len(data) % 6) > 2:  # as a logger's file, also in UTF-16
            by_column = Document("map", "[] :p {$cell} ; :q '{$column} {$0}' .")
            mapped = ElementMap("$0", by_column, comment="#", skip=kind == 4, encoding="utf-16" if kind == 5 else "utf-8", each="columns")
            data = data.decode("utf-8", "replace").encode("utf-16")[: -1 if len(data) % 4 else None] if kind == 5 else data
        if suffix == "text":
            mapped = ElementMap("$value", Document("map", "[] :p {$value} ; :q '{$stem}' ; :r x:{$number} ."))
        path = _file(f"a.{suffix}", data)
        file = InputFile("a", path, Format(suffix), prefixes=tuple(_PREFIXES.items()), map=mapped)
        check_input(file)
        with Reader(file) as reader, Reader(file, elements=False) as scan:
            places = [(each.offset, each.end, each.line, each.judged_time) for each in reader.records()]
            assert places == [(each.offset, each.end, each.line, each.judged_time) for each in scan.records()], "the scan reads otherwise"
        for offset, _, line, _ in places[:: max(1, len(places) // 3)] if suffix == "csv" else ():
            with Reader(file, Position(offset, line), elements=False) as again:
                assert [each.offset for each in again.records()] == [at for at, *_ in places if at >= offset], "reading goes on otherwise"

    return read


class _KafkaMessage(NamedTuple):
    """A message as the client of Kafka gives it."""

    sent: Message

    def value(self) -> bytes | None:
        return self.sent.body or None

    def key(self) -> bytes | None:
        return self.sent.key

    def offset(self) -> int:
        return self.sent.place

    def headers(self) -> list[tuple[str, bytes]]:
        return list(self.sent.headers)

    def timestamp(self) -> tuple[int, int]:
        return (0, -1) if self.sent.timestamp is None else (1, self.sent.timestamp // 1_000)

    def topic(self) -> str:
        return self.sent.topic

    def partition(self) -> int:
        return self.sent.partition


def _message_input(words: Sequence[str]) -> InputFile:
    """The input of messages in the format that the first word names; where a map can, it reads the properties of a message. The time is in
    the text, or the second word names another one."""
    from dotr.model.places import Document
    from dotr.streams.records import ElementMap, Format, GraphSettings, InputFile, SentTime

    form = next((each for each in Format if words[:1] == [each.value]), Format.NDJSON)
    sent = next((each.value for each in SentTime if words[1:2] == [each.value]), None)
    text = "[] :p {$value} ; :q '{$topic[-1]}'" if form is Format.TEXT else "[] :p {x} ; :q '{y}'"
    cells = " ; :k {$key} ; :n {$offset} ; :h '{$header.x-h}' ."
    mapped = ElementMap(sent or ("$value" if form is Format.TEXT else "t"), Document("map", text + cells))
    graphs = GraphSettings(sent or "")
    is_mapped = form in (Format.CSV, Format.JSON, Format.TEXT)
    return InputFile(
        "a",
        "a",
        form,
        prefixes=tuple(_PREFIXES.items()),
        map=mapped if is_mapped else None,
        graphs=GraphSettings() if is_mapped else graphs,
    )


def _message(data: bytes) -> tuple[InputFile, str, Message]:
    """The message of a line of words, `FORMAT TIME CONTENT-TYPE KEY`, and a body; its input and its content type."""
    from dotr.streams.records import Message

    line, _, body = data.partition(b"\n")
    words = line.decode("utf-8", "surrogateescape").split(" ")
    kind, key = " ".join(words[2:3]), " ".join(words[3:]).encode("utf-8", "surrogateescape")
    timestamp = None if len(words) > 4 else 5_000_000
    return _message_input(words), kind, Message(body, 7, timestamp, 6_000_000, key or None, (("x-h", key[:20]),), "t", 1)


def _http_messages(data: bytes) -> None:
    """The body of a request, plain and compressed, through the checks of the server, the spool and the decoder of its input."""
    import gzip
    import io

    from dotr.streams.connectors.http.source import BodyBytes, is_lines, lines_of
    from dotr.streams.formats.messages import message_decoder
    from dotr.streams.formats.segments import FrameReader, encode_frame

    spec, kind, message = _message(data)
    for body, is_gzip in ((message.body, False), (gzip.compress(message.body), True), (message.body, True)):
        bounded = BodyBytes(1 << 20, is_gzip=is_gzip)
        whole = None
        with suppress(ValueError):
            bounded.add(body[:7])
            bounded.add(body[7:])
            whole = bounded.end()
        assert (body is message.body and is_gzip) or whole == message.body, "the body is another one"
    try:
        bodies = lines_of(message.body) if is_lines(kind, spec.format) else [message.body]
    except ValueError as error:
        str(error)
        return
    decode, scan = message_decoder(spec), message_decoder(spec)
    for place, each in enumerate(bodies[:1_000]):
        sent = message._replace(body=each, place=place)
        frame = encode_frame(sent)
        assert FrameReader(io.BytesIO(frame), 0).next() == (sent, len(frame)), "the spool gives back another message"
        _alike(decode(sent, True), scan(sent, False))


def _kafka_messages(data: bytes) -> None:
    """A message of Kafka, with its key, its header and its time stamp."""
    from dotr.streams.connectors.kafka.feed import record_decoder, time_decoder

    spec, kind, message = _message(data)
    named = ("content-type", kind.encode("utf-8", "surrogateescape"))
    record: Any = _KafkaMessage(message._replace(headers=(*message.headers, named) if kind else message.headers))
    read = list(record_decoder(spec)(record, True))
    _alike(read, list(record_decoder(spec)(record, False)))
    time_decoder(spec)(record, False)


def _alike(read: Sequence[Record], scanned: Sequence[Record]) -> None:
    places = [[(each.offset, each.end, each.line, each.judged_time) for each in records] for records in (read, scanned)]
    assert places[0] == places[1], "the scan reads otherwise"
    assert all(each.element is not None or each.why for each in read), "neither an element nor a reason"


def _times(data: bytes) -> None:
    from dotr.model.time import Unit
    from dotr.streams.times import parse_date_time, parse_delay, parse_time

    text = data.decode(errors="surrogateescape")
    for parse in (partial(parse_time, unit=Unit.SECOND), parse_date_time, parse_delay):
        try:
            parse(text)
        except ValueError as error:
            str(error)


PARSERS: Final[dict[str, Callable[[bytes], None]]] = {
    "rules": _program("dotr"),
    "datalog": _datalog,
    "configuration": _configuration,
    "rule tests": _rule_tests,
    "maps": _maps,
    "turtle": _turtle,
    "ndjson": _stream("ndjson"),
    "csv": _stream("csv"),
    "text": _stream("text"),
    "trig": _stream("trig"),
    "nquads": _stream("nquads"),
    "message log": _stream("turtle"),
    "message log of quads": _stream("nquads"),
    "jsonld": _stream("jsonld"),
    "times": _times,
    "queries": _program("rspql"),
    "lars": _program("lars"),
    "epsparql": _program("epsparql"),
    "json": _stream("json"),
    "http messages": _http_messages,
    "kafka messages": _kafka_messages,
}
_RULE: Final = """PREFIX : <http://e/>
rule R define Out = [ dotr_id a :Out ; :x ?x ] from A = [ SELECT ?x WHERE { ?x a :A } ] with Out.?x = A.?x
"""
_TEST: Final = """rules: [r.dotr]
prefixes: { "": "http://e/" }
cases:
  - name: one
    stream: [ { at: 1, graph: ":a a :A ." }, { at: 2024-05-14T08:00:00, graph: "[] a :A" } ]
    expect: [ { at: 1, event: Out, attributes: { x: ":a", y: 5.0 } }, { at: 2, graph: "[] a :Out ; :x [] ." } ]
    facts: [ { at: 1, fact: A, attributes: { x: ":a" } } ]
"""
_LARS: Final = """@prefix : <http://e/> . RESOLUTION 500 ms . STREAM ASSERTED . BACKGROUND :Sensor, :at .
Hot(?s) AT ?t :- :temp(?s, ?v) AT ?t IN [5 min], FILTER(?v > 60 && isIRI(?s)), NOT (:off(?s, true) IN [0], :Sensor(?s)) .
Q(?s, ?w), :q(?s, ?w), :C(?s) :- Hot(?s) ALWAYS IN (1 s, PT5M], BIND(STR(?s) AS ?w), :at[?s, ?r], [?s, a, ?c] IN [LAST 3] .
S(:a, <http://e/b>, 1.5, "x"@en) . S(?x, ?y, 1, ?z) :- :p(?x, ?y) SINCE :q(?x, ?z) IN [2 s], :r(?z, ?y) IN [LAST 2 PER ?z, ?y] .
REPORT Q(?a, ?b) . REPORT ENDED Q(?a, :b) AS Gone . REPORT ALL :q(?x, ?x) AS Same .
"""
_CONFIG: Final = """name: small
prefixes: { "": "http://e/" }
time: { unit: ms }
limits: { rows: 100, matches: 5 }
rules: [r.dotr]
input:
  - { name: a, format: csv, path: a.csv, time: t, map: "[] :p {x} .", delimiter: ";", lateness: 5 s }
  - { name: b, format: ndjson, path: "${NONE:-b.ndjson}", watch: true, idle: 5 s, settle: 1 s }
output:
  - { path: out.ndjson }
dead_letter: dead.ndjson
spark: { checkpoint: check, trigger: 1 s, conf: { a.b: c } }
metrics: { prometheus: "127.0.0.1:9464" }
engine: local
"""
_EPSPARQL: Final = """PREFIX : <http://e/>
REGISTER STREAM Fall "It falls." AS CONSTRUCT { ?s :fell ?by }
WHERE { ?r :of ?s ; :v ?a FILTER(?a > 1) } SEQ { ?t :of ?s ; :v ?b OPTIONAL { ?s :n ?n } } BIND(?a - ?b AS ?by) FILTER(?b < 0.6 * ?a)
WITHIN PT10M POLICY RECENT
# dotr: allow E403 (of all)
REGISTER QUERY Twice AS SELECT DISTINCT ?s (getDURATION() AS ?d) (getSTARTTIME() AS ?since)
WHERE (EVENT Fall(?s, ?by AS ?x) AND { ?s :fell ?y }) OPTIONALSEQ { ?s :v 5 } EQUALS { ?s a :C }
FILTER(getDURATION() <= "PT30M"^^<http://www.w3.org/2001/XMLSchema#duration>) WITHIN 1 h POLICY CHRONOLOGICAL
"""
_JSON: Final = '{"t": 1, "x": 5, "y": "a\\u00e9"}\n{"t": "2024-05-14T08:00:00Z", "x": [1, null], "y": {"z": 1.5e3}}\n\n{"x": true}\n'
_INLINE: Final[dict[str, Sequence[str]]] = {
    "configuration": [_CONFIG],
    "rule tests": [_TEST],
    "lars": [_LARS],
    "epsparql": [_EPSPARQL],
    "json": [
        _JSON,
        '[{"t": 1, "x": 5},\n {"t": 2,\n  "y": []}]',
        '{"t": 3, "l": [{"t": 1, "x": 5, "m": [{"x": 1}, {}]}, {"x": null}], "k": [7, [8]]}{}',
    ],
    "maps": [
        '[] a :C ; :by x:{ID} ; :v {v} ; :n "{a} b"@en, \'{b}\'^^x:t ; :q <http://e/{ID}/x> .',
        "_:a :p [ :q {x} ; :r ( 1 2.0 true ) ] . << _:a :p {x} >> :t {t} .",
        "dotr_id a :A {| :p {x} |} ; :s <<( :a :b {x} )>> .",
    ],
    "turtle": [
        '@prefix : <http://e/> . :a :p "x\\u00e9"@en-GB, \'\'\'long\n"\'\'\', 5, -1.5e3, true ; :q [ :r ( 1 [] ) ] .',
        "PREFIX p: <http://p/> BASE <http://b/> p:a%20b <r> <<( <a> <b> <<( <c> <d> 1 )>> )>> . <a> <b> <c> {| <d> <e> |} .",
    ],
    "ndjson": [
        '{"time": 1, "graph": ":a :p 5 ."}\n{"time": "2024-05-14T08:00:00Z", "graph": "[] :q \\"x\\"@en ."}\n\n{"time": 3, "graph": ""}\n'
        '{"graph": {"@id": "http://e/a", "http://e/p": [{"@value": 5}]}, "time": 4}\n',
    ],
    "csv": ['t,x,y\n1,5,a\n2,"a ""b"" c",\n2024-05-14 08:00:00,"line\nline",é\n3,,\n', "x;t;y\r\n5;1;a\r\n;2;\r\n",
            "logger 7\n\n# zone\n,T1,T2,\n2024-05-14,20.5,,\"a\n#\"\n# 1,2\n7,,x,y\n", "t,x,y\r1,5,a\r2,,\r"],
    "text": ["5\n2024-05-14T08:00:00Z\r\n\n 7 \ntrue\né\"\\\n9"],
    "trig": [
        "@prefix : <http://e/> . @prefix prov: <http://www.w3.org/ns/prov#> .\n"
        ':g { :a :p 5, "x"@en ; :q [ :r ( 1 ) ] } '
        ':g prov:generatedAtTime "2024-05-14T08:00:00Z"^^<http://www.w3.org/2001/XMLSchema#dateTime> .'
        "\n:h prov:generatedAtTime 5 . GRAPH :h { << :a :p 5 >> :q _:b }\n",
    ],
    "nquads": [
        '<http://e/a> <http://e/p> "5"^^<http://e/t> <http://e/g> .\n_:b <http://e/p> "x\\n\\u00e9"@en <http://e/g> .\n<http://e/g> '
        '<http://www.w3.org/ns/prov#generatedAtTime> "2024-05-14T08:00:00Z"^^<http://www.w3.org/2001/XMLSchema#dateTime> .\n# comment\n'
        "<http://e/a> <http://e/p> <<( <http://e/a> <http://e/p> _:b )>> <http://e/h> .\n<http://e/h> "
        '<http://www.w3.org/ns/prov#generatedAtTime> "5"^^<http://www.w3.org/2001/XMLSchema#integer> .\n',
    ],
    "message log": [
        'VERSION "1.2-messages"\nPREFIX : <http://e/>\n:a :p 5 ; prov:x "MESSAGE" .\nMESSAGE\nMESSAGE # one\n'
        "@prefix prov: <http://www.w3.org/ns/prov#> .\n:a prov:generatedAtTime 5 .\n@message .\n"
        "[] :p '''\nMESSAGE\n'''@en ; prov:generatedAtTime 6 . MESSAGE BASE <http://b/> <c> :p _:b .\n",
        "@prefix : <http://e/> . :a :p [ :q ( 1 ) ] ; <http://www.w3.org/ns/prov#generatedAtTime> "
        '"2024-05-14T08:00:00Z"^^<http://www.w3.org/2001/XMLSchema#dateTime> .',
    ],
    "message log of quads": [
        'VERSION "1.2-messages"\n<http://e/a> <http://e/p> "5" <http://e/g> .\nMESSAGE\n<http://e/g> '
        '<http://www.w3.org/ns/prov#generatedAtTime> "5"^^<http://www.w3.org/2001/XMLSchema#integer> .\n'
        '_:b <http://e/p> "x" <http://e/g> .\nMESSAGE\n',
    ],
    "jsonld": [
        '{"@context": {"@vocab": "http://e/", "at": "http://www.w3.org/ns/prov#generatedAtTime"}, "@id": "http://e/a", "at": 5, '
        '"p": [1, 2.5, {"@list": []}]}\n{"@context": ["http://c/", null], "@graph": [{"@id": "http://e/g", '
        '"@graph": {"http://e/p": {"@value": "x", "@language": "en"}}}]}\n{}\n',
        '[\n {"@id": "http://e/a",\n  "http://www.w3.org/ns/prov#generatedAtTime": '
        '{"@value": "5", "@type": "http://www.w3.org/2001/XMLSchema#integer"}}\n]',
    ],
    "times": [
        "2014-08-01T07:50:00", "2014-08-01 09:50:00.123456789+02:00", "2016-12-31T23:59:60Z", "0001-01-01T00:00:00+14:00",
        "9999-12-31T24:00:00Z", "1406879400", "-5", "1 h 30 min", "1.5 min", "0 s", "250 ms.", "24:00",
    ],
}  # fmt: skip
_TURTLE: Final = "message log"
_MESSAGES: Final = {
    "http messages": [
        ("ndjson $text application/x-ndjson a", "ndjson"),
        ("json $received application/jsonl", "json"),
        ("json $text application/json", '{"t": 1, "x": 5}'),
        ("csv $text text/csv;charset=utf-8", "csv"),
        ("turtle $text text/turtle k", _TURTLE),
        ("trig $received application/trig", "trig"),
        ("nquads $text", "nquads"),
        ("jsonld $text application/ld+json", "jsonld"),
        ("jsonld $text application/x-ld+ndjson", "jsonld"),
    ],
    "kafka messages": [
        ("ndjson $timestamp", "ndjson"),
        ("json $timestamp application/json k1", '{"x": [1, {"z": null}], "y": "a"}'),
        ("json $text application/json k\ufffd k", '{"t": "2024-05-14T08:00:00+02:00", "x": -1.5e3, "y": true}'),
        ("csv $text", "csv"),
        ("text $timestamp text/plain k", "text"),
        ("ntriples $timestamp application/n-triples", '<http://e/a> <http://e/p> "5"^^<http://e/t> .\n_:b <http://e/p> _:b .\n'),
        ("turtle $text text/plain", _TURTLE),
        ("trig $timestamp", "trig"),
        ("nquads $text application/n-quads", "nquads"),
        ("jsonld $timestamp", "jsonld"),
    ],
}
"""The first lines of messages, and their bodies: a text, or the parser whose texts they are."""
_SUFFIXES: Final = {
    "rules": ("dotr",),
    "datalog": ("dlog",),
    "configuration": ("yaml",),
    "rule tests": ("yaml",),
    "turtle": ("ttl",),
    "ndjson": ("ndjson",),
    "csv": ("csv",),
    "queries": ("rspql",),
    "lars": ("lars",),
    "epsparql": ("epsparql",),
}


@cache
def seeds(parser: str) -> tuple[str, ...]:
    """The texts that inputs of a parser begin with, in an order that is the same everywhere."""
    found = list(_INLINE.get(parser, ()))
    if parser in _MESSAGES:
        found += [f"{words}\n{text}" for words, body in _MESSAGES[parser] for text in _INLINE.get(body, (body,))]
    for folder in ("rules", "kb", "configs", "data", "tests/cases", "tests/rules", "tests/errors", "tests/checkpoints"):
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix[1:] in _SUFFIXES.get(parser, ()) and path.stat().st_size < 20_000:
                text = path.read_bytes().decode(errors="replace")
                if path.suffix != ".yaml" or ("cases:" in text) == (parser == "rule tests"):
                    found.append(text)
    return tuple(found)


# Mutations


_TOKEN: Final = re.compile(r"\s+|[A-Za-z_][A-Za-z_0-9]*|[0-9.]+|<[^<>\s]*>|\"[^\"\n]*\"|'[^'\n]*'|.", re.DOTALL)
_PAIRS: Final = (
    "()",
    "[]",
    "{}",
    ("<<( :a :p ", " )>>"),
    ("<< ", " >>"),
    ("[ :p ", " ]"),
    ("!(", ")"),
    ("- ", ""),
    ("! ", ""),
    ("{| :p ", " |}"),
)
_ODD: Final = (
    "\\uD800", "\\U00110000", "\\U0011000e", "\\u", "\\x", "\\", '\\"', "%", "%00", "${", "${X:-", "&a ", "*a", "!!int ", "!!binary ",
    "\x00", "\x1b[2J", "\x7f", "\x85", "\xa0", "\u2028", "\u202e", "\ufeff", "\ufffe", "\U0001f600", "e\u0301", "\u0660", "\ufb01",
    "\r", "\t", "\x0b", '"' * 3, "'" * 3, '"', "'", "`", "#", "//", "--", "..", "<\x01>", "_:", "?", "$", "@", "^^", "@en-", "||", "&&",
    "|-\n", "? ", "- ", "---\n", "9" * 20, "9" * 400, "9" * 5000, "1e999", "1e-999", "0." + "0" * 400 + "1", "-0", "0x1F", "1_0", "07",
    "1e99999999999", "99999999999 d", "within", "from", "each", "last 99999999999999999999", "not", "define", "SELECT", "OPTIONAL {",
    "FILTER(", "?x", "1 / 0", "time(A)", "NOT",
)  # fmt: skip
_PIECES: Final = (" ", "a", "0", "\n", ".", " + 1", " || true", ", 1", ":a :p 1 . ")


def mutated(number: int, seed: int) -> tuple[str, bytes]:
    """The parser that an input is for, and the bytes of the input."""
    choose = random.Random(f"{seed} {number}")
    parser = tuple(PARSERS)[number % len(PARSERS)]
    known = seeds(parser)
    text = choose.choice(known)
    for _ in range(choose.choice((0, 1, 1, 1, 2, 2, 3, 6))):
        text = choose.choice(_MUTATIONS)(text, choose, known)[:_LONGEST]
    data = text.encode("utf-8", "surrogatepass")
    if choose.random() < 0.2:
        changed = bytearray(data)
        for _ in range(choose.choice((1, 1, 2, 8))):
            at = choose.randrange(len(changed) + 1)
            changed[at : at + choose.choice((0, 1, 1))] = bytes(choose.choices(range(256), k=choose.choice((0, 1, 1))))
        data = bytes(changed)
    return parser, data


def _tokens(text: str, choose: random.Random, known: Sequence[str]) -> str:
    """Some tokens deleted, doubled, swapped, or replaced by tokens of another seed."""
    tokens = _TOKEN.findall(text) or [""]
    for _ in range(choose.choice((1, 1, 2, 4))):
        at, other = choose.randrange(len(tokens)), choose.randrange(len(tokens))
        match choose.randrange(4):
            case 0:
                tokens[at] = ""
            case 1:
                tokens[at] *= 2
            case 2:
                tokens[at], tokens[other] = tokens[other], tokens[at]
            case _:
                tokens[at] = choose.choice(_TOKEN.findall(choose.choice(known)) or [""])
    return "".join(tokens)


def _place(text: str, choose: random.Random) -> int:
    """A place before a token, mostly, or anywhere."""
    starts = [found.start() for found in _TOKEN.finditer(text)]
    return choose.choice(starts) if starts and choose.random() < 0.8 else choose.randrange(len(text) + 1)


def _splice(text: str, choose: random.Random, known: Sequence[str]) -> str:
    other = choose.choice(known)
    return text[: _place(text, choose)] + other[_place(other, choose) :]


def _nested(text: str, choose: random.Random, known: Sequence[str]) -> str:
    opened, closed = choose.choice(_PAIRS)
    depth = choose.choice((2, 10, 70, 300, 1500, 8000, 40_000))
    at = _place(text, choose)
    end = at + choose.choice((0, 1, 5, 40))
    return text[:at] + opened * depth + text[at:end] + closed * (depth * choose.choice((1, 1, 1, 0))) + text[end:]


def _run(text: str, choose: random.Random, known: Sequence[str]) -> str:
    """A long run of a character, of some tokens, or of what lies between two places."""
    at = _place(text, choose)
    end = at + choose.choice((1, 2, 5, 20))
    piece = choose.choice((text[at:end], choose.choice(_ODD), choose.choice(_PIECES)))
    return text[:at] + piece * min(choose.choice((3, 50, 1000, 5000)), 1 + 50_000 // max(1, len(piece))) + text[end:]


def _odd(text: str, choose: random.Random, known: Sequence[str]) -> str:
    at = _place(text, choose)
    return text[:at] + choose.choice(_ODD) + text[at + choose.choice((0, 0, 1, 4)) :]


def _number(text: str, choose: random.Random, known: Sequence[str]) -> str:
    """A number in the place of another."""
    numbers = list(re.finditer(r"[0-9]+", text))
    if not numbers:
        return text
    found = choose.choice(numbers)
    long = "1" + "0" * choose.choice((9, 18, 30, 400, 5000))
    new = choose.choice(("0", "-1", long, long, "1.5", "1e5", "00", "4294967296", "0.1", "-0.0", "1e400"))
    return text[: found.start()] + new + text[found.end() :]


def _truncated(text: str, choose: random.Random, known: Sequence[str]) -> str:
    at = choose.randrange(len(text) + 1)
    return text[:at] if choose.random() < 0.7 else text[at:]


def _lines(text: str, choose: random.Random, known: Sequence[str]) -> str:
    """Lines in another order, one of them twice or not at all."""
    lines = text.splitlines(keepends=True) or [""]
    at = choose.randrange(len(lines))
    match choose.randrange(3):
        case 0:
            choose.shuffle(lines)
        case 1:
            lines.insert(choose.randrange(len(lines) + 1), lines[at])
        case _:
            del lines[at]
    return "".join(lines)


_MUTATIONS: Final = (_tokens, _tokens, _tokens, _splice, _nested, _run, _odd, _odd, _odd, _number, _truncated, _lines)


# The child: one input after the other


def _file(name: str, data: bytes) -> str:
    Path(name).write_bytes(data)
    return name


def _child(seed: int, numbers: Sequence[int]) -> None:
    """Runs inputs in the working directory, and writes a line as each begins and a further one where it found something."""
    from dotr.commands.check import problems as check  # so that all is imported before memory is counted
    from dotr.commands.test import reports as rule_tests
    from dotr.errors.diagnostics import Refused

    assert check is not None
    assert rule_tests is not None
    warnings.simplefilter("error")
    os.environ["XDG_CACHE_HOME"] = os.getcwd()
    for name, text in (("r.dotr", _RULE), ("a.csv", "t;x\n1;2\n"), ("b.ndjson", "")):
        _file(name, text.encode())
    for warm in range(len(PARSERS)):  # each parser once: what it imports and builds is no input's cost
        parser = tuple(PARSERS)[warm]
        _tried(parser, seeds(parser)[0].encode(), Refused, counted=False)
    held = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (held + MEMORY, held + MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    for number in numbers:
        _say({"at": number})
        parser, data = mutated(number, seed)
        begun = time.process_time()
        fault = _tried(parser, data, Refused)
        took = time.process_time() - begun
        if fault is None and took > SECONDS:
            fault = (f"it takes {took:.1f} s", "")
        if fault is not None:
            _say({"found": number, "what": fault[0], "where": fault[1]})


def _tried(parser: str, data: bytes, refused: type[Exception], counted: bool = True) -> tuple[str, str] | None:
    """The error that is no diagnostic, and its place. A test of this module has a fault in the environment."""
    try:
        if parser == "times" and counted:
            exec(os.environ.get("DOTR_FUZZ_FAULT", ""))
        PARSERS[parser](data)
    except refused as error:
        str(error)
    except Exception as error:
        frames = [frame for frame in traceback.extract_tb(error.__traceback__) if "/dotr/" in frame.filename]
        place = f"{Path(frames[-1].filename).relative_to(ROOT)}:{frames[-1].lineno}" if frames else "?"
        return f"{type(error).__name__}: {' '.join(str(error)[:160].split())}", place
    return None


def _say(line: object) -> None:
    print(json.dumps(line), flush=True)  # noqa: T201


# The parent


class Finding(NamedTuple):
    """An input that met no diagnostic, what happened instead and where."""

    number: int
    parser: str
    what: str
    where: str

    @property
    def kind(self) -> tuple[str, str, str]:
        """The key that findings of one cause share: parser, error and place."""
        return self.parser, re.sub(r"\d+", "n", self.what)[:40], self.where


@dataclass
class _Batch:
    """A child and the inputs that it has not begun."""

    process: subprocess.Popen[bytes]
    left: list[int]
    at: int | None = None
    heard: float = 0.0


def findings(inputs: Sequence[int], seed: int, jobs: int = 2) -> Iterator[Finding]:
    """Runs inputs in batches, so many at a time."""
    waiting = [list(inputs[start : start + BATCH]) for start in range(0, len(inputs), BATCH)]
    running: list[_Batch] = []
    while waiting or running:
        while waiting and len(running) < jobs:
            running.append(_started(waiting.pop(0), seed))
        pipes: list[IO[bytes]] = [batch.process.stdout for batch in running if batch.process.stdout is not None]
        ready, _, _ = select.select(pipes, [], [], 1.0)
        for batch in list(running):
            out = batch.process.stdout
            assert out is not None
            line = out.readline() if out in ready else b"."
            if line == b".":
                if time.monotonic() - batch.heard > _SILENT:
                    batch.process.kill()
                continue
            batch.heard = time.monotonic()
            if line:
                entry = json.loads(line)
                if "at" in entry:
                    batch.at = entry["at"]
                    batch.left = batch.left[batch.left.index(entry["at"]) + 1 :]
                else:
                    yield Finding(entry["found"], _parser(entry["found"]), entry["what"], entry["where"])
                continue
            running.remove(batch)
            code = batch.process.wait()
            out.close()
            if code:
                if batch.at is None:
                    raise RuntimeError(f"a child ended with {code} before its first input")
                yield Finding(batch.at, _parser(batch.at), f"the process dies ({code})", "")
                if batch.left:
                    waiting.insert(0, batch.left)


def _started(numbers: list[int], seed: int) -> _Batch:
    command = [sys.executable, "-m", "tests.fuzz", "--seed", str(seed), "--child", f"{numbers[0]}:{numbers[-1] + 1}"]
    environment = {**os.environ, "DOTR_FALLBACKS": "raise", "PYTHONPATH": str(ROOT)}
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, bufsize=0, env=environment, cwd=ROOT)
    return _Batch(process, numbers, heard=time.monotonic())


def _parser(number: int) -> str:
    return tuple(PARSERS)[number % len(PARSERS)]


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line."""
    options = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    options.add_argument("--inputs", type=int, default=20_000, help="how many")
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("--jobs", type=int, default=2)
    options.add_argument("--only", type=int, help="one input, in this process, with its traceback")
    options.add_argument("--show", action="store_true", help="with --only: write the input and do nothing else")
    options.add_argument("--child", help=argparse.SUPPRESS)
    chosen = options.parse_args(arguments)
    if chosen.child is not None:
        first, _, end = chosen.child.partition(":")
        with tempfile.TemporaryDirectory() as folder:
            os.chdir(folder)
            _child(chosen.seed, range(int(first), int(end)))
        return 0
    if chosen.only is not None:
        parser, data = mutated(chosen.only, chosen.seed)
        if chosen.show:
            sys.stdout.buffer.write(data)
            return 0
        with tempfile.TemporaryDirectory() as folder:
            os.chdir(folder)
            _file("r.dotr", _RULE.encode())
            PARSERS[parser](data)
        return 0
    begun = time.monotonic()
    kinds: Counter[tuple[str, str, str]] = Counter()
    for found in findings(range(chosen.inputs), chosen.seed, chosen.jobs):
        kinds[found.kind] += 1
        if kinds[found.kind] == 1:
            print(f"{found.number} {found.parser}: {found.what} {found.where}", flush=True)  # noqa: T201
    seconds = time.monotonic() - begun
    print(f"{chosen.inputs} inputs, seed {chosen.seed}, {seconds:.0f} s: {sum(kinds.values())} findings of {len(kinds)} kinds")  # noqa: T201
    return 1 if kinds else 0


if __name__ == "__main__":
    sys.exit(main())
