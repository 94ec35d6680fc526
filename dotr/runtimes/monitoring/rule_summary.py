"""Lines of a run's summary: rules without an event, with the step at which they stopped, and labels
of other units without an event.
"""

from __future__ import annotations

import shlex
from collections.abc import Collection, Iterable, Sequence
from difflib import SequenceMatcher
from typing import Final, assert_never

from dotr.engine.program import CompiledProgram
from dotr.engine.stream_terms import MOST_TERMS, TermDependencies, anchor_queries
from dotr.evaluation.expressions.values.times import format_time
from dotr.model.rules import EventSource, FactSource, Rule, Source
from dotr.model.terms import Prefixes, Term
from dotr.model.time import Clock
from dotr.runtimes.monitoring.display import count_text
from dotr.runtimes.monitoring.totals import Totals
from dotr.syntax.rendering import step_names, term_text
from dotr.temporal.layout.units import units_by_label
from dotr.temporal.matching.rule_counts import RuleCounts

MOST_LINES: Final = 10
"""Limit of the rules, labels and terms that are listed."""


def unit_lines(program: CompiledProgram, totals: Totals, config: str, *, every: bool, clock: Clock) -> list[str]:
    """Lines about rules, and about labels of other units, without an event; arguments as those of
    `rule_lines`."""
    return rule_lines(program, totals, config, every=every, clock=clock) + _label_lines(program, totals, config, every=every, clock=clock)


def rule_lines(program: CompiledProgram, totals: Totals, config: str, *, every: bool, clock: Clock) -> list[str]:
    """Lines about rules without an event, with errors of conditions, with firings that `once` has
    held back, or with values that are no delay, in the order of the rules: at most ten, and the
    number of others without an event.

    Args:
        totals: those of the run; on Spark, of all runs from the checkpoint's beginning.
        config: the path of the configuration as the user wrote it, for the suggested command.
        every: True for a line about every rule, with or without events.
        clock: the format of the pipeline's times.
    """
    rules = program.rules.rules if every else [rule for rule in program.rules.rules if _is_told(_counts(totals, rule))]
    shown = rules
    if not every and len(rules) > MOST_LINES:
        shown = sorted(rules, key=lambda rule: bool(_counts(totals, rule).events))[:MOST_LINES]
    missing_terms = _MissingTerms(program, totals) if any(not _counts(totals, rule).anchors for rule in shown) else None
    lines = [_line(rule, _counts(totals, rule), missing_terms, config, clock) for rule in shown]
    silent = sum(not _counts(totals, rule).events for rule in rules if rule not in shown)
    if silent:
        lines.append(f"{silent} more {_verb(silent)} never fired: --rules shows every rule.")
    return lines


def _label_lines(program: CompiledProgram, totals: Totals, config: str, *, every: bool, clock: Clock) -> list[str]:
    """The lines about the labels of other units: at most ten, and the number of the others."""
    counts = {label: totals.rules.get(label, RuleCounts()) for label in units_by_label(program.units)}
    labels = [label for label, each in counts.items() if every or not each.events or each.errors]
    shown = labels if every else sorted(labels, key=lambda label: bool(counts[label].events))[:MOST_LINES]
    lines = []
    for label in shown:
        each = counts[label]
        told = f"{label}: {count_text(each.events, 'event')}" if each.events else f"{label} never came"
        errors = _errors(each, ("FILTER",), clock)
        command = f" dotr why-not {shlex.quote(config)} --rule {shlex.quote(label)}{_at(each, clock)}"
        lines.append(f"{told}{f'; {errors}' if errors else ''}.{command if errors or not each.events else ''}")
    if silent := sum(not counts[label].events for label in labels if label not in shown):
        lines.append(f"{silent} more labels never came: --rules shows every one.")
    return lines


def _errors(counts: RuleCounts, steps: Sequence[str], clock: Clock, stop: str = "") -> str:
    """The errors by place, and the first one: `2 by errors at Past, first at 60: "n/a" is text`; that
    of the step at which a rule stopped has no place. Empty without errors."""
    places = [(count, "" if steps[place - 1] == stop else f" at {steps[place - 1]}") for place, count in counts.errors.items()]
    told = [f"{count:,}{' of them' if stop else ''} by errors{at}" for count, at in places]
    if counts.delay_errors:
        told.append(f"{count_text(counts.delay_errors, 'event')} whose delay is an error")
    if counts.first_error is not None:
        _, first, _, reason = counts.first_error
        told.append(f"first at {format_time(first, clock)}: {reason}")
    return ", ".join(told)


