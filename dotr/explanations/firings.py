"""Replay of rules that keeps each of their firings, with its events and the names that it makes.

Idea: as in `dotr.explanations.recording`, a program of these rules and of those that they read is
run by the engine, and what arrives at a layer is recorded. Here all firings are kept, so that an
event can be followed to the firing that made it.
Memory: the history forgets what no window can reach.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from dotr.engine.driver import Engine
from dotr.engine.program import CompiledProgram
from dotr.engine.stage_two import EmitFirings, LayerResult
from dotr.explanations.history import History, RecordedEvent
from dotr.explanations.recorded_layer import RecordedLayer
from dotr.explanations.recording import program_of, read_rules
from dotr.explanations.replay import Replay
from dotr.layout.layers import MadeStream
from dotr.layout.retention import lookbacks, roles
from dotr.model.rules import EventSource, Rule
from dotr.model.stream import Firing
from dotr.model.terms import Label, Term, Variable
from dotr.model.time import Micros
from dotr.patterns.events import Match
from dotr.patterns.operator import Arrivals
from dotr.patterns.state import State

_FRESH: Final = "<urn:dotr:"
_MOST_EVENTS: Final = 400_000
"""Number of events of a history beyond which it forgets."""


class NamedFiring(NamedTuple):
    """A firing of a rule.

    Attributes:
        rule: the rule as it is written.
        time: in µs since 1970.
        ordinal: its number in the engine among the events of its label and time.
        events: the event of each positive role, by label.
        attributes: the bound attributes of the event that it makes.
        names: the fresh IRIs of its output graph, the first of the template first.
    """

    rule: Rule
    time: Micros
    ordinal: int
    events: Mapping[Label, RecordedEvent]
    attributes: Mapping[Variable, Term]
    names: tuple[Term, ...]


@dataclass(frozen=True)
class FiringRecorder:
    """The program of some rules and of those that they read, with the history that `run` fills.

    Attributes:
        replay: the replay, of the whole program.
        program: the program that is run.
        history: the events seen so far.
        firings: the firings so far of each rule, by its name, in the order of time.
        horizon: how far back in µs the windows of all rules together reach.
    """

    replay: Replay
    program: CompiledProgram
    history: History
    firings: dict[str, list[NamedFiring]] = field(default_factory=dict)
    horizon: Micros = 0

    @staticmethod
    def of(replay: Replay, rules: Iterable[str]) -> FiringRecorder:
        """A recorder for rules, by their names."""
        program = program_of(replay.program, read_rules(replay.program.rules.rules, rules))
        written = program.rules.rules
        read = {role.source.event for rule in written for role in roles(rule) if isinstance(role.source, EventSource)}
        history = History(
            {source: number for number, source in enumerate(program.layout.streams)},
            {label: program.attributes[label] for label in sorted(read)},
        )
        horizon = sum(max(each.far for each in lookbacks(rule)) for rule in written)
        return FiringRecorder(replay, program, history, horizon=horizon)

    def run(self, until: Micros | None = None) -> Iterator[Sequence[NamedFiring]]:
        """Run the replay from the first instant on; the firings of each instant, those of timers and
        of delayed anchors before it included. The history then holds all that they have seen.

        Args:
            until: the last time in µs that is run; None: to the end.
        """
        done: list[NamedFiring] = []
        program = self.program
        layers = [_FiringLayer(self, number, read, done) for number, read in enumerate(program.events_read_above)]
        engine = Engine(program, self.replay.clock, layers)
        since_forgotten = 0
        for instant in self.replay.instants():
            if until is not None and instant.time > until:
                for _ in engine.moments_until(until):
                    pass
                yield from self._take(done)
                return
            instant.step(engine)
            yield from self._take(done)
            since_forgotten += 1
            if since_forgotten > 1_000 and self.history.count() > _MOST_EVENTS:
                since_forgotten = 0
                self._forget(instant.time - self.horizon)
        if self.replay.ended:
            for _ in engine.finish():
                yield from self._take(done)

    def _take(self, done: list[NamedFiring]) -> Iterator[Sequence[NamedFiring]]:
        if done:
            for each in done:
                self.firings.setdefault(each.rule.name, []).append(each)
            yield done.copy()
            done.clear()

    def _forget(self, before: Micros) -> None:
        self.history.forget(before)
        for name, firings in self.firings.items():
            self.firings[name] = [each for each in firings if each.time >= before]

    def made(self, event: RecordedEvent) -> NamedFiring | None:
        """The firing that made a composite event; None where it is forgotten."""
        for rule in self.program.rules.rules:
            if rule.event == event.stream:
                for each in reversed(self.firings.get(rule.name, ())):
                    if each.time < event.time:
                        break
                    if each.time == event.time and self.history.find(event.stream, each.time, each.ordinal) == event:
                        return each
        return None


class _FiringLayer(RecordedLayer):
    """A layer that records what arrives at it, and its firings."""

    def __init__(self, recorder: FiringRecorder, number: int, above: frozenset[MadeStream], done: list[NamedFiring]) -> None:
        super().__init__(recorder.program, recorder.history, number, above, recorder.replay.clock)
        self._done = done
        self._written: list[tuple[Match, Firing]] = []

    def step(
        self,
        state: State,
        time: Micros,
        arrivals: Arrivals,
        partition: int = 0,
        *,
        ended: bool = False,
        emit: EmitFirings | None = None,
    ) -> LayerResult:
        """The result of a moment, which is recorded."""
        self.record_arrivals(time, arrivals)
        self._written.clear()
        result = super().step(state, time, arrivals, partition, ended=ended, emit=emit)
        if self._written:
            self.record_made(time, [match for match, _ in self._written])
            self._done += [self._firing(match, firing) for match, firing in self._written]
        return result

    def write_firings(self, time: Micros, matched: Sequence[Match], repeats: dict[bytes, int]) -> LayerResult:
        """The firings of matches, which are kept with them."""
        result = super().write_firings(time, matched, repeats)
        if len(result.firings) == len(matched):
            self._written += zip(matched, result.firings, strict=True)
        return result

    def _firing(self, match: Match, firing: Firing) -> NamedFiring:
        known = set(match.values)
        fresh = [term for triple in firing.graph or () for term in triple if term.startswith(_FRESH) and term not in known]
        names = tuple(dict.fromkeys(fresh))
        rule, events = self.rules[match.rule], self.bound_events(match)
        return NamedFiring(rule, firing.time, match.ordinal, events, dict(firing.attributes), names)
