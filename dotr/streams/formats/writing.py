"""Serialization of firings: NDJSON, TriG and N-Quads, each readable as an input stream
(interface.md), and CSV for spreadsheets.

Invariant: the text is a function of the firings in output order. A firing without a graph is a line
of NDJSON with an empty graph, and is left out of the other formats. In TriG and N-Quads a firing is
a named graph with its time and its rule; its name is a hash of the firing's NDJSON line and of the
number of equal firings before it at the instant.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from enum import Enum
from functools import lru_cache
from hashlib import blake2b
from io import StringIO
from json.encoder import encode_basestring
from typing import Final, TypeAlias, assert_never
from urllib.parse import quote

from pyoxigraph import NamedNode

from dotr.evaluation.expressions.values.times import format_time, shown_time_term
from dotr.model.stream import Firing
from dotr.model.terms import PROV, RDF_TYPE, XSD, Prefixes, Term, Triple, Variable, is_triple, unescaped
from dotr.model.time import Clock, Micros

Writer: TypeAlias = Callable[[Sequence[Firing]], list[str]]
"""The texts of firings in output order, one each, with line ends; an instant may be split over
several calls."""

_TIME: Final = f"<{PROV}generatedAtTime>"
FRESH: Final = "<urn:dotr:"
_RULE: Final = f"<{PROV}wasGeneratedBy>"
_NO_PREFIXES: Final[Prefixes] = {}


class StreamFormat(Enum):
    """The serialization formats of an output stream."""

    NDJSON = "ndjson"
    TRIG = "trig"
    NQUADS = "nquads"
    CSV = "csv"


RDF_FORMATS: Final = (StreamFormat.NDJSON, StreamFormat.TRIG, StreamFormat.NQUADS)
"""The formats of an output that can be read as an input."""


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
    serialized once.
    """
    text = encode_basestring
    lines: list[str] = []
    last_time: Micros | None = None
    last_attributes: object = None
    begin = middle = ""
    for time, rule, event, attributes, graph, _ in firings:
        if time != last_time:
            stamp = format_time(time, clock)
            begin, last_time = f'{{"time": {stamp if isinstance(stamp, int) else text(stamp)}, "rule": ', time
        if attributes is not last_attributes:
            middle, last_attributes = ", ".join([f"{text(name)}: {text(value)}" for name, value in attributes]), attributes
        head = heads.get((rule, event))
        if head is None:
            head = heads[rule, event] = f'{text(rule)}, "event": {text(event)}, "attributes": {{'
        lines.append(f'{begin}{head}{middle}}}, "graph": {text(ntriples(graph))}}}{end}')
    return lines


def compile_writer(format: StreamFormat, clock: Clock, attributes: Sequence[Variable] = (), prefixes: Prefixes = _NO_PREFIXES) -> Writer:
    """The writer of a format.

    `attributes` are the columns of CSV behind time, rule and event; `prefixes` are those that a
    TriG file declares at its beginning.
    """
    name_graphs = GraphNamer(clock)
    match format:
        case StreamFormat.NDJSON:
            heads: dict[tuple[str, str], str] = {}
            return lambda firings: _ndjson_lines(firings, clock, heads, "\n")
        case StreamFormat.TRIG:
            return _TrigWriter(clock, prefixes)
        case StreamFormat.NQUADS:
            return lambda firings: [
                f"{name} {_TIME} {shown_time_term(firing.time, clock)} .\n{name} {_RULE} {rule_iri(firing.rule)} .\n"
                f"{_graph_lines(graph, ' ' + name)}"
                for name, firing, graph in name_graphs(firings)
            ]
        case StreamFormat.CSV:
            return _CsvWriter(clock, attributes)
        case _:
            assert_never(format)


