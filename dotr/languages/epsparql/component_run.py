"""A component of units that depend on each other through the past, with its state.

Idea: a moment has two phases. In the first the members make their events, in the topological order
of their reads of the same moment; these events arrive at later members. In the second each member
stores what it reads strictly in the past, of members before and after it. A member that is a rule
is a layer with one rule; in the second phase events are inserted into the stores of its ports.
Invariant: as for one unit, `step` is a function of the state and its arguments.
Source: ep-sparql.md, section 4; semantics.md, section 8.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial

from dotr.engine.unit_runs import EventPart, UnitArrivals, UnitResult, UnitRun
from dotr.evaluation.limits import Limits
from dotr.languages.epsparql.run import IntervalRun
from dotr.languages.epsparql.unit import IntervalUnit, LinkedMembers, Member, label_read, member_reads
from dotr.model.event_order import sort_by_tie, tie_key
from dotr.model.rules import EventSource, Rule
from dotr.model.stream import DeadLetter, Firing
from dotr.model.terms import Label, Variable
from dotr.model.time import Clock, Micros
from dotr.model.units import IntervalEvents, UnitStream
from dotr.temporal.items import graph_row
from dotr.temporal.layout.layers import Layout, lay_out
from dotr.temporal.matching.events import StoredEvent
from dotr.temporal.matching.operator import Arrival
from dotr.temporal.matching.rule_counts import RuleCounts
from dotr.temporal.stage_two import StageTwo


class _IntervalMember:
    """A unit of EP-SPARQL in a component."""

    def __init__(self, unit: IntervalUnit, clock: Clock, limits: Limits, *, traced: bool) -> None:
        self.run = IntervalRun(unit, clock, limits, traced=traced)

    def new(self, time: Micros, arrivals: UnitArrivals) -> UnitResult:
        return self.run.new(time, arrivals) if arrivals else _NOTHING

    def keep(self, time: Micros, arrivals: UnitArrivals) -> Sequence[DeadLetter]:
        return self.run.keep(time, arrivals).failed if arrivals else ()

    def next_due(self) -> Micros | None:
        return None

    def take_counts(self) -> Mapping[str, RuleCounts]:
        return self.run.take_rule_counts()

    @property
    def kept(self) -> int:
        return sum(self.run.event_counts)

    def to_json(self) -> str:
        return self.run.whole_state()

    def restore(self, text: str) -> None:
        self.run.restore(text, ())


class _RuleMember:
    """A rule in a component: a layer with one rule.

    The rule may read events of its own label, its own and those of other members. All of these must
    arrive in the second phase, so the layer makes events of another label (`made`), which no port
    reads; `new` gives them the rule's label.
    """

    def __init__(self, rule: Rule, attributes: Mapping[Label, tuple[Variable, ...]], clock: Clock, limits: Limits) -> None:
        made = f"{rule.event} of {rule.name}"
        self.rule = rule
        self.layout = lay_out([replace(rule, event=made)])
        (layer,) = self.layout.layers
        self.attributes = {**attributes, made: attributes[rule.event]}
        self._ports = layer.rules[0].ports
        self._stage = StageTwo(layer, self.attributes, clock, frozenset(), limits)
        self._state = self._stage.start()
        self._stored: set[int] = set()
        self._is_ended = False

    def step_by(self, stage: StageTwo) -> None:
        """Replace the layer that steps the rule by another one for `layout`, with a new state."""
        self._stage = stage
        self._state = stage.start()

    def new(self, time: Micros, arrivals: UnitArrivals) -> UnitResult:
        by_port: dict[int, list[Arrival]] = {}
        for read, rows in arrivals.items():
            by_port.setdefault(self._ports[read], list(rows))
        self._stored = set(by_port)
        if not by_port and self.next_due() != time:
            return _NOTHING
        result = self._stage.step(self._state, time, by_port, ended=self._is_ended)
        return UnitResult([firing._replace(event=self.rule.event) for firing in result.firings], result.failed)

    def keep(self, time: Micros, arrivals: UnitArrivals) -> Sequence[DeadLetter]:
        by_port = {self._ports[read]: rows for read, rows in arrivals.items()}
        by_port = {port: rows for port, rows in by_port.items() if port not in self._stored}
        if by_port:
            self._stage.keep(self._state, time, by_port, ended=self._is_ended)
        return ()

    def end(self) -> None:
        self._is_ended = True

    def next_due(self) -> Micros | None:
        return self._stage.next_due(self._state)

    def take_counts(self) -> Mapping[str, RuleCounts]:
        counts = self._stage.rule_counts(self._state.counter)
        self._state.counter = self._stage.counter()
        return counts

    @property
    def kept(self) -> int:
        return len(self._state)

    def to_json(self) -> str:
        return self._state.encode().decode("utf-8", "surrogatepass")

    def restore(self, text: str) -> None:
        self._state = self._stage.restore(text.encode("utf-8", "surrogatepass"))


class ComponentRun(UnitRun):
    """The members of a component with their state."""

    def __init__(self, component: LinkedMembers, clock: Clock, limits: Limits, *, traced: bool = False) -> None:
        self.unit = component
        self.acts_alone = any(rule.anchor.delay for rule in component.rules)
        attributes = {each.label: each.attributes for each in component.makes}
        make = partial(_member, attributes=attributes, clock=clock, limits=limits, traced=traced)
        self._members = [make(member) for member in component.members]
        numbers = {(read.stream, read.now): number for number, read in enumerate(component.reads)}
        self._reads = [
            [
                (numbers.get((read.stream, read.now)), read.stream if label_read(read) in component.inside else None, read.now)
                for read in reads
            ]
            for reads in map(member_reads, component.members)
        ]
        self._inside: dict[Label, list[UnitStream]] = {}
        for reads in self._reads:
            for _, stream, _ in reads:
                match stream:
                    case EventSource(label, _) | IntervalEvents(label, _):
                        streams = self._inside.setdefault(label, [])
                        streams += [] if stream in streams else [stream]
                    case _:
                        pass

    def step_rule_by(self, rule: Rule, make: Callable[[Layout, Mapping[Label, tuple[Variable, ...]]], StageTwo]) -> None:
        """Replace the layer of a member that is a rule."""
        for member in self._members:
            if isinstance(member, _RuleMember) and member.rule == rule:
                member.step_by(make(member.layout, member.attributes))

    @property
    def runs(self) -> Mapping[Label, IntervalRun]:
        """The runs of the members other than rules, by label."""
        return {each.run.unit.name: each.run for each in self._members if isinstance(each, _IntervalMember)}

    def end(self, last: Micros, *, is_fed: bool) -> Sequence[DeadLetter]:
        for member in self._members:
            if isinstance(member, _RuleMember):
                member.end()
        return ()

    def next_due(self) -> Micros | None:
        return min((due for member in self._members if (due := member.next_due()) is not None), default=None)

    @property
    def is_under_way(self) -> bool:
        return self.next_due() is not None

    def step(self, time: Micros, arrivals: UnitArrivals, *, is_fed: bool = False) -> UnitResult:
        made: dict[UnitStream, list[Arrival]] = {}
        firings: list[Firing] = []
        starts: list[Micros] = []
        parts: list[Sequence[EventPart]] = []
        failed: list[DeadLetter] = []
        for member, reads in zip(self._members, self._reads, strict=True):
            result = member.new(time, self._arrived(reads, arrivals, made, past=False))
            failed += result.failed
            if result.firings:
                own_starts = list(result.starts) or [time] * len(result.firings)
                firings += result.firings
                starts += own_starts
                parts += result.parts or [()] * len(result.firings)
                self._add(made, result.firings, own_starts)
        for member, reads in zip(self._members, self._reads, strict=True):
            failed += member.keep(time, self._arrived(reads, arrivals, made, past=True))
        return UnitResult(firings, failed, starts=starts, parts=parts)

    @staticmethod
    def _arrived(
        reads: Sequence[tuple[int | None, UnitStream | None, bool]],
        arrivals: UnitArrivals,
        made: Mapping[UnitStream, list[Arrival]],
        *,
        past: bool,
    ) -> dict[int, Sequence[Arrival]]:
        """The arrivals at a member, by the number of its read.

        Events of a label that members make arrive at a read of the past only in the second phase
        (`past`), when all of them are made.
        """
        found: dict[int, Sequence[Arrival]] = {}
        for number, (outer, stream, now) in enumerate(reads):
            if stream is not None and not (now or past):
                continue
            rows = [] if outer is None else list(arrivals.get(outer, ()))
            if stream is not None:
                rows += made.get(stream, ())
                if isinstance(stream, EventSource):
                    names = stream.attributes
                    rows.sort(key=lambda row: tie_key(names, row[1]))
                    rows = [(ordinal, values) for ordinal, (_, values) in enumerate(rows)]
            if rows:
                found[number] = rows
        return found

    def _add(self, made: dict[UnitStream, list[Arrival]], firings: Sequence[Firing], starts: Sequence[Micros]) -> None:
        """Add events to `made`, in the form in which each stream of the members has them."""
        for label in dict.fromkeys(firing.event for firing in firings):
            for stream in self._inside.get(label, ()):
                rows = made.setdefault(stream, [])
                of_label = [(firing, start) for firing, start in zip(firings, starts, strict=True) if firing.event == label]
                match stream:
                    case IntervalEvents(_, None):
                        rows += [(0, (str(start), *graph_row(firing.graph or ()))) for firing, start in of_label]
                    case IntervalEvents(_, tuple(names)):
                        rows += [(0, (str(start), *_values(firing, names))) for firing, start in of_label]
                    case EventSource(_, names):
                        values = sort_by_tie(names, [_values(firing, names) for firing, _ in of_label])
                        rows += [(ordinal, each) for ordinal, each in enumerate(values, len(rows))]
                    case _:
                        pass

    def take_rule_counts(self) -> Mapping[str, RuleCounts]:
        return {name: counts for member in self._members for name, counts in member.take_counts().items()}

    # --- state ---

    @property
    def event_counts(self) -> Sequence[int]:
        """The number of stored events of all members, under the first read."""
        kept = sum(member.kept for member in self._members)
        return [kept, *[0] * (len(self.unit.reads) - 1)] if self.unit.reads else []

    def to_json(self) -> str:
        return json.dumps([member.to_json() for member in self._members])

    def restore(self, text: str, entries: Sequence[Sequence[StoredEvent]]) -> None:
        for member, written in zip(self._members, json.loads(text), strict=True):
            member.restore(written)


_NOTHING = UnitResult([])


def _member(
    member: Member, *, attributes: Mapping[Label, tuple[Variable, ...]], clock: Clock, limits: Limits, traced: bool
) -> _IntervalMember | _RuleMember:
    if isinstance(member, Rule):
        return _RuleMember(member, attributes, clock, limits)
    return _IntervalMember(member, clock, limits, traced=traced)


def _values(firing: Firing, names: Sequence[Variable]) -> tuple[str | None, ...]:
    attributes = dict(firing.attributes)
    return tuple([attributes.get(name) for name in names])
