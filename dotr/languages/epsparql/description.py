"""Descriptions of EP-SPARQL units: events, operands, operators and what they keep, partition,
layer."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from dotr.explanations.descriptions import Paragraph
from dotr.languages.epsparql.interval_keys import LinkedQuery, interval_key, operand_keys
from dotr.model.places import Span
from dotr.model.rules import EventSource
from dotr.model.units import IntervalEvents
from dotr.syntax.rendering import bound_text
from dotr.syntax.scan import one_line
from dotr.temporal.intervals.patterns import (
    Combination,
    InstantAnswers,
    TemporalOperator,
    TemporalQuery,
    UsePolicy,
    combinations,
    visible_variables,
)
from dotr.temporal.layout.layers import Layer
from dotr.temporal.layout.units import UnitRead

_LONGEST: Final = 80


def unit_text(unit: LinkedQuery, layer: Layer, reason: str = "") -> Paragraph:
    """The text on a unit: events, operands, operators and what they keep, partition, layer.

    `reason`: that of the one partition of a component; empty where the unit is no member of one.
    """
    query = unit.query
    operators = list(combinations(query.where)) if query.where is not None else []
    shown = " ".join(f"?{name}" for name in query.attributes) or "no attributes"
    policy = _POLICIES[query.policy] if operators else ""
    parts = [
        ("makes", [f"{shown}, {'a graph for each solution' if query.makes_graphs else 'without a graph'}"]),
        ("reads", [_read(read) for read in unit.reads]),
        ("state", [_operator(each) for each in operators] or ["none"]),
        ("policy", [policy] if policy else []),
        ("partition", [reason or _partition(query)]),
        ("layer", [str(layer.number)]),
    ]
    return Paragraph(f"EP-SPARQL unit {query.label}" + (f': "{query.documentation}"' if query.documentation else ""), parts)


def unit_retention(query: TemporalQuery) -> Iterator[str]:
    """A line for each operator of a unit that keeps solutions."""
    for each in () if query.where is None else combinations(query.where):
        if each.bound is not None and each.operator not in (TemporalOperator.EQUALS, TemporalOperator.EQUALSOPTIONAL):
            sides = "both sides" if each.operator is TemporalOperator.AND else "the left side"
            yield f"{query.label}: solutions on {sides} of {each.operator.value} kept {bound_text(each.bound)}"


_POLICIES: Final = {
    UsePolicy.UNRESTRICTED: "",
    UsePolicy.CHRONOLOGICAL: "CHRONOLOGICAL: each solution is used once, the first that fits",
    UsePolicy.RECENT: "RECENT: each solution is used once, the last that fits",
}


def _read(read: UnitRead) -> str:
    """An operand's text, or the graphs that it reads, and whether it reads events of the
    present."""
    when = "" if read.now else ", of the past"
    match read.stream:
        case IntervalEvents(label, None):
            return f"graphs of {label}, in {_clipped(read.span)}{when}"
        case IntervalEvents(label, _) | EventSource(label, _):
            return f"EVENT {label}{when}"
        case _:
            return f"{_clipped(read.span)}{when}"


def _clipped(span: Span) -> str:
    line = one_line(span)
    return line if len(line) <= _LONGEST else f"{line[:_LONGEST]}…"


def _operator(each: Combination) -> str:
    common = [name for name in visible_variables(each.left) if name in visible_variables(each.right)]
    on = " on " + ", ".join(f"?{name}" for name in common) if common else " without a common variable"
    match each.operator:
        case TemporalOperator.SEQ | TemporalOperator.OPTIONALSEQ:
            assert each.bound is not None, "checked by the language"
            kept = f"keeps its left solutions for {bound_text(each.bound)}"
        case TemporalOperator.AND:
            assert each.bound is not None, "checked by the language"
            kept = f"keeps both sides for {bound_text(each.bound)}"
        case _:
            kept = "keeps nothing"
    return f"{each.operator.value}{on}: {kept}"


def _partition(query: TemporalQuery) -> str:
    keys = operand_keys(query)
    if keys is None:
        return (
            "any: it is evaluated over each instant"
            if isinstance(query.form, InstantAnswers)
            else f"one partition, on one core: {interval_key(query).reason}"
        )
    return f"keyed by {', '.join(f'?{name}' for name in dict.fromkeys(keys))}"
