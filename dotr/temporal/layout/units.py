"""Units of a program: rules and units of other languages, with the streams that they read and make.

Idea: layout depends on the streams that a unit reads and makes, and not on its language
(semantics.md, 8). A unit reads a stream *now* if arrivals of its own moment may count; units of one
moment are stepped in the order of these reads. A language derives a class from
`dotr.explanations.unit.ExplainedUnit`, and so from `StreamUnit`; nothing else asks for that class.
Example: the query `Q` that reads the input stream `s` and the graphs that the rule `R` defines has
two reads, `FedGraphs("s")` and `MadeGraphs("R")`, both now; it makes the label `Q`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple, TypeAlias

from dotr.model.graphs import components, shortest_path
from dotr.model.places import Span
from dotr.model.rules import EventSource, Role, Rule
from dotr.model.terms import Label
from dotr.model.units import IntervalEvents, MadeGraphs, UnitEvents, UnitStream
from dotr.temporal.layout.keys import UnitKey
from dotr.temporal.layout.retention import lookbacks, roles
from dotr.temporal.layout.spread import ReadSpread


class UnitRead(NamedTuple):
    """A stream that a unit reads; its index in `StreamUnit.reads` is the number under which
    `UnitRun.step` receives its arrivals.

    - `now`: arrivals of the unit's own moment may count; false if only those of earlier times do.
    - `span`: the place in the unit's file that names the stream.
    """

    stream: UnitStream
    now: bool
    span: Span


class StreamUnit(ABC):
    """A unit of another language than that of rules: a continuous query, a `.lars` file, a unit of
    a `.epsparql` file. Units are frozen values. What is not abstract here is that of most units.
    """

    __slots__ = ()

    @property
    def noun(self) -> str:
        """The noun of the unit in messages."""
        return "unit"

    @property
    @abstractmethod
    def name(self) -> str:
        """The name, unique among units and rules: the label, or the name of the file."""

    @property
    @abstractmethod
    def span(self) -> Span:
        """The place of the name, for messages."""

    @property
    @abstractmethod
    def makes(self) -> tuple[UnitEvents, ...]:
        """For each label of its events, sorted attributes, whether they have graphs, and the place.
        There may be several labels, or none."""

    @property
    @abstractmethod
    def reads(self) -> tuple[UnitRead, ...]:
        """The streams in the order of their numbers."""

    @property
    @abstractmethod
    def key(self) -> UnitKey:
        """The key of its partitions, or the reason why it has one partition."""

    @property
    def may_recur(self) -> bool:
        """True for a unit that may be part of a cycle through the past. Such a component has one
        partition."""
        return False

    @property
    def members(self) -> tuple[ProgramUnit, ...]:
        """The units and rules that depend on each other through the past, and are one unit; of any
        other unit, itself."""
        return (self,)

    @property
    def rules(self) -> tuple[Rule, ...]:
        """The rules among the members."""
        return ()

    @property
    def merges_instants(self) -> bool:
        """True for a unit that closes triples of several instants together."""
        return False

    @property
    def acts_alone(self) -> bool:
        """True for a unit that may make events at a time without arrivals."""
        return True

    def key_names(self) -> tuple[str, ...]:
        """The key of a unit that is spread, as texts for state; empty: it has one partition."""
        return ()

    def read_spreads(self) -> Sequence[ReadSpread] | None:
        """The spread of each read, the same for reads of one stream; None: it has one partition."""
        return None

    def cut(self) -> Sequence[StreamUnit]:
        """The units that do its work where units are cut into stages; of most, itself."""
        return (self,)


ProgramUnit: TypeAlias = Rule | StreamUnit
"""A unit of evaluation, which has a layer and a partitioning."""


class UnitReading(NamedTuple):
    """A label that a unit reads.

    - `now`: events of the unit's own moment may count.
    - `span`: the place of the label in the unit's file.
    - `role`: the role of a rule that reads it; None for other units.
    """

    label: Label
    now: bool
    span: Span
    role: Role | None


def readings(unit: ProgramUnit) -> Iterator[UnitReading]:
    """The labels of other units whose events or graphs a unit reads."""
    if isinstance(unit, Rule):
        for role, reach in zip(roles(unit), lookbacks(unit), strict=True):
            if isinstance(role.source, EventSource):
                yield UnitReading(role.source.event, reach.near == 0, role.span, role)
        return
    for stream, now, span in unit.reads:
        if isinstance(stream, EventSource):
            yield UnitReading(stream.event, now, span, None)
        elif isinstance(stream, MadeGraphs | IntervalEvents):
            yield UnitReading(stream.label, now, span, None)


def labels_made(unit: ProgramUnit) -> tuple[Label, ...]:
    """The labels of the events that a unit makes."""
    return (unit.event,) if isinstance(unit, Rule) else tuple(each.label for each in unit.makes)


def makers(units: Sequence[ProgramUnit]) -> Mapping[Label, Sequence[ProgramUnit]]:
    """The units that make the events of each label."""
    found: dict[Label, list[ProgramUnit]] = {}
    for unit in units:
        for label in labels_made(unit):
            found.setdefault(label, []).append(unit)
    return found


class UnitCycle(NamedTuple):
    """A cycle of reads that is an error.

    - `labels`: the labels on the cycle, the first and the last being a label of the unit.
    - `span`: the place where the unit reads the second of them.
    - `unit`: the name of the unit.
    - `now`: the cycle is one within a moment, which is an error for every unit.
    """

    labels: tuple[Label, ...]
    span: Span
    unit: str
    now: bool


def refused_cycles(rules: Sequence[Rule], units: Sequence[StreamUnit]) -> list[UnitCycle]:
    """The cycles of reads that are errors, one for each strongly connected component of labels.

    Every cycle of a unit that may not recur is an error; of a unit that may recur, a cycle of reads
    *now*. Cycles of rules alone are refused where rules are compiled.
    """
    found = _cycles(rules, units, [unit for unit in units if not unit.may_recur], now=False)
    return found or _cycles(rules, units, [unit for unit in units if unit.may_recur], now=True)


def _cycles(rules: Sequence[Rule], units: Sequence[StreamUnit], barred: Sequence[StreamUnit], *, now: bool) -> list[UnitCycle]:
    """The cycles through labels of `barred` units; `now`: only cycles of reads *now* count."""
    reads: dict[Label, list[Label]] = {}
    all_units: list[ProgramUnit] = [*rules, *units]
    for unit in all_units:
        sources = [reading.label for reading in readings(unit) if reading.now or not now]
        for label in labels_made(unit):
            reads.setdefault(label, []).extend(sources)
    component = components((label, other) for label, others in reads.items() for other in others)
    found: dict[int, UnitCycle] = {}
    for unit in barred:
        for reading in readings(unit):
            if now and not reading.now:
                continue
            for label in labels_made(unit):
                number = component.get(label)
                if number is not None and component[reading.label] == number and number not in found:
                    path = shortest_path(reading.label, label, lambda label: reads.get(label, ()))
                    found[number] = UnitCycle((label, *path), reading.span, unit.name, now)
    return list(found.values())


def units_by_label(units: Sequence[StreamUnit]) -> dict[Label, StreamUnit]:
    """The unit that makes the events of each label; rules within components are left out."""
    found: dict[Label, StreamUnit] = {}
    for unit in units:
        found |= {label: unit for each in unit.members if not isinstance(each, Rule) for label in labels_made(each)}
    return found