def _at(counts: RuleCounts, clock: Clock) -> str:
    """The option of `why-not` for the anchor of the first error."""
    return f" --at {format_time(counts.first_error[1], clock)}" if counts.first_error is not None else ""


def _is_told(counts: RuleCounts) -> bool:
    """True for a rule without an event, or with more to tell than events."""
    return not counts.events or bool(counts.errors) or bool(counts.delay_errors) or bool(_further(counts))


def _verb(count: int) -> str:
    return "rule has" if count == 1 else "rules have"


def _counts(totals: Totals, rule: Rule) -> RuleCounts:
    return totals.rules.get(rule.name, RuleCounts())


def _line(rule: Rule, counts: RuleCounts, missing_terms: _MissingTerms | None, config: str, clock: Clock) -> str:
    """The line about a rule."""
    steps = step_names(rule.clauses, has_condition=rule.condition is not None)
    command = f" dotr why-not {shlex.quote(config)} --rule {rule.name}{_at(counts, clock)}"
    stop = steps[min(counts.furthest, len(steps) - 1)] if counts.anchors and steps and not counts.events else ""
    errors = _errors(counts, steps, clock, stop)
    if counts.events:
        told = f"; {errors}.{command}" if errors else "."
        return f"Rule {rule.name}: {count_text(counts.anchors, 'anchor')}, {count_text(counts.events, 'event')}{_further(counts)}{told}"
    if not counts.anchors and not counts.delay_errors and missing_terms is not None:
        missing = missing_terms.sentence(rule)
        if missing or not rule.anchor.constraints:
            return f"Rule {rule.name} never fired: its anchor {rule.anchor.origin} has no {_kind(rule.anchor.source)}.{missing or command}"
    stopped = f", 0 after {stop}" if stop else ""
    errors = f", {errors}" if errors else ""
    return f"Rule {rule.name} never fired: {count_text(counts.anchors, 'anchor')}{stopped}{errors}{_further(counts)}.{command}"


def _further(counts: RuleCounts) -> str:
    """The numbers of firings that `once` has held back and of those with an unbound key, for a
    line.

    >>> _further(RuleCounts(held_back=2, unbound_keys=1)), _further(RuleCounts())
    (', 2 firings held back by once, 1 firing with an unbound key', '')
    """
    parts = []
    if counts.held_back:
        parts.append(f"{count_text(counts.held_back, 'firing')} held back by once")
    if counts.unbound_keys:
        parts.append(f"{count_text(counts.unbound_keys, 'firing')} with an unbound key")
    return "".join(f", {part}" for part in parts)


def _kind(source: Source) -> str:
    """The noun for the items of an anchor's source."""
    match source:
        case EventSource():
            return "event"
        case FactSource(period=None):
            return "fact"
        case FactSource():
            return "tick"
        case _:
            assert_never(source)


class _MissingTerms:
    """Explanation, by missing terms, of anchors without a fact."""

    def __init__(self, program: CompiledProgram, totals: Totals) -> None:
        self._terms = totals.terms
        self._prefixes = program.rules.prefixes
        self._queries = anchor_queries(program)
        self._dependencies = TermDependencies(program)

    def sentence(self, rule: Rule) -> str:
        """A sentence about the missing terms of a rule's anchor; empty where there are none, or
        where not all terms of elements were recorded.
        """
        query = self._queries.get(rule.name)
        if query is None or not self._terms or len(self._terms) >= MOST_TERMS:
            return ""
        missing = self._dependencies.missing(query, self._terms)
        if not missing:
            return ""
        listed = _listed([term_text(term, self._prefixes) for term in missing], "or")
        return f" No element brought {listed}; the elements bring {_brought(missing, self._terms, self._prefixes)}."


def _listed(texts: list[str], word: str) -> str:
    """Texts as an enumeration.

    >>> _listed(["a", "b", "c"], "or"), _listed(["a"], "or")
    ('a, b or c', 'a')
    """
    return f"{', '.join(texts[:-1])} {word} {texts[-1]}" if len(texts) > 1 else texts[0]


def _brought(missing: Collection[Term], terms: Iterable[Term], prefixes: Prefixes) -> str:
    """The terms of elements, sorted; of many, those spelt most like the missing ones."""

    def similarity(text: str) -> float:
        return max(SequenceMatcher(None, text, term_text(each, prefixes)).ratio() for each in missing)

    texts = sorted(term_text(term, prefixes) for term in terms)
    if len(texts) <= MOST_LINES:
        return ", ".join(texts)
    closest = sorted(texts, key=similarity, reverse=True)[:MOST_LINES]
    return f"{', '.join(sorted(closest))} and {len(texts) - MOST_LINES:,} more"