def compile_message_writer(
    format: StreamFormat, clock: Clock, attributes: Sequence[Variable] = (), prefixes: Prefixes = _NO_PREFIXES
) -> Writer:
    """The writer of messages in a format: one independent text per firing, without a line end.

    TriG has its prefixes in each message; a row of CSV has no header.

    >>> write = compile_message_writer(StreamFormat.CSV, Clock(), ["room"])
    >>> write([Firing(12_000_000, "R", "Fire", (("room", "<http://e/a>"),), (), 0)])
    ['12,R,Fire,http://e/a']
    """
    match format:
        case StreamFormat.NDJSON:
            heads: dict[tuple[str, str], str] = {}
            return lambda firings: _ndjson_lines(firings, clock, heads, "")
        case StreamFormat.TRIG:
            trig = _TrigWriter(clock, prefixes)
            header = trig.take_header()
            # the first text of `trig` is its header, which is empty after `take_header`
            return lambda firings: [header + text.removesuffix("\n") for text in trig(firings)[1:]]
        case StreamFormat.NQUADS:
            write = compile_writer(format, clock)
            return lambda firings: [text.removesuffix("\n") for text in write(firings)]
        case StreamFormat.CSV:
            rows = _CsvWriter(clock, attributes)
            rows.take_header()
            return lambda firings: [rows([firing])[0].removesuffix("\n") for firing in firings]
        case _:
            assert_never(format)


class _TrigWriter:
    """A named graph for each firing, behind the prefixes.

    >>> write = _TrigWriter(Clock(), {"": "http://e/"})
    >>> header, graph = write([Firing(12_000_000, "R", "Out", (), (("<http://e/a>", "<http://e/p>", '"1"'),), 0)])
    >>> print(header, end="")
    @prefix : <http://e/> .
    @prefix prov: <http://www.w3.org/ns/prov#> .
    @prefix xsd: <http://www.w3.org/2001/XMLSchema#> .
    >>> print(graph.replace("f21e0fb7c29ddd5973e2ea5a9a34faf7", "…"), end="")
    <urn:dotr:…> prov:generatedAtTime "12"^^xsd:integer ; prov:wasGeneratedBy <urn:dotr:rule:R> .
    <urn:dotr:…> {
      :a :p "1" .
    }
    """

    def __init__(self, clock: Clock, prefixes: Prefixes) -> None:
        self._clock = clock
        self._name_graphs = GraphNamer(clock)
        declared = usable_prefixes(prefixes)
        self._header = "".join([f"@prefix {name}: <{iri}> .\n" for name, iri in declared.items()])
        self._text = term_writer(declared)
        self._predicate = predicate_writer(self._text)
        self._rules: dict[str, str] = {}

    def take_header(self) -> str:
        """Returns the prefixes, which are then omitted from the next text."""
        header, self._header = self._header, ""
        return header

    def __call__(self, firings: Sequence[Firing]) -> list[str]:
        if not firings:
            return []
        text, predicate, clock = self._text, self._predicate, self._clock
        texts = [self._header]
        self._header, time_predicate = "", text(_TIME)
        last: Micros | None = None
        stamp = ""
        for name, firing, graph in self._name_graphs(firings):
            rule = self._rules.get(firing.rule)
            if rule is None:
                rule = self._rules[firing.rule] = f"{text(_RULE)} {rule_iri(firing.rule)}"
            lines = "".join(
                [
                    # fresh names would fill the cache and never have a prefix
                    f"  {each if each.startswith(FRESH) else text(each)} {predicate(link)} {text(value)} .\n"
                    for each, link, value in graph
                ]
            )
            if firing.time != last:
                last, stamp = firing.time, f"{time_predicate} {text(shown_time_term(firing.time, clock))}"
            texts.append(f"{name} {stamp} ; {rule} .\n{name} {{\n{lines}}}\n")
        return texts


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


def _graph_lines(graph: Iterable[Triple], after: str) -> str:
    return "".join([f"{subject} {predicate} {value}{after} .\n" for subject, predicate, value in graph])


