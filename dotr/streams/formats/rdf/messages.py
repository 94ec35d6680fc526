"""Elements of one RDF message: a graph, or a dataset.

Idea: if named graphs have their times in the default graph (the RSP stream model), each named graph
is an element. Otherwise the union of all graphs is one element; its time is at the end of the path
that the input names, from any subject and over all graphs, or the transport's time.
Invariant: a message has the same time in a scan as in a full reading.
Cost: besides pyoxigraph's, 0.5 µs a triple in a full reading, 0.1 µs in a scan.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from pyoxigraph import DefaultGraph, NamedNode, Quad

from dotr.model.stream import Element, Reason
from dotr.model.terms import PROV, Triple
from dotr.model.time import Micros
from dotr.streams.formats.rdf.quads import NO_TIME_BESIDE, quad_parts
from dotr.streams.formats.rdf.times import GENERATED_AT_TIME, ElementTime
from dotr.streams.records import SHOWN, InputFile, Record, beginning
from dotr.syntax.turtle.graphs import canonical_triples

EMPTY_MESSAGE: Final = "it is an empty message"
_GENERATED: Final = NamedNode(GENERATED_AT_TIME[1:-1])
_NUMBER: Final = "urn:dotr:number"
_RULE: Final = f"{PROV}wasGeneratedBy"
_RULES: Final = "urn:dotr:rule:"


class MessageText(NamedTuple):
    """Text of a message, and its position.

    `offset` and `end` are in bytes (of a broker's message: in messages). `line` is that of the
    record, and `first_line` that of the first line in the errors of a parser.
    """

    offset: int
    end: int
    line: int
    raw: bytes
    first_line: int = 1

    def unreadable(self, why: str, time: Micros | None = None, reason: Reason = Reason.UNREADABLE) -> Record:
        """The record of an unreadable message; `time` (µs since 1970) where that is readable."""
        return Record(self.offset, self.end, self.line, None, None, beginning(self.raw, SHOWN), why, time, reason)

    def empty(self) -> Record:
        """The record of an empty message."""
        return self.unreadable(EMPTY_MESSAGE, reason=Reason.EMPTY)

    def record(self, time: Micros, triples: Sequence[Triple] | None) -> Record:
        """The record of an element; its triples are None in a scan."""
        element = None if triples is None else Element(time, canonical_triples(triples))
        return Record(self.offset, self.end, self.line, time, element, self.raw)


class _NamedGraph:
    """A named graph of a message.

    - `filled`: True if it has triples.
    - `triples`: its triples; empty in a scan.
    - `times`: the times that the default graph gives it, as terms.
    """

    __slots__ = ("filled", "times", "triples")

    def __init__(self) -> None:
        self.filled = False
        self.triples: list[Triple] = []
        self.times: list[str] = []

    def record(self, text: MessageText, times: ElementTime, elements: bool) -> Record:
        """The record of the graph as an element."""
        try:
            time = times.of(self.times, NO_TIME_BESIDE)
        except ValueError as error:
            return text.unreadable(str(error))
        return text.record(time, self.triples if elements else None)


class GraphReader:
    """Reader of the records of a message's quads.

    `datasets`: messages may have named graphs. `empty_graphs`: a message of times only, and of what
    dotr writes beside a time, has empty graphs with these times, as in TriG and N-Quads.

    >>> from pyoxigraph import RdfFormat, parse
    >>> from dotr.streams.records import Format, GraphSettings
    >>> document = '@prefix : <http://e/> . :a :p 1 ; :at 7 . :b { :c :at 7 }'
    >>> reader = GraphReader(InputFile("in", "", Format.TRIG, graphs=GraphSettings("<http://e/at>")), datasets=True)
    >>> [record] = reader.records(parse(document, RdfFormat.TRIG), MessageText(0, 9, 1, document.encode()), True)
    >>> record.time, record.element and len(record.element.triples)
    (7000000, 3)
    """

    __slots__ = ("_beside", "_datasets", "_empty_graphs", "_predicate", "_times")

    def __init__(self, spec: InputFile, *, datasets: bool = False, empty_graphs: bool = False) -> None:
        self._times = ElementTime(spec)
        self._beside = ElementTime(replace(spec, graphs=replace(spec.graphs, time="")))
        self._predicate = None if self._times.predicate is None else NamedNode(self._times.predicate[1:-1])
        self._datasets = datasets
        self._empty_graphs = empty_graphs

    def records(self, quads: Iterator[Quad], text: MessageText, elements: bool, sent: Micros | None = None) -> list[Record]:
        """Records of a message; raises ValueError where its time cannot be read, and the errors of
        the iteration over `quads`.

        `sent` is the transport's time (µs since 1970) where that is the time of elements.
        """
        first = next(quads, None)
        if first is None:
            return [text.empty()]
        if not elements and sent is not None:
            for _ in quads:  # raises where the message is unreadable
                pass
            return [text.record(sent, None)]
        if self._datasets:
            return self._dataset([first, *quads], text, elements, sent)
        if not elements and (predicate := self._predicate) is not None:
            values = [first[2]] if first[1] == predicate else []
            values += [quad[2] for quad in quads if quad[1] == predicate]
            return [text.record(self._times.of(map(str, values)), None)]
        triples: list[Triple] = []
        for quad in (first, *quads):
            subject, name, value = str(quad).split(" ", 2)
            triples.append((subject, name, value))
        if sent is None:
            sent = self._times.of(self._times.values(triples))
        return [text.record(sent, triples if elements else None)]

    def _dataset(self, quads: Sequence[Quad], text: MessageText, elements: bool, sent: Micros | None) -> list[Record]:
        """Records of quads: one for each named graph if any has its time, else a single one."""
        if sent is None and (self._empty_graphs or any(quad[3].__class__ is not DefaultGraph for quad in quads)):
            named, has_graphs, only_times = _named_graphs(quads, elements)
            if any(each.filled and each.times for each in named.values()) or (self._empty_graphs and only_times and not has_graphs):
                return [each.record(text, self._beside, elements) for each in named.values()]
        predicate = self._predicate
        triples = [quad_parts(quad)[1] for quad in quads] if elements or (sent is None and predicate is None) else None
        if sent is None:
            values = [str(quad[2]) for quad in quads if quad[1] == predicate] if triples is None else self._times.values(triples)
            sent = self._times.of(values)
        return [text.record(sent, triples if elements else None)]


def _named_graphs(quads: Iterable[Quad], elements: bool) -> tuple[dict[str, _NamedGraph], bool, bool]:
    """Named graphs by name in order of appearance, True if a graph is named, and True if the
    default graph has only times.

    Each subject of the default graph that is an IRI, or has a time, counts as the name of a graph.
    All its statements but times are dropped.
    """
    named: dict[str, _NamedGraph] = {}
    has_graphs, only_times = False, True
    last: object = None
    graph: _NamedGraph | None = None

    def of(name: str) -> _NamedGraph:
        found = named.get(name)
        if found is None:
            found = named[name] = _NamedGraph()
        return found

    for quad in quads:
        name = quad[3]
        if name.__class__ is not DefaultGraph:
            if graph is None or name != last:
                last, graph = name, of(str(name))
                graph.filled = has_graphs = True
            if elements:
                graph.triples.append(quad_parts(quad)[1])
        elif quad[1] == _GENERATED:
            of(str(quad[0])).times.append(str(quad[2]))
        else:
            only_times = only_times and is_of_dotr(quad[1].value, quad[2])
            if quad[0].__class__ is NamedNode:
                of(str(quad[0]))
    return named, has_graphs, only_times


def is_of_dotr(predicate: str, value: object) -> bool:
    """True for a statement that only dotr writes beside a graph: its rule or its number.

    >>> is_of_dotr(f"{PROV}wasGeneratedBy", NamedNode("urn:dotr:rule:R")), is_of_dotr(f"{PROV}wasGeneratedBy", NamedNode("urn:x"))
    (True, False)
    """
    return predicate == _NUMBER or (predicate == _RULE and isinstance(value, NamedNode) and value.value.startswith(_RULES))
