"""Isolation of the elements that make stage one fail (semantics.md, section 6).

Idea: an instant that fails is evaluated once more. If it fails again, each element is evaluated
alone, and the elements that fail are left out; if the others still fail together, all are left out.
Where a single query fails, all elements stay: the query's rules miss the instant, and the elements
that make the query fail become dead letters.
Cost: one evaluation an element, only in instants that fail.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from dotr.engine.program import CompiledProgram
from dotr.errors.fallbacks import FallbackKind, error_line, record_fallback, reraise_in_tests
from dotr.instant.instants import merge
from dotr.instant.stage_one import InstantFacts
from dotr.model.terms import Triple
from dotr.model.time import Micros


class IsolatedInstant(NamedTuple):
    """The facts of the usable elements (None: no element is usable), and the errors of the others
    by the element's number.
    """

    facts: InstantFacts | None
    rejected: dict[int, str]


def isolate(program: CompiledProgram, time: Micros, graphs: Sequence[tuple[Triple, ...]], first: Exception) -> IsolatedInstant:
    """The second evaluation of an instant whose first one raised `first`; leaves elements out."""
    reraise_in_tests(first, FallbackKind.INSTANT)
    evaluate = program.stage_one.evaluate
    try:
        facts = evaluate(merge(time, graphs))
    except Exception as error:
        why = error_line(error)
    else:
        record_fallback(first, FallbackKind.INSTANT)
        return IsolatedInstant(facts, {})
    rejected: dict[int, str] = {}
    for number, graph in enumerate(graphs):
        try:
            evaluate(merge(time, [graph]))
        except Exception as error:
            rejected[number] = error_line(error)
    others = [number for number in range(len(graphs)) if number not in rejected]
    if not others:
        return IsolatedInstant(None, rejected)
    if rejected:
        try:
            return IsolatedInstant(evaluate(merge(time, [graphs[number] for number in others])), rejected)
        except Exception as error:
            why = error_line(error)
    return IsolatedInstant(None, rejected | dict.fromkeys(others, why))


def attribute_failures(program: CompiledProgram, time: Micros, graphs: Sequence[tuple[Triple, ...]], facts: InstantFacts) -> dict[int, str]:
    """The elements that make queries fail, by number, with the names of the rules that miss them
    and the error: those that fail alone, else all elements of the instant.
    """
    failures: dict[int, str] = {}
    for streams, error in facts.failed:
        rules = ", ".join(program.readers(streams))
        why = f"the query of rule {rules} fails: {error}"
        failing_alone = [number for number, graph in enumerate(graphs) if len(graphs) > 1 and _fails(program, time, graph, streams)]
        for number in failing_alone or range(len(graphs)):
            failures.setdefault(number, why)
    return failures


def _fails(program: CompiledProgram, time: Micros, graph: tuple[Triple, ...], streams: tuple[int, ...]) -> bool:
    return any(failed == streams for failed, _ in program.stage_one.evaluate(merge(time, [graph])).failed)
