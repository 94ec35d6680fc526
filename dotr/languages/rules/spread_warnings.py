"""Warnings for rules that run on one core, and for clauses whose events are sent to every core."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from dotr.errors.diagnostics import Diagnostic, Severity
from dotr.languages.codes import RuleCode
from dotr.model.algebra import Const, Filter, PathPattern, TermPattern, TriplePattern, Values, Var
from dotr.model.rules import FactSource, Role, Rule
from dotr.model.traverse import AlgebraNode, parameters_of, walk
from dotr.temporal.layout.keys import SinglePartition
from dotr.temporal.layout.layers import Layout

_TIED: Final = "It spreads where one attribute of its anchor is equated with one of every label that it consumes."
_TICKS: Final = "It spreads where the tick has attributes: `every 1 h for [ SELECT … ]` ticks for each answer of the background."
_RECURSIVE: Final = "It spreads where the events that depend on themselves are chosen, and made, under one key of the anchor."


def spread_warnings(layout: Layout, found: Iterable[Diagnostic]) -> list[Diagnostic]:
    """The warnings for a layout that is cut: rules that run on one core (D502), and replicated
    clauses that every event satisfies (D510).

    None for a layout without state, whose instants are spread over the cores, and none for clauses
    with a warning of `found` (`RuleCode.UNTIED`).
    """
    if not layout.stateful_operators:
        return []
    untied = [warning.span for warning in found if warning.code == RuleCode.UNTIED and warning.span is not None]
    warnings = []
    for placed in (placed for layer in layout.layers for placed in layer.rules):
        rule, stage = placed.rule, placed.stage
        if stage.is_whole and isinstance(stage.split, SinglePartition):
            if not any(rule.span.contains(span) for span in untied):
                warnings.append(
                    Diagnostic(
                        "D502",
                        f"rule {rule.name} cannot be partitioned and runs on one core: {stage.split.reason}",
                        rule.anchor.span,
                        _way_out(rule),
                        Severity.WARNING,
                    )
                )
            continue
        warnings += [
            Diagnostic(
                "D510",
                f"every core takes in every event of {role.label}: no equality ties it to rule {rule.name}, and its query has no condition",
                role.span,
                "Select the events that may count (FILTER, VALUES, a constant subject or object), or equate one of their attributes.",
                Severity.WARNING,
            )
            for role, _ in placed.roles
            if role.label in stage.replicated and _takes_in_all(role) and not any(role.span.contains(span) for span in untied)
        ]
    return warnings


def _way_out(rule: Rule) -> str:
    if set(rule.consuming) - {rule.anchor.label}:
        return _TIED
    source = rule.anchor.source
    return _TICKS if isinstance(source, FactSource) and source.period is not None and not source.attributes else _RECURSIVE


def _takes_in_all(role: Role) -> bool:
    """True if the query of a role, and its constraints on its own event, select nothing."""
    if not isinstance(role.source, FactSource):
        return False
    if any(all(isinstance(part, Var) for part in parameters_of([constraint])) for constraint in role.constraints):
        return False
    return not any(map(_selects, walk(role.source.query.pattern)))


def _selects(node: AlgebraNode) -> bool:
    """True for a part of a query that restricts its answers: a condition, or a constant subject or
    object."""
    match node:
        case Filter() | Values():
            return True
        case TriplePattern(subject, _, value) | PathPattern(subject, _, value) | TermPattern(_, subject, _, value):
            return isinstance(subject, Const) or isinstance(value, Const)
        case _:
            return False
