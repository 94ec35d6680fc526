"""Reasons of failed rule tests: why an expected event is missing, and why there is an unexpected
one."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import cached_property
from typing import Final

from dotr.commands.test.difference import Discrepancy, Item
from dotr.commands.test.expectation_texts import attribute_terms
from dotr.commands.test.run import LoadedTest
from dotr.commands.why.replays import replay_of_case
from dotr.evaluation.expressions.values.times import format_time
from dotr.explanations.why import EventQuestion, WhyExplainer
from dotr.explanations.why_not.rule import Question, why_not
from dotr.explanations.why_not.unit_why_not import why_no_event
from dotr.model.rules import EventSource, Rule
from dotr.model.terms import is_blank, without_blank_labels
from dotr.temporal.layout.units import units_by_label

_MOST: Final = 5
"""Most events of a case whose reasons are shown."""


class FailureReasons:
    """Reasons of the differences of case `number`, counted from 0. Each reason replays the case."""

    def __init__(self, test: LoadedTest, number: int) -> None:
        self._replay = replay_of_case(test, number)
        self._times = test.cases[number].elements.keys()
        self._shown = 0

    @cached_property
    def _labels(self) -> Collection[str]:
        """The labels of units other than rules."""
        return units_by_label(self._replay.program.units).keys()

    @cached_property
    def _explainer(self) -> WhyExplainer:
        return WhyExplainer(self._replay)

    def of(self, discrepancy: Discrepancy) -> str:
        """The answer of `why-not` for a missing event, the first level of `why` for an additional
        one; empty for a pair that differs, and beyond the first few events of a case.
        """
        if (discrepancy.expected is not None and discrepancy.actual is not None) or self._shown == _MOST:
            return ""
        self._shown += 1
        lines = self._why_not(discrepancy.expected) if discrepancy.expected is not None else self._why(discrepancy.actual)
        return "\n".join(lines)

    def _why_not(self, item: Item) -> Sequence[str]:
        """Reasons of the rules that could have made an event."""
        if item.kind is None and item.rule is None:
            return ()
        rules = [each for each in self._replay.program.rules.rules if item.kind in (None, each.event) and item.rule in (None, each.name)]
        units = [] if item.rule not in (None, item.kind) else [each for each in self._labels if item.kind in (None, each)]
        if units:
            question = Question(item.time, item.time)
            return [line for label in units for line in why_no_event(self._replay, label, question).lines()]
        if item.time not in self._times and rules and not any(map(_is_timed, rules)):
            return [f"No element is at {format_time(item.time, self._replay.clock)}, and no rule of this event waits or ticks."]
        question = Question(item.time, item.time)
        return [line for rule in rules for line in why_not(self._replay, rule.name, question).lines()]

    def _why(self, item: Item | None) -> Sequence[str]:
        if item is None or item.rule is None:
            return ()
        of_rule = item.rule in {rule.name for rule in self._replay.program.rules.rules}
        if not of_rule and item.rule not in self._labels:
            return ()
        attributes = attribute_terms(item.attributes or frozenset())
        where = tuple((name, term) for name, term in attributes.items() if not is_blank(term) and without_blank_labels(term) == term)
        tree = self._explainer.answer(EventQuestion(None, item.rule, item.time, where)).tree
        return () if tree is None else tree.lines(1 if of_rule else 2)


def _is_timed(rule: Rule) -> bool:
    """True if a rule can fire at a time without an element, by itself or by an event that it
    reads."""
    return rule.anchor.delay > 0 or isinstance(rule.anchor.source, EventSource) or rule.anchor.source.period is not None
