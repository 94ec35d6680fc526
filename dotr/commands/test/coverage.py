"""Coverage of rules by the cases of rule tests: the outcomes that occurred, and those that never
did.

Idea: each case is replayed, and every rule is evaluated by brute force at each of its anchors
(`dotr.explanations.evidence.rule_evaluation`), which yields the outcome of each clause and
condition. For a Datalog rule, each instant is searched for a match of its body.
Cost: that of evaluating all candidates; cases are small.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from enum import Enum
from typing import NamedTuple, assert_never

from dotr.commands.test.cases import LoadedTest
from dotr.engine.replay import Replay
from dotr.evaluation.limits import LimitExceeded
from dotr.explanations.evidence.evaluations import AnchorEvaluation, ClauseEvaluation, ConditionOutcome, ConsumedEvents
from dotr.explanations.evidence.proofs import InstantProofs, program_rules
from dotr.explanations.evidence.rule_evaluation import RuleEvaluator
from dotr.explanations.replay.firings import FiringRecorder, UnitFiring
from dotr.explanations.replay.recording import Recorder
from dotr.model import dataclass
from dotr.model.algebra import Expression
from dotr.model.rules import Absent, Aggregate, Choose, Clause, Role, Rule
from dotr.model.terms import Label, Prefixes
from dotr.model.traverse import conjuncts, operands
from dotr.syntax.rendering import constraint_text
from dotr.temporal.layout.units import units_by_label

# Coverage of units other than rules by the cases of rule tests.
#
# A continuous query has three outcomes: a report, an event, a report without an event. Any other unit
# has one outcome for each of its labels: an event.


@dataclass
class UnitCoverage:
    """The outcomes of a label of a unit.

    - `reports`: the number of reports; None: its language has none.
    - `events`: the number of its events; `empty_reports`: the number of reports without one.
    """

    label: Label
    file: str
    reports: int | None
    events: int = 0
    empty_reports: int = 0

    @property
    def texts(self) -> tuple[str, ...]:
        """The outcomes that can occur."""
        return ("an event",) if self.reports is None else ("a report", "an event", "a report without an event")

    @property
    def missing(self) -> tuple[str, ...]:
        """The outcomes that never occurred."""
        occurred = {"an event": self.events, "a report": self.reports or 0, "a report without an event": self.empty_reports}
        return tuple(text for text in self.texts if not occurred[text])

    def line(self) -> str:
        """The label in a line.

        >>> UnitCoverage("Hot", "q.rspql", 3, events=2).line()
        'Hot: 3 reports, 2 events; never: a report without an event'
        """
        parts = [] if self.reports is None else [_counted(self.reports, "report")]
        never = f"; never: {', '.join(self.missing)}" if self.missing else ""
        return f"{self.label}: {', '.join([*parts, _counted(self.events, 'event')])}{never}"

    def report(self) -> dict[str, object]:
        """The label as plain data for JSON."""
        return {"unit": self.label, "file": self.file, "reports": self.reports, "events": self.events, "never": list(self.missing)}


def coverage_of_units(replay: Replay) -> Iterator[UnitCoverage]:
    """The outcomes of all units other than rules over one replay."""
    units = replay.program.units
    if not units:
        return
    recorder = FiringRecorder.of(replay, [unit.name for unit in units])
    events: dict[Label, int] = {}
    times: dict[Label, set[int]] = {}
    for firings in recorder.run():
        for each in firings:
            if isinstance(each, UnitFiring):
                events[each.label] = events.get(each.label, 0) + 1
                times.setdefault(each.label, set()).add(each.time)
    for label, unit in units_by_label(units).items():
        coverage = UnitCoverage(label, unit.span.document.name, None, events.get(label, 0))
        coverage.reports = recorder.records[label].report_count
        if coverage.reports is not None:
            coverage.empty_reports = coverage.reports - len(times.get(label, ()))
        yield coverage


def _counted(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


class OutcomeKind(Enum):
    """Kind of an outcome of a rule or of a part of it."""

    ANCHOR = "anchor"
    HOLDS = "holds"
    FAILS = "fails"
    SIDE = "side"
    SOME = "some"
    NONE = "none"
    USED_UP = "used up"
    SECOND_ROLE = "second role"
    FIRED = "fired"
    HELD_BACK = "held back"


class RuleOutcome(NamedTuple):
    """Outcome that can occur in a rule.

    `place`: 0 for the anchor, then the clauses, then `if`. `condition`: the number of a conjunct.
    `side`: the number of a side of its `||`.
    """

    kind: OutcomeKind
    place: int
    condition: int = 0
    side: int = 0


@dataclass
class RuleCoverage:
    """Coverage of a rule.

    Attributes:
        rule: the rule.
        texts: all outcomes that can occur, with their names in `never: …`.
        anchors: the number of anchors.
        reached: the number of bindings after each clause.
        fired: the number of events.
        held_back: the number of firings that `once` has held back.
        occurred: the outcomes that occurred.
    """

    rule: Rule
    texts: Mapping[RuleOutcome, str]
    anchors: int = 0
    reached: list[int] = field(default_factory=list)
    fired: int = 0
    held_back: int = 0
    occurred: set[RuleOutcome] = field(default_factory=set)

    @property
    def missing(self) -> list[RuleOutcome]:
        """The outcomes that never occurred."""
        return [each for each in self.texts if each not in self.occurred]

    def never(self) -> list[str]:
        """Names of the outcomes that never occurred, those of negations left out."""
        if not self.anchors:
            return []
        return [self.texts[each] for each in self.missing if not self._of_negation(each)]

    def negations(self) -> list[str]:
        """A clause for each negation of which an outcome never occurred:
        `not Warm never refuses`."""
        found = []
        for place, clause in enumerate(self.rule.clauses, 1):
            refuses, passes = (RuleOutcome(kind, place) in self.occurred for kind in (OutcomeKind.SOME, OutcomeKind.NONE))
            if isinstance(clause, Absent) and self.anchors and not (refuses and passes):
                behaviour = "always refuses" if refuses else "never refuses" if passes else "is never reached"
                found.append(f"not {clause.role.label} {behaviour}")
        return found

    def lines(self) -> Iterator[str]:
        """Lines on the rule: its counts with what never occurred, then its negations."""
        if not self.anchors:
            yield f"{self.rule.name}: 0 anchors; nothing of it is tested"
            return
        reached = [f"{_clause_name(clause)} {number}" for clause, number in zip(self.rule.clauses, self.reached, strict=True)]
        held = [f"held back {self.held_back}"] if self.rule.once is not None else []
        counts = ", ".join([f"{self.anchors} anchor{'s' if self.anchors > 1 else ''}", *reached, f"fired {self.fired}", *held])
        never = self.never()
        yield f"{self.rule.name}: {counts}" + (f"; never: {', '.join(never)}" if never else "")
        yield from (f"{self.rule.name}: {each}" for each in self.negations())

    def _of_negation(self, outcome: RuleOutcome) -> bool:
        """True for the outcomes that `negations` lists."""
        clauses = self.rule.clauses
        is_clause = outcome.kind in (OutcomeKind.SOME, OutcomeKind.NONE)
        return is_clause and isinstance(clauses[outcome.place - 1], Absent)


@dataclass
class Coverage:
    """Coverage of the rules, other units and Datalog rules that some tests use.

    `rules` and `units` are keyed by file and name, `datalog` by file and place: True for a rule
    that derived something.
    """

    rules: dict[tuple[str, str], RuleCoverage] = field(default_factory=dict)
    datalog: dict[tuple[str, str], bool] = field(default_factory=dict)
    units: dict[tuple[str, str], UnitCoverage] = field(default_factory=dict)

    def add(self, test: LoadedTest, number: int) -> None:
        """Add a case, by its number from 0 on."""
        replay = test.replay(number)
        for rule in test.program.rules.rules:
            key = os.path.realpath(rule.span.document.name), rule.name
            coverage = self.rules.get(key)
            if coverage is None:
                coverage = self.rules[key] = RuleCoverage(rule, _texts(rule, replay.prefixes), reached=[0] * len(rule.clauses))
            _add_rule(coverage, replay)
        for each in coverage_of_units(replay):
            known = self.units.setdefault((os.path.realpath(each.file), each.label), each)
            if known is not each:
                known.events += each.events
                known.empty_reports += each.empty_reports
                known.reports = None if each.reports is None else each.reports + (known.reports or 0)
        self._add_datalog(replay)

    def _add_datalog(self, replay: Replay) -> None:
        rules = program_rules(replay.program)
        waiting = {}
        for each in rules.rules:
            if not each.rule.of_rule_set and each.rule.span is not None:
                key = each.rule.span.document.name, each.rule.name
                if not self.datalog.setdefault(key, False):
                    waiting[key] = each
        if not waiting:
            return
        for instant in replay.instants():
            try:
                closed = InstantProofs(replay.program, instant, rules).closed
            except LimitExceeded:
                continue
            for key, each in list(waiting.items()):
                if any(any(True for _ in match.conclusions()) for match in each.matches({}, closed.background, closed.delta)):
                    self.datalog[key] = True
                    del waiting[key]

    @property
    def occurred(self) -> int:
        """The number of outcomes that occurred."""
        never = sum(len(each.missing) for each in self.rules.values()) + sum(len(each.missing) for each in self.units.values())
        return self.possible - never - sum(not each for each in self.datalog.values())

    @property
    def possible(self) -> int:
        """The number of outcomes that can occur."""
        of_units = sum(len(each.texts) for each in self.units.values())
        return sum(len(each.texts) for each in self.rules.values()) + of_units + len(self.datalog)

    @property
    def percent(self) -> int:
        """The occurred outcomes of a hundred, rounded down; 100 where nothing can occur."""
        return 100 * self.occurred // self.possible if self.possible else 100

    def lines(self) -> Iterator[str]:
        """Report line by line: the rules, the Datalog files, the percentage."""
        for each in self.rules.values():
            yield from each.lines()
        for unit in self.units.values():
            yield unit.line()
        files: dict[str, dict[str, bool]] = {}
        for (file, name), derived in self.datalog.items():
            files.setdefault(file, {})[name] = derived
        for file, rules in files.items():
            never = [name.rpartition(":")[2] for name, derived in rules.items() if not derived]
            count = f"{len(rules)} rule{'s' if len(rules) > 1 else ''}, {len(rules) - len(never)} derived"
            yield f"{file}: {count}" + (f"; never: line {', '.join(never)}" if never else "")
        yield f"coverage {self.percent} %: {self.occurred} of {self.possible} outcomes"

    def report(self) -> dict[str, object]:
        """Report as plain data for JSON."""
        return {
            "percent": self.percent,
            "occurred": self.occurred,
            "possible": self.possible,
            **({"units": [each.report() for each in self.units.values()]} if self.units else {}),
            "rules": [
                {
                    "rule": each.rule.name,
                    "file": each.rule.span.document.name,
                    "anchors": each.anchors,
                    "clauses": [
                        {"clause": _clause_name(clause), "bindings": number}
                        for clause, number in zip(each.rule.clauses, each.reached, strict=True)
                    ],
                    "fired": each.fired,
                    **({"held_back": each.held_back} if each.rule.once is not None else {}),
                    "never": [each.texts[outcome] for outcome in each.missing],
                }
                for each in self.rules.values()
            ],
            "datalog": [{"rule": name, "derived": derived} for (_, name), derived in self.datalog.items()],
        }


def _clause_name(clause: Clause) -> str:
    return f"not {clause.role.label}" if isinstance(clause, Absent) else clause.role.label


# --- the outcomes that can occur ---


def _texts(rule: Rule, prefixes: Prefixes) -> dict[RuleOutcome, str]:
    """All outcomes of a rule, with their names."""
    aggregates = [clause.role.label for clause in rule.clauses if isinstance(clause, Aggregate)]
    texts = {RuleOutcome(OutcomeKind.ANCHOR, 0): "an anchor"}

    def add_conditions(place: int, constraints: Sequence[Expression], label: str = "") -> None:
        for number, each in enumerate(constraints):
            text = constraint_text(each, aggregates, prefixes)
            if f"{text} true" in texts.values():
                text += f" of {label}" if label else " of `if`"
            texts[RuleOutcome(OutcomeKind.HOLDS, place, number)] = f"{text} true"
            texts[RuleOutcome(OutcomeKind.FAILS, place, number)] = f"{text} false"
            sides = operands(each, "||")
            if len(sides) > 1:
                for side, alternative in enumerate(sides):
                    texts[RuleOutcome(OutcomeKind.SIDE, place, number, side)] = f"{constraint_text(alternative, aggregates, prefixes)} true"

    add_conditions(0, _conjuncts_of(rule.anchor), rule.anchor.label)
    for place, clause in enumerate(rule.clauses, 1):
        label = clause.role.label
        match clause:
            case Choose():
                some, none = f"{label} found", f"{label} missing"
            case Absent():
                some, none = f"not {label} refuses", f"not {label} passes"
            case Aggregate():
                some, none = f"{label} with events", f"{label} without events"
            case _:
                assert_never(clause)
        texts[RuleOutcome(OutcomeKind.SOME, place)] = some
        texts[RuleOutcome(OutcomeKind.NONE, place)] = none
        add_conditions(place, _conjuncts_of(clause.role), label)
        if isinstance(clause, Choose) and clause.also:
            texts[RuleOutcome(OutcomeKind.SECOND_ROLE, place)] = f"{label} with another role, too"
        if label in rule.consuming:
            texts[RuleOutcome(OutcomeKind.USED_UP, place)] = f"{label} used up"
    if rule.condition is not None:
        add_conditions(len(rule.clauses) + 1, conjuncts(rule.condition))
    texts[RuleOutcome(OutcomeKind.FIRED, 0)] = "an event"
    if rule.once is not None:
        texts[RuleOutcome(OutcomeKind.HELD_BACK, 0)] = "a firing held back"
    return texts


def _conjuncts_of(role: Role) -> list[Expression]:
    return [each for constraint in role.constraints for each in conjuncts(constraint)]


# --- the outcomes that occur ---


def _add_rule(coverage: RuleCoverage, replay: Replay) -> None:
    """Add the outcomes of a rule in a case."""
    rule = coverage.rule
    recorder = Recorder.of(replay, rule.name)
    evaluator = RuleEvaluator(recorder.rule, recorder.history, ConsumedEvents(), replay.clock, matches=replay.program.spec.limits.matches)
    for step in recorder.steps():
        for anchor in step.events:
            evaluation = evaluator.evaluate(anchor)
            evaluator.consume(evaluation)
            coverage.occurred.update(_occurred(evaluation, evaluator))
            if evaluation.is_anchor:
                coverage.anchors += 1
                coverage.fired += len(evaluation.bindings)
                coverage.held_back += len(evaluation.held)
                for place, evaluations in enumerate(evaluation.clauses):
                    coverage.reached[place] += sum(len(each.bindings) for each in evaluations)


def _occurred(evaluation: AnchorEvaluation, evaluator: RuleEvaluator) -> Iterator[RuleOutcome]:
    """The outcomes at one anchor."""
    yield from _of_conditions(0, evaluation.conditions)
    if evaluation.is_anchor:
        yield RuleOutcome(OutcomeKind.ANCHOR, 0)
    for place, evaluations in enumerate(evaluation.clauses, 1):
        for each in evaluations:
            yield from _of_clause(place, each)
            if any(candidate.chosen and evaluator.role_of(each.clause, candidate.event, each.binding) for candidate in each.inside):
                yield RuleOutcome(OutcomeKind.SECOND_ROLE, place)
    for final in evaluation.final:
        yield from _of_conditions(len(evaluation.clauses) + 1, final.conditions)
    if evaluation.fired:
        yield RuleOutcome(OutcomeKind.FIRED, 0)
    if evaluation.held:
        yield RuleOutcome(OutcomeKind.HELD_BACK, 0)


def _of_clause(place: int, evaluation: ClauseEvaluation) -> Iterator[RuleOutcome]:
    yield RuleOutcome(OutcomeKind.SOME if evaluation.chosen else OutcomeKind.NONE, place)
    for candidate in evaluation.inside:
        yield from _of_conditions(place, candidate.conditions)
        if candidate.consumed_by is not None and not candidate.failing:
            yield RuleOutcome(OutcomeKind.USED_UP, place)


def _of_conditions(place: int, outcomes: Sequence[ConditionOutcome]) -> Iterator[RuleOutcome]:
    for number, outcome in enumerate(outcomes):
        yield RuleOutcome(OutcomeKind.HOLDS if outcome.holds else OutcomeKind.FAILS, place, number)
        for side, alternative in enumerate(outcome.sides):
            if alternative.holds:
                yield RuleOutcome(OutcomeKind.SIDE, place, number, side)
