"""Comparison of two programs over their inputs: the new, lost and equal events of each rule.

Idea: both programs are stepped instant by instant, reading the inputs once if they are the same.
The events up to a time that both programs have passed are compared and discarded. Events are equal
if their times, types, attributes and graphs are, up to fresh names. Events are compared as they are
written first, and only those that differ in a canonical form without fresh names.
Memory: the state of both programs, the events of an instant, and the few events that are shown.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import field, replace
from itertools import groupby
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, NamedTuple, TypeAlias

from dotr.commands.test.difference import comparable, comparable_attributes
from dotr.engine.driver import Engine
from dotr.engine.program import CompiledProgram
from dotr.engine.replay import RejectedElement, Replay, ReplayedInstant
from dotr.engine.state.schema import renamed_rules, state_schema
from dotr.errors.diagnostics import Diagnostic, Refused, refuse
from dotr.instant.instants import published_firings
from dotr.languages.programs import compile_program
from dotr.model import dataclass
from dotr.model.stream import NO_INPUTS, Firing, PublishedInputs
from dotr.model.time import LAST_MICRO, Micros
from dotr.runtimes.external_sort import SortedRuns, SpillFormat, merge_runs
from dotr.runtimes.pipeline.config import OF_INPUTS, Config, read_config
from dotr.runtimes.pipeline.inputs import Inputs, read_inputs
from dotr.runtimes.pipeline.outputs import published_inputs, targets_of
from dotr.runtimes.pipeline.replay import replay_of_inputs
from dotr.runtimes.pipeline.written import WrittenEvent, WrittenOutput
from dotr.temporal.layout.units import units_by_label


@dataclass(slots=True)
class RuleDifference:
    """The events of one rule in both programs.

    Attributes:
        rule: the name of the rule, in the program with the change where it has it.
        older: its name in the program without the change; None: the rule is not in it.
        newer: its name in the program with the change; None: the rule is not in it.
        before: the number of its events without the change.
        after: the number of its events with the change.
        new: the number of events with the change only.
        gone: the number of events without the change only.
        read: if this rule differs only because of rules that it reads, directly or not: those
        rules. first_new: the first new events, as many as are to be shown.
        first_gone: the first gone events, likewise.
        internal: the events are internal, in the program with the change where it has the rule.
    """

    rule: str
    older: str | None
    newer: str | None
    before: int = 0
    after: int = 0
    new: int = 0
    gone: int = 0
    read: tuple[str, ...] = ()
    first_new: list[Firing] = field(default_factory=list)
    first_gone: list[Firing] = field(default_factory=list)
    internal: bool = False

    @property
    def differs(self) -> bool:
        """True if an event is new or gone."""
        return bool(self.new or self.gone)


@dataclass(frozen=True, slots=True)
class ProgramPair:
    """Two programs with their inputs.

    Attributes:
        before: the replay without the change.
        after: the replay with it.
        same_inputs: both read the same elements, so that those of `before` are read for both.
    """

    before: Replay
    after: Replay
    same_inputs: bool


def open_pair(path: str, against: str | None, options: Sequence[str], head: int | None = None) -> ProgramPair:
    """Open two configurations, or one configuration with changed options, for a comparison.

    Args:
        path: the configuration without the change.
        against: the configuration with the change; None: the same one.
        options: values that change the configuration with the change, as those of `--set`; a
            recording or a start (`OF_INPUTS`) is that of both.
        head: the number of elements that are read of each; None: all.

    Raises:
        Refused: a file cannot be read or is wrong, or there is nothing to compare.
    """
    recorded = [each for each in options if each.startswith(OF_INPUTS)]
    changes = [each for each in options if each not in recorded]
    if against is None and not changes:
        hint = "Name another configuration, --against OTHER, or change a value: --set rules.0=rules/new.dotr"
        raise refuse("C224", f"there is nothing to compare {path} with", None, hint)
    configs = [read_config(path, recorded), read_config(against or path, options)]
    problems: list[Diagnostic] = []
    inputs = [read_inputs(config, problems) for config in configs]
    programs: list[CompiledProgram] = []
    for config in configs:
        try:
            programs.append(compile_program(config.program(), config.cache_policy()))
        except Refused as refused:
            problems += refused.diagnostics
    if problems:
        raise Refused(dict.fromkeys(problems))
    names = [path, " ".join([against or path, *(f"--set {option}" for option in changes), *recorded])]
    before, after = (replay_of_inputs(*each) for each in zip(configs, programs, inputs, names, strict=True))
    if head is not None:
        before, after = _head(before, head), _head(after, head)
    return ProgramPair(before, after, _are_same(configs, inputs))


def _are_same(configs: Sequence[Config], inputs: Sequence[Inputs]) -> bool:
    """True if both configurations read the same elements."""
    (one, other), (a, b) = configs, inputs
    copied = any(each.standard for each in a.growing)
    same = a.files == b.files and a.growing == b.growing and a.topics == b.topics
    same = same and [each.replay for each in one.settings.input] == [each.replay for each in other.settings.input]
    return same and (not copied or targets_of(one)[-1].path == targets_of(other)[-1].path)


def compare(pair: ProgramPair, *, show: int = 0) -> list[RuleDifference]:
    """The differences of all rules, in the order of the program with the change; removed rules are
    last.

    Args:
        pair: the two programs with their inputs.
        show: the number of new events, and of gone events, that are kept of each rule.
    """
    comparison = _EventDifferences(pair, show)
    both = _steps_together(pair) if pair.same_inputs else _steps_apart(pair)
    for before, after in both:
        comparison.add(before, after)
    return comparison.result()


# --- both programs side by side ---


_Firings: TypeAlias = list[Firing]


def _steps_together(pair: ProgramPair) -> Iterator[tuple[_Firings, _Firings]]:
    """The firings of both programs at each instant; the inputs are read once."""
    engines = [Engine(replay.program, replay.clock) for replay in (pair.before, pair.after)]
    for instant in pair.before.instants():
        before, after = (_step(engine, instant) for engine in engines)
        yield before, after
    if pair.before.ended:
        before, after = ([firing for firings in engine.finish() for firing in firings] for engine in engines)
        yield before, after


def _steps_apart(pair: ProgramPair) -> Iterator[tuple[_Firings, _Firings]]:
    """The firings of both programs up to each time that both have passed, each over its own
    inputs."""
    sides = [replayed(replay) for replay in (pair.before, pair.after)]
    passed = [-LAST_MICRO, -LAST_MICRO]
    waiting: list[_Firings] = [[], []]
    while min(passed) < LAST_MICRO:
        behind = 0 if passed[0] <= passed[1] else 1
        passed[behind], firings = next(sides[behind], (LAST_MICRO, []))
        waiting[behind] += firings
        closed = min(passed)
        before, after = ([firing for firing in each if firing.time <= closed] for each in waiting)
        waiting = [[firing for firing in each if firing.time > closed] for each in waiting]
        yield before, after


def replayed(replay: Replay, published: PublishedInputs = NO_INPUTS) -> Iterator[tuple[Micros, _Firings]]:
    """The time of each instant in µs since 1970, and the firings since the one before; `published`:
    also the elements of these inputs."""
    engine = Engine(replay.program, replay.clock)
    for instant in replay.instants():
        if published.names and instant.graphs:
            firings, closed = engine.step(instant.time, instant.graphs)
            engine.failed.clear()
            left_out = {each.element for each in closed.rejected}
            yield instant.time, [*published_firings(published, instant.time, instant.inputs, instant.graphs, left_out), *firings]
        else:
            yield instant.time, _step(engine, instant)
    if replay.ended:
        yield LAST_MICRO, [firing for firings in engine.finish() for firing in firings]


def _step(engine: Engine, instant: ReplayedInstant) -> _Firings:
    firings = instant.step(engine)
    engine.failed.clear()
    return firings


def _head(replay: Replay, elements: int) -> Replay:
    """A replay of the first elements."""

    def read(on_reject: Callable[[RejectedElement], None]) -> Iterator[ReplayedInstant]:
        left = elements
        if not left:
            return
        for instant in replay.read(on_reject):
            yield ReplayedInstant(instant.time, instant.graphs[:left], instant.places[:left], instant.inputs[:left])
            left -= len(instant.graphs)
            if left <= 0:
                return

    return replace(replay, read=read)


# --- differences ---


_Form: TypeAlias = Hashable
"""The form of a firing that is compared."""


def _written(firing: Firing) -> _Form:
    return firing.time, firing.event, firing.attributes, firing.graph


def _without_names(firing: Firing) -> _Form:
    return firing.time, firing.event, comparable_attributes(dict(firing.attributes)), comparable(firing.graph or ())


_FORMS: Final = (_written, _without_names)


class _EventDifferences:
    """The differences so far."""

    def __init__(self, pair: ProgramPair, show: int) -> None:
        self._show = show
        before, after = pair.before.program, pair.after.program
        schemas = state_schema(before, knowledge="-"), state_schema(after, knowledge="-")
        self._meanings = tuple({rule.name: rule.digest for rule in schema.rules} for schema in schemas)
        self._reads = {rule.name: frozenset(rule.reads) for rule in schemas[1].rules}
        self._renamed = renamed_rules(after, schemas[0])
        older = {*(rule.name for rule in before.rules.rules), *units_by_label(before.units)}
        self._after: dict[str, RuleDifference] = {}
        for rule in after.rules.rules:
            former = self._renamed.get(rule.name, rule.name)
            self._after[rule.name] = RuleDifference(rule.name, former if former in older else None, rule.name, internal=rule.internal)
        for label in units_by_label(after.units):
            self._after[label] = RuleDifference(label, label if label in older else None, label)
        self._before = {each.older: each for each in self._after.values() if each.older is not None}
        for rule in before.rules.rules:
            self._before.setdefault(rule.name, RuleDifference(rule.name, rule.name, None, internal=rule.internal))
        for label in units_by_label(before.units):
            self._before.setdefault(label, RuleDifference(label, label, None))
        labels = {self._renamed[rule.name]: rule.event for rule in after.rules.rules if rule.name in self._renamed}
        self._labels = {rule.event: labels[rule.name] for rule in before.rules.rules if rule.name in labels}

    def add(self, before: _Firings, after: _Firings) -> None:
        """Compare the firings of both programs up to a time that both have passed."""
        for firing in before:
            self._before[firing.rule].before += 1
        for firing in after:
            self._after[firing.rule].after += 1
        if self._labels:
            before = [firing._replace(event=self._labels.get(firing.event, firing.event)) for firing in before]
        for form in _FORMS:
            if before or after:
                before, after = _unpaired(before, after, form)
        for firing in before:
            each = self._before[firing.rule]
            each.gone += 1
            if len(each.first_gone) < self._show:
                each.first_gone.append(firing)
        for firing in after:
            each = self._after[firing.rule]
            each.new += 1
            if len(each.first_new) < self._show:
                each.first_new.append(firing)

    def result(self) -> list[RuleDifference]:
        """The differences of all rules."""
        found = [*self._after.values(), *(each for each in self._before.values() if each.newer is None)]
        by_name = {each.rule: each for each in found}
        by_reading = {each.rule for each in found if each.differs and self._is_same_rule(each) and self._read_differing(each, by_name)}
        for each in found:
            if each.rule in by_reading:
                read = self._read_differing(each, by_name)
                each.read = tuple(name for name in by_name if name in read - by_reading) or tuple(name for name in by_name if name in read)
        return found

    def _is_same_rule(self, each: RuleDifference) -> bool:
        before, after = self._meanings
        return each.older == each.newer and each.rule in before and before[each.rule] == after.get(each.rule)

    def _read_differing(self, each: RuleDifference, by_name: dict[str, RuleDifference]) -> set[str]:
        reads = self._reads.get(each.rule, frozenset())
        return {name for name in reads if name != each.rule and name in by_name and by_name[name].differs}


def _unpaired(before: _Firings, after: _Firings, form: Callable[[Firing], _Form]) -> tuple[_Firings, _Firings]:
    """The multiset difference of both sides in both directions; firings of the same rule are paired
    first.
    """
    left = [(form(firing), firing) for firing in before]
    right = [(form(firing), firing) for firing in after]
    for by_rule in (True, False):
        keys = [[(key, firing.rule if by_rule else "") for key, firing in side] for side in (left, right)]
        common = Counter(keys[0]) & Counter(keys[1])
        left, right = (_without(side, own, common.copy()) for side, own in zip((left, right), keys, strict=True))
        if not left or not right:
            break
    return [firing for _, firing in left], [firing for _, firing in right]


def _without(
    side: list[tuple[_Form, Firing]], keys: Sequence[tuple[_Form, str]], common: Counter[tuple[_Form, str]]
) -> list[tuple[_Form, Firing]]:
    """The firings of one side without the common ones; changes `common`."""
    rest = []
    for key, each in zip(keys, side, strict=True):
        if common[key]:
            common[key] -= 1
        else:
            rest.append(each)
    return rest


# Events that a run has written, beside those of a replay.
#
# Idea: both are sorted by time, rule and content, outside of memory; equal ones are counted, the
# others are missing in the output, or more than the replay has.
# Cost: a replay, and a sort of the events of each output.


class Bound(NamedTuple):
    """The time up to which events are compared, in µs since 1970, and whose it is; None: all."""

    time: Micros | None = None
    origin: str = ""


@dataclass
class Audit:
    """The events of one output beside those of the replay.

    Attributes:
        output: its name.
        rules: for each rule the numbers of events that are the `same`, `missing`, and `more`.
        first: the first events that are missing, and that are more.
        beyond: the numbers of `written` and of `replayed` events beyond the bound.
    """

    output: str
    rules: dict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    first: dict[str, list[WrittenEvent]] = field(default_factory=lambda: {"missing": [], "more": []})
    beyond: Counter[str] = field(default_factory=Counter)

    @property
    def differs(self) -> bool:
        """True if an event is missing, or more than the replay has."""
        return any(counts["missing"] or counts["more"] for counts in self.rules.values())

    def add(self, events: Iterable[WrittenEvent], bound: Bound, most: int) -> None:
        """Add sorted events; those with a place are written. `most`: the number of either kind that
        is kept."""
        for (time, rule, _), equal in groupby(events, _EVENTS.order):
            both = list(equal)
            found = {"missing": [each for each in both if not each.place], "more": [each for each in both if each.place]}
            missing, more = map(len, found.values())
            if bound.time is not None and time > bound.time:
                self.beyond.update(written=more, replayed=missing)
                continue
            same = min(missing, more)
            self.rules[rule].update(same=same, missing=missing - same, more=more - same)
            for kind, first in self.first.items():
                first += found[kind][same : same + most - len(first)]


_EVENTS: Final[SpillFormat[WrittenEvent]] = SpillFormat(
    lambda event: event[:3],
    lambda events: json.dumps([*events]).encode(),
    lambda line: [WrittenEvent(*each) for each in json.loads(line)],
    200,
)


def audited(config: Config, replay: Replay, outputs: Sequence[WrittenOutput], given: Bound | None, most: int) -> tuple[Bound, list[Audit]]:
    """The bound (`given`, or that of the run), and the comparison of each output with the replay."""
    with TemporaryDirectory(prefix="dotr-audit-") as folder:
        sides = [(output, SortedRuns(_EVENTS, lambda: Path(folder))) for output in outputs]
        last = passed = -LAST_MICRO
        for output, events in sides:
            for event in output.events():
                last = max(last, event.time)
                events.add([event._replace(attributes=None)], 1)
        for time, firings in replayed(replay, published_inputs(config)):
            passed = time
            for output, events in sides:
                found = [each for firing in firings if (each := output.expected(firing)) is not None]
                events.add(found, len(found))
        bound = given or (Bound() if replay.recorded else _bound_of_run(config, last, replay.ended))
        if not replay.ended and passed > -LAST_MICRO and (bound.time is None or bound.time > passed):
            bound = Bound(passed, "the recording's last line" if replay.recorded else "where the replay ends")
        audits = [Audit(output.name) for output in outputs]
        for audit, (_, events) in zip(audits, sides, strict=True):
            audit.add(merge_runs(_EVENTS, events.buffered, [path for path, _ in events.runs]), bound, most)
    return bound, audits


def _bound_of_run(config: Config, last: Micros, ended: bool) -> Bound:
    """The bound that follows from the checkpoint, else from the last event written."""
    *paths, checkpoint = targets_of(config)
    on_spark = not any(each.location.look() is not None for each in paths if each.purpose == "output")
    if on_spark and (checkpoint.location / "dotr.json").look() is not None:
        from dotr.runtimes.spark.start.installation import pyspark_problem

        if pyspark_problem() is None:
            from dotr.runtimes.spark.figures.status import status_of

            closed = status_of(checkpoint.path).closed
            if closed is not None:
                return Bound() if closed >= LAST_MICRO else Bound(closed, "closed in the checkpoint")
    if last == -LAST_MICRO:
        return Bound(None if ended else last)
    return Bound(last, "the last event written")