class GraphNamer:
    """Names for the graphs of firings in TriG and N-Quads, in the order of the output; a firing
    without a graph is left out. Equal firings are adjacent, so only the last one is kept.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = replace(clock, zone="")  # a name says nothing of how times are shown
        self._last: tuple[str, int] = "", 0

    def __call__(self, firings: Sequence[Firing]) -> list[tuple[str, Firing, tuple[Triple, ...]]]:
        named: list[tuple[str, Firing, tuple[Triple, ...]]] = []
        last, ordinal = self._last
        for firing in firings:
            if firing.graph is None:
                continue
            line = ndjson_line(firing, self._clock)
            last, ordinal = line, ordinal + 1 if line == last else 0
            named.append((f"<urn:dotr:{blake2b(f'{ordinal} {line}'.encode(), digest_size=16).hexdigest()}>", firing, firing.graph))
        self._last = last, ordinal
        return named


# Terms of a TriG output: N-Triples text, with prefixes where they fit.
#
# Invariant: the text parses to the same term. Only local names of a subset of Turtle's characters are
# abbreviated, so that no escapes are needed; other IRIs are written in full.
# Cost: about 0.1 µs for a cached term; the cache is bounded.

TermText: TypeAlias = Callable[[Term], str]
"""A function from a term to its text."""

_NAME: Final = re.compile(r"(?:[A-Za-z](?:[A-Za-z0-9_-]*[A-Za-z0-9_])?)?")
_NAMESPACE: Final = re.compile(r"""[A-Za-z][A-Za-z0-9+.-]*:[^\x00-\x20<>"{}|^`\\]*""")
_LOCAL: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_-]*")
_REMEMBERED: Final = 1 << 16


def usable_prefixes(prefixes: Prefixes) -> dict[str, str]:
    """The prefixes that a TriG output declares, sorted by name; `prov` and `xsd` are added where
    they are free.

    >>> usable_prefixes({"x": "http://e/", "": "no iri", "xsd": "http://e/x#"})
    {'prov': 'http://www.w3.org/ns/prov#', 'x': 'http://e/', 'xsd': 'http://e/x#'}
    """
    usable = {name: iri for name, iri in prefixes.items() if _NAME.fullmatch(name) and _is_namespace(iri)}
    return dict(sorted({"prov": PROV, "xsd": XSD, **usable}.items()))


def _is_namespace(iri: str) -> bool:
    try:
        NamedNode(iri)
    except ValueError:
        return False
    return _NAMESPACE.fullmatch(iri) is not None


def term_writer(prefixes: Prefixes) -> TermText:
    """A function from terms to their texts with some prefixes.

    >>> write = term_writer({"": "http://e/", "xsd": "http://www.w3.org/2001/XMLSchema#"})
    >>> write("<http://e/a>"), write("<http://e/a/b>"), write("<http://e/>"), write("_:b")
    (':a', '<http://e/a/b>', '<http://e/>', '_:b')
    >>> write('"5"^^<http://www.w3.org/2001/XMLSchema#integer>'), write('"<http://e/a>"')
    ('"5"^^xsd:integer', '"<http://e/a>"')
    """
    names: dict[str, str] = {}
    for name, namespace in prefixes.items():
        names.setdefault(f"<{namespace}", name)
    longest_first = sorted(names, key=len, reverse=True)

    def iri_text(iri: str) -> str:
        for namespace in longest_first:
            if iri.startswith(namespace) and _LOCAL.fullmatch(iri, len(namespace), len(iri) - 1):
                return f"{names[namespace]}:{iri[len(namespace) : -1]}"
        return iri

    @lru_cache(_REMEMBERED)
    def text(term: Term) -> str:
        if term.startswith('"'):
            if term.endswith(">"):
                end = term.rindex('"')
                return f"{term[: end + 3]}{iri_text(term[end + 3 :])}"
            return term
        return term if term.startswith("<<") or not term.startswith("<") else iri_text(term)

    return text


def predicate_writer(text: TermText) -> TermText:
    """A function for predicates: `rdf:type` is `a`."""
    return lru_cache(_REMEMBERED)(lambda term: "a" if term == RDF_TYPE else text(term))


def rule_iri(rule: str) -> Term:
    """The IRI that names a rule, as the one that generated an event.

    >>> rule_iri("R 1/2")
    '<urn:dotr:rule:R%201%2F2>'
    """
    return f"<urn:dotr:rule:{quote(rule, safe='')}>"
