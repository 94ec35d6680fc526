"""Elements of one message that is RDF: a graph, or a dataset.

Idea: where named graphs have their times in the default graph (the RSP stream model), each is an
element. Else all graphs together are one element, whose time is the one distinct value of a
predicate in the message, whatever its subject and graph. A transport's time is for one element too.
Invariant: a message is unreadable in a scan exactly if it is unreadable when read.
Cost: pyoxigraph's, and about 0.4 µs a triple.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from pyoxigraph import Quad

from dotr.languages.turtle.graphs import canonical_triples
from dotr.model.stream import Element, Reason
from dotr.model.terms import Triple
from dotr.model.time import Micros, Unit
from dotr.sources.quads import GENERATED_AT_TIME, quad_parts, time_of_term
from dotr.sources.records import SHOWN, GraphSettings, Record, beginning

EMPTY_MESSAGE: Final = "it is an empty message"
_SHOWN_TIME: Final = "prov:generatedAtTime"


class MessageText(NamedTuple):
    """Bytes of a message, and their place: offset and end in bytes (in a broker's topic: in
    messages), and the line. `first_line` is the number of its first line in the errors of a parser.
    """

    offset: int
    end: int
    line: int
    raw: bytes
    first_line: int = 1

    def unreadable(self, why: str, time: Micros | None = None, reason: Reason = Reason.UNREADABLE) -> Record:
        """The record of a message that cannot be read."""
        return Record(self.offset, self.end, self.line, None, None, beginning(self.raw, SHOWN), why, time, reason)

    def record(self, time: Micros, triples: Sequence[Triple] | None) -> Record:
        """The record of an element; its triples are None in a scan."""
        element = None if triples is None else Element(time, canonical_triples(triples))
        return Record(self.offset, self.end, self.line, time, element, self.raw)


@dataclass
class _NamedGraph:
    """A named graph of a message: its triples, and its times as terms."""

    triples: list[Triple] = field(default_factory=list)
    times: dict[str, None] = field(default_factory=dict)

    def record(self, text: MessageText, unit: Unit, elements: bool) -> Record:
        """The record of the graph as an element."""
        try:
            times = {time_of_term(value, unit) for value in self.times}
        except ValueError as error:
            return text.unreadable(str(error))
        if len(times) != 1:
            return text.unreadable(
                f"it has more than one {_SHOWN_TIME}" if times else f"no {_SHOWN_TIME} stands beside it in the default graph"
            )
        return text.record(times.pop(), self.triples if elements else None)


def graph_records(
    quads: Iterable[Quad],
    text: MessageText,
    settings: GraphSettings,
    unit: Unit,
    elements: bool,
    sent: Micros | None = None,
    *,
    empty_graphs: bool = False,
) -> list[Record]:
    """Records of the quads of a message; raises ValueError where their time cannot be read.

    `sent` is the transport's time where the elements have that one. `empty_graphs`: times without
    anything else are those of empty graphs, as in TriG and N-Quads.

    >>> from pyoxigraph import RdfFormat, parse
    >>> document = '@prefix : <http://e/> . :a :p 1 ; :at 7 . :b { :c :at 7 }'
    >>> text, settings = MessageText(0, 9, 1, document.encode()), GraphSettings("<http://e/at>")
    >>> [record] = graph_records(parse(document, RdfFormat.TRIG), text, settings, Unit.SECOND, True)
    >>> record.time, record.element and len(record.element.triples)
    (7000000, 3)
    """
    parts = [quad_parts(quad) for quad in quads]
    if not parts:
        return [text.unreadable(EMPTY_MESSAGE, reason=Reason.EMPTY)]
    if sent is not None:
        return [text.record(sent, [triple for _, triple in parts] if elements else None)]
    has_graphs = any(graph for graph, _ in parts)
    if has_graphs or (empty_graphs and all(triple[1] == GENERATED_AT_TIME for _, triple in parts)):
        named = _named_graphs(parts)
        if not has_graphs or any(each.triples and each.times for each in named.values()):
            return [each.record(text, unit, elements) for each in named.values()]
    predicate = settings.time or GENERATED_AT_TIME
    shown = _SHOWN_TIME if predicate == GENERATED_AT_TIME else predicate
    times = {time_of_term(value, unit, shown) for value in dict.fromkeys([triple[2] for _, triple in parts if triple[1] == predicate])}
    if len(times) != 1:
        return [text.unreadable(f"it has more than one {shown}" if times else f"it has no {shown}")]
    return [text.record(times.pop(), [triple for _, triple in parts] if elements else None)]


def _named_graphs(parts: Sequence[tuple[str, Triple]]) -> dict[str, _NamedGraph]:
    """Named graphs and what the default graph gives times to, by name, in order of appearance.

    Other statements about a graph, and those about blank nodes, are dropped; what else the default
    graph is about is a graph without triples and time.
    """
    named: dict[str, _NamedGraph] = {}
    for graph, triple in parts:
        subject, predicate, value = triple
        if graph:
            named.setdefault(graph, _NamedGraph()).triples.append(triple)
        elif predicate == GENERATED_AT_TIME:
            named.setdefault(subject, _NamedGraph()).times[value] = None
        elif not subject.startswith("_:"):
            named.setdefault(subject, _NamedGraph())
    return named
