"""Serialization of firings: NDJSON, TriG, N-Quads, JSON-LD and Jelly, each readable as an input
stream (interface.md), and CSV for spreadsheets.

Invariant: the text is a function of the firings in output order. A firing without a graph is a line
of NDJSON with an empty graph, and is left out of the other formats. In TriG, N-Quads and JSON-LD a
firing is a named graph with its time and its rule; its name is a hash of the firing's NDJSON line
and of the number of equal firings before it at the instant (of an element of an input: its own
number)."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from enum import Enum
from hashlib import blake2b
from io import StringIO
from json.encoder import encode_basestring
from typing import Final, TypeAlias, assert_never

from dotr.evaluation.expressions.values.times import format_time
from dotr.model.stream import Firing
from dotr.model.terms import Prefixes, Term, Triple, Variable, is_triple, unescaped
from dotr.model.time import Clock, Micros
from dotr.streams.formats.rdf.named_graphs import NamedGraph, TrigWriter, jsonld_texts, nquads_texts
from dotr.streams.records import Format

Writer: TypeAlias = Callable[[Sequence[Firing]], list[str]]
"""The texts of firings in output order, one each, with line ends; an instant may be split over
several calls."""

_NO_PREFIXES: Final[Prefixes] = {}


class StreamFormat(Enum):
    """The serialization formats of an output stream."""

    NDJSON = "ndjson"
    TRIG = "trig"
    NQUADS = "nquads"
    JSONLD = "jsonld"
    JELLY = "jelly"
    CSV = "csv"

    @property
    def media_type(self) -> str:
        """The media type.

        >>> StreamFormat.JELLY.media_type
        'application/x-jelly-rdf'
        """
        return Format(self.value).media_type


def ntriples(graph: Iterable[Triple] | None) -> str:
    r"""The graph as N-Triples, one line per triple; an empty text where there is none.

    >>> ntriples([("<http://e/a>", "<http://e/p>", '"1"'), ("_:b", "<http://e/p>", '"2"')])
    '<http://e/a> <http://e/p> "1" .\n_:b <http://e/p> "2" .'
    """
    return "\n".join([f"{subject} {predicate} {value} ." for subject, predicate, value in graph or ()])


def ndjson_line(firing: Firing, clock: Clock) -> str:
    r"""The firing as a line of JSON, without the line end.

    >>> print(ndjson_line(Firing(12_000_000, "R", "Fire", (("room", '"A"'),), (("<http://e/f>", "<http://e/at>", '"A"'),), 0), Clock()))
    {"time": 12, "rule": "R", "event": "Fire", "attributes": {"room": "\"A\""}, "graph": "<http://e/f> <http://e/at> \"A\" ."}
    """
    return _ndjson_lines([firing], clock, {}, "")[0]


def _ndjson_lines(firings: Iterable[Firing], clock: Clock, heads: dict[tuple[str, str], str], end: str) -> list[str]:
    """The firings as lines of JSON with the line end `end`.

    `heads` caches the constant part of a rule's lines. Parts that successive firings share are
    serialized once. An element of an input (without a rule) has its time and graph alone.
    """
    text = encode_basestring
    lines: list[str] = []
    last_time: Micros | None = None
    last_attributes: object = None
    begin = middle = ""
    for time, rule, event, attributes, graph, _ in firings:
        if time != last_time:
            stamp = format_time(time, clock)
            begin, last_time = f'{{"time": {stamp if isinstance(stamp, int) else text(stamp)}, ', time
        if not rule:
            lines.append(f'{begin}"graph": {text(ntriples(graph))}}}{end}')
            continue
        if attributes is not last_attributes:
            middle, last_attributes = ", ".join([f"{text(name)}: {text(value)}" for name, value in attributes]), attributes
        head = heads.get((rule, event))
        if head is None:
            head = heads[rule, event] = f'"rule": {text(rule)}, "event": {text(event)}, "attributes": {{'
        lines.append(f'{begin}{head}{middle}}}, "graph": {text(ntriples(graph))}}}{end}')
    return lines


def compile_writer(
    format: StreamFormat, clock: Clock, attributes: Sequence[Variable] = (), prefixes: Prefixes = _NO_PREFIXES, *, messages: bool = False
) -> Writer:
    """The writer of a format of text.

    `attributes` are the columns of CSV behind time, rule and event; `prefixes` are those that a
    TriG file declares at its beginning. `messages`: each text is independent, without a line end:
    TriG has its prefixes in each, and a row of CSV has no header.

    >>> write = compile_writer(StreamFormat.CSV, Clock(), ["room"], messages=True)
    >>> write([Firing(12_000_000, "R", "Fire", (("room", "<http://e/a>"),), (), 0)])
    ['12,R,Fire,http://e/a']
    """
    name_graphs = GraphNamer(clock)
    end = "" if messages else "\n"
    match format:
        case StreamFormat.NDJSON:
            heads: dict[tuple[str, str], str] = {}
            return lambda firings: _ndjson_lines(firings, clock, heads, end)
        case StreamFormat.TRIG:
            trig = TrigWriter(clock, prefixes)
            if not messages:
                return lambda firings: trig(name_graphs(firings))
            header = trig.take_header()
            # the first text of `trig` is its header, which is empty after `take_header`
            return lambda firings: [header + text.removesuffix("\n") for text in trig(name_graphs(firings))[1:]]
        case StreamFormat.NQUADS if messages:
            return lambda firings: [text.removesuffix("\n") for text in nquads_texts(name_graphs(firings), clock)]
        case StreamFormat.NQUADS:
            return lambda firings: nquads_texts(name_graphs(firings), clock)
        case StreamFormat.JSONLD:
            return lambda firings: [text + end for text in jsonld_texts(name_graphs(firings), clock)]
        case StreamFormat.JELLY:
            raise ValueError("frames are no text")
        case StreamFormat.CSV:
            rows = _CsvWriter(clock, attributes)
            if not messages:
                return rows
            rows.take_header()
            return lambda firings: [rows([firing])[0].removesuffix("\n") for firing in firings]
        case _:
            assert_never(format)


def frame_writer(clock: Clock, *, messages: bool = False) -> Callable[[Sequence[Firing]], list[bytes]]:
    """The writer of Jelly: a frame per firing. In a stream it is behind its length, and the first one
    has the options; with `messages` each frame is a stream by itself."""
    from dotr.streams.formats.rdf.jelly_frames import FrameEncoder, delimited, frames  # loads pyjelly

    encoder, name_graphs = FrameEncoder(clock), GraphNamer(clock)
    if messages:
        return lambda firings: frames(name_graphs(firings), clock)
    return lambda firings: [delimited(encoder.frame(graph)) for graph in name_graphs(firings)]


class _CsvWriter:
    """A row for each firing, behind a header: time, rule, event, and a column for each attribute.

    A cell is an IRI or the text of a literal, and empty if the firing lacks the attribute.

    >>> write = _CsvWriter(Clock(), ["n", "room"])
    >>> print("".join(write([Firing(12_000_000, "R", "Fire", (("room", "<http://e/a>"),), (), 0)])), end="")
    time,rule,event,n,room
    12,R,Fire,,http://e/a
    """

    def __init__(self, clock: Clock, attributes: Sequence[Variable]) -> None:
        self._clock = clock
        self._attributes = attributes
        self._header = ["time", "rule", "event", *attributes]

    def take_header(self) -> list[str]:
        """Returns the header, which is then omitted from the next text."""
        header, self._header = self._header, []
        return header

    def __call__(self, firings: Sequence[Firing]) -> list[str]:
        if all(firing.graph is None for firing in firings):
            return []
        text = StringIO()
        rows = csv.writer(text, lineterminator="\n")
        if self._header:
            rows.writerow(self._header)
            self._header = []
        for time, rule, event, attributes, graph, _ in firings:
            if graph is None:
                continue
            cells = {name: plain_text(value) for name, value in attributes}
            rows.writerow([format_time(time, self._clock), rule, event, *(cells.get(name, "") for name in self._attributes)])
        return [text.getvalue()]


def plain_text(term: Term) -> str:
    """The text of a term for a cell: an IRI without brackets, the text of a literal; a triple term
    and a blank node as in N-Triples.

    >>> plain_text("<http://e/a>"), plain_text('"5"^^<http://www.w3.org/2001/XMLSchema#integer>'), plain_text("_:b")
    ('http://e/a', '5', '_:b')
    """
    if term.startswith('"'):
        return unescaped(term[1 : term.rindex('"')])
    return term[1:-1] if term.startswith("<") and not is_triple(term) else term


class GraphNamer:
    """Names for the graphs of firings in TriG and N-Quads, in the order of the output; a firing
    without a graph is left out. Equal firings are adjacent, so only the last one is kept.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = replace(clock, zone="")  # a name says nothing of how times are shown
        self._heads: dict[tuple[str, str], str] = {}
        self._last: tuple[str, int] = "", 0

    def __call__(self, firings: Sequence[Firing]) -> list[NamedGraph]:
        named: list[NamedGraph] = []
        last, ordinal = self._last
        for firing in firings:
            if firing.graph is None:
                continue
            [line] = _ndjson_lines([firing], self._clock, self._heads, "")
            last, ordinal = line, ordinal + 1 if line == last else 0
            if not firing.rule:  # equal elements are not adjacent: each has its number in its instant
                ordinal = firing.number
            name = f"<urn:dotr:{blake2b(f'{ordinal} {line}'.encode(), digest_size=16).hexdigest()}>"
            named.append(NamedGraph(name, firing.time, firing.rule, firing.graph))
        self._last = last, ordinal
        return named
