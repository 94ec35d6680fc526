"""Explanations of EP-SPARQL units: events, operands, operators and what they keep, partition,
layer."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from dotr.engine.program import CompiledProgram
from dotr.languages.epsparql.component import IntervalComponent
from dotr.languages.epsparql.interval_keys import operand_keys
from dotr.languages.epsparql.unit import IntervalUnit
from dotr.model.places import Span
from dotr.model.rules import EventSource, Rule
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
from dotr.temporal.layout.units import UnitRead

_LONGEST: Final = 80


class IntervalExplanation(NamedTuple):
    """Plan of an EP-SPARQL unit, a text for each part.

    - `makes`: its events; `reads`: its operands, with the streams that feed them.
    - `operators`: inner ones first, with what each keeps; `policy`: empty where no policy chooses.
    - `partition`, `layer`: its key and its place among the layers.
    """

    label: str
    documentation: str
    makes: str
    reads: tuple[str, ...]
    operators: tuple[str, ...]
    policy: str
    partition: str
    layer: str


def explained_intervals(program: CompiledProgram) -> tuple[IntervalExplanation, ...]:
    """Explanations of the EP-SPARQL units of a program, by layer; those that are evaluated as rules
    are explained as such.
    """
    found: list[IntervalExplanation] = []
    for layer in program.layout.layers:
        for placed in layer.units:
            match placed.unit:
                case IntervalUnit() as unit:
                    found.append(_explained(unit, layer.number, ""))
                case IntervalComponent(members):
                    names = ", ".join(member.name for member in members if isinstance(member, Rule | IntervalUnit))
                    reason = f"one partition, on one core: {names} depends on itself in the past"
                    found += [_explained(each, layer.number, reason) for each in members if isinstance(each, IntervalUnit)]
    return tuple(found)


def lines_of_intervals(unit: IntervalExplanation) -> Iterator[str]:
    r"""The explanation of a unit as text.

    >>> operators = ("SEQ on ?c: keeps its left solutions for 10 s",)
    >>> unit = IntervalExplanation("Fall", "", "?c, without a graph", ("{ ?c :price ?p }",), operators, "", "keyed by ?c", "0")
    >>> print("\n".join(lines_of_intervals(unit)))
    EP-SPARQL unit Fall
      makes      ?c, without a graph
      reads      { ?c :price ?p }
      state      SEQ on ?c: keeps its left solutions for 10 s
      partition  keyed by ?c
      layer      0
    """
    yield f"EP-SPARQL unit {unit.label}" + (f': "{unit.documentation}"' if unit.documentation else "")
    yield f"  makes      {unit.makes}"
    for title, lines in (("reads", unit.reads), ("state", unit.operators or ("none",))):
        for number, line in enumerate(lines):
            yield f"  {title if not number else '':9}  {line}"
    if unit.policy:
        yield f"  policy     {unit.policy}"
    yield f"  partition  {unit.partition}"
    yield f"  layer      {unit.layer}"


def _explained(unit: IntervalUnit, layer: int, reason: str) -> IntervalExplanation:
    query = unit.query
    operators = list(combinations(query.where)) if query.where is not None else []
    shown = " ".join(f"?{name}" for name in query.attributes) or "no attributes"
    return IntervalExplanation(
        query.label,
        query.documentation,
        f"{shown}, {'a graph for each solution' if query.makes_graphs else 'without a graph'}",
        tuple(_read(read) for read in unit.reads),
        tuple(map(_operator, operators)),
        _POLICIES[query.policy] if operators else "",
        reason or _partition(query, unit),
        str(layer),
    )


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


def _partition(query: TemporalQuery, unit: IntervalUnit) -> str:
    keys = operand_keys(query)
    if keys is None:
        return (
            "any: it is evaluated over each instant"
            if isinstance(query.form, InstantAnswers)
            else f"one partition, on one core: {unit.key.reason}"
        )
    return f"keyed by {', '.join(f'?{name}' for name in dict.fromkeys(keys))}"
