"""Values of the stream: elements, instants, facts, firings and dead letters.

Source: semantics.md, sections 1, 3 and 6.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from operator import itemgetter
from typing import Final, NamedTuple

from dotr.model.terms import Label, Term, Triple, Variable
from dotr.model.time import Micros


class Element(NamedTuple):
    """A time-stamped RDF graph of an input.

    - `time`: in µs since 1970.
    - `triples`: their blank nodes are local, named `_:0`, `_:1`, … in order of appearance.
    """

    time: Micros
    triples: tuple[Triple, ...]


class InputElement(Element):
    """An element that knows its input."""

    @property
    def input(self) -> str:
        """The name of the input."""
        raise NotImplementedError


class FedGraph(tuple[Triple, ...]):
    """The triples of an element on a stream of continuous queries: a tuple with one more attribute.

    - `stream`: the name of the stream (`StreamName`).
    """

    stream: str

    @classmethod
    def on(cls, stream: str, triples: tuple[Triple, ...]) -> FedGraph:
        """A graph of the triples on a stream.

        >>> graph = FedGraph.on("sensors", (("<a>", "<p>", "<b>"),))
        >>> graph.stream, graph == (("<a>", "<p>", "<b>"),)
        ('sensors', True)
        """
        graph = cls(triples)
        graph.stream = stream
        return graph


class Instant(NamedTuple):
    """The RDF merge of all elements of one time; blank nodes have their final names.

    It may have no triples. `time` is in µs since 1970.
    """

    time: Micros
    triples: tuple[Triple, ...]


@dataclass(frozen=True, slots=True)
class Fact:
    """A fact of interest: a solution of a query at one instant, before any temporal constraint."""

    type: Label
    time: Micros
    attributes: Mapping[Variable, Term]


class Firing(NamedTuple):
    """One match of a rule, or one event of another unit, in the form in which sinks write it.

    - `time`: in µs since 1970.
    - `attributes`: (name, term) pairs, sorted by name.
    - `rule`: the name of the rule, or the label of another unit.
    - `graph`: triples of the output graph, without duplicates, in the order of the template; None
      for an event without a graph, which is not the same as an empty graph.
    - `dropped`: number of triples that are not valid RDF and were left out (semantics.md, section
      5).
    """

    time: Micros
    rule: str
    event: Label
    attributes: tuple[tuple[Variable, Term], ...]
    graph: tuple[Triple, ...] | None
    dropped: int


class Reason(Enum):
    """Reason for which an element is a dead letter.

    IDLE: the instant had closed while the input was declared idle. SECOND: another element had the
    same time, in an input where every element is an instant. EMPTY: an RDF message without triples,
    which is counted and left out, and never written as a dead letter. LOST: a broker dropped it
    unread. GAP: a unit would have acted too often between two instants. AHEAD: its time is too long
    after the timestamp of its message.
    """

    LATE = "late"
    UNREADABLE = "unreadable"
    INCONSISTENT = "inconsistent"
    LIMIT = "limit"
    FAILED = "failed"
    IDLE = "idle"
    SECOND = "second"
    EMPTY = "empty"
    LOST = "lost"
    GAP = "gap"
    AHEAD = "ahead"


class DeadLetter(NamedTuple):
    """An element that was rejected.

    - `line`: counted from 1.
    - `time`: in µs since 1970; None where none could be read.
    - `text`: the source text of the element.
    - `why`: a sentence for the user.
    - `encoding`: "base64" where the element is not text: `text` then holds its bytes, encoded.
    """

    reason: Reason
    input: str
    file: str
    line: int
    time: Micros | None
    text: str
    why: str
    encoding: str = ""


output_order: Final[Callable[[Firing], tuple[object, ...]]] = itemgetter(0, 1, 3, 2, 4)
"""The sort key of output: time, rule, attributes (interface.md), then event and graph."""
