"""Units of a program: rules and continuous queries with resolved streams (semantics.md, section 8).

Idea: layout knows of a unit what it reads and what it makes, by label, and not its language. A unit
reads a label *now* if events of its own moment may count: units of one moment run in that order.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, TypeAlias, assert_never

from dotr.layout.retention import lookbacks, roles
from dotr.model.graphs import components, shortest_path
from dotr.model.places import Span
from dotr.model.rules import EventSource, Role, Rule
from dotr.model.terms import Label, Variable

if TYPE_CHECKING:  # loaded where a program has a query
    from dotr.model.continuous import ContinuousQuery


@dataclass(frozen=True, slots=True)
class MadeGraphs:
    """The stream of the graphs that events of a label have."""

    label: Label


@dataclass(frozen=True, slots=True)
class FedGraphs:
    """The stream that inputs feed, by its name (`StreamName`)."""

    name: str


GraphStream: TypeAlias = MadeGraphs | FedGraphs


@dataclass(frozen=True, slots=True)
class StreamQuery:
    """A continuous query with the stream of each of its windows; `attributes`, sorted, are those of
    its events.
    """

    query: ContinuousQuery
    streams: tuple[GraphStream, ...]
    attributes: tuple[Variable, ...]

    @property
    def name(self) -> str:
        """The name of the unit, which is its label."""
        return self.query.label

    @property
    def event(self) -> Label:
        """The label of the events that the query makes."""
        return self.query.label


ProgramUnit: TypeAlias = Rule | StreamQuery
"""What is evaluated, placed and given a partition."""


class UnitReading(NamedTuple):
    """A label that a unit reads: `now` if events of its own moment may count; its place, and the
    role of a rule that reads it.
    """

    label: Label
    now: bool
    span: Span
    role: Role | None


def readings(unit: ProgramUnit) -> Iterator[UnitReading]:
    """The labels and graphs of other units that a unit reads."""
    match unit:
        case Rule():
            for role, reach in zip(roles(unit), lookbacks(unit), strict=True):
                if isinstance(role.source, EventSource):
                    yield UnitReading(role.source.event, reach.near == 0, role.span, role)
        case StreamQuery(query, streams):
            for window, stream in zip(query.windows, streams, strict=True):
                if isinstance(stream, MadeGraphs):
                    yield UnitReading(stream.label, True, window.stream_span, None)
        case _:
            assert_never(unit)


def makers(units: Sequence[ProgramUnit]) -> Mapping[Label, Sequence[ProgramUnit]]:
    """The units that make the events of each label."""
    found: dict[Label, list[ProgramUnit]] = {}
    for unit in units:
        found.setdefault(unit.event, []).append(unit)
    return found


class UnitCycle(NamedTuple):
    """A cycle that holds a query: the labels on the way from its event back to it, and the place
    where the query reads the first of them.
    """

    labels: tuple[Label, ...]
    span: Span


def cycles_of_queries(rules: Sequence[Rule], queries: Sequence[StreamQuery]) -> list[UnitCycle]:
    """The cycles of reading that hold a query, one for each group of units that read each other.

    A query is in no cycle at all, not even through the past; cycles of rules alone are refused
    where rules are compiled.
    """
    units: list[ProgramUnit] = [*rules, *queries]
    reads: dict[Label, list[Label]] = {}
    for unit in units:
        reads.setdefault(unit.event, []).extend(reading.label for reading in readings(unit))
    component = components((label, other) for label, others in reads.items() for other in others)
    found: dict[int, UnitCycle] = {}
    for query in queries:
        for reading in readings(query):
            number = component[query.event]
            if component[reading.label] == number and number not in found:
                way = shortest_path(reading.label, query.event, lambda label: reads.get(label, ()))
                found[number] = UnitCycle((query.event, *way), reading.span)
    return list(found.values())
