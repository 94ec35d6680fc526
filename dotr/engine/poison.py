"""Which elements make stage one fail: they become dead letters, and the others go on without them (semantics.md, section 6).

An instant that fails is tried once more. If it fails again, those of its elements that fail alone are taken out; what still fails
together is taken out together. A query that fails takes nothing out: its rules miss the instant, and the elements that make it fail
are told of.
Cost: nothing where nothing fails; else one try an element.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from dotr.engine.instants import merge
from dotr.engine.program import Program
from dotr.engine.stage_one import Asked
from dotr.fallbacks import Kind, answered, caught, described
from dotr.model.terms import Triple
from dotr.model.time import Micros


class Rescued(NamedTuple):
    """What stage one says of the elements that it can take (None: there is none), and which are not, with the error."""

    asked: Asked | None
    rejected: dict[int, str]


def rescue(program: Program, time: Micros, graphs: Sequence[tuple[Triple, ...]], first: Exception) -> Rescued:
    """An instant that has failed once with the error `first`, again."""
    caught(first, Kind.INSTANT)
    ask = program.stage_one.facts
    try:
        asked = ask(merge(time, graphs))
    except Exception as error:
        together = described(error)
    else:
        answered(first, Kind.INSTANT)
        return Rescued(asked, {})
    rejected: dict[int, str] = {}
    for number, graph in enumerate(graphs):
        try:
            ask(merge(time, [graph]))
        except Exception as error:
            rejected[number] = described(error)
    others = [number for number in range(len(graphs)) if number not in rejected]
    if not others:
        return Rescued(None, rejected)
    if rejected:
        try:
            return Rescued(ask(merge(time, [graphs[number] for number in others])), rejected)
        except Exception as error:
            together = described(error)
    return Rescued(None, rejected | dict.fromkeys(others, together))


def blamed(program: Program, time: Micros, graphs: Sequence[tuple[Triple, ...]], asked: Asked) -> dict[int, str]:
    """The elements that make queries fail, with the rules that miss them and the error: those that do so alone, else all of the instant."""
    found: dict[int, str] = {}
    for streams, error in asked.failed:
        rules = ", ".join(program.readers(streams))
        why = f"the query of rule {rules} fails: {error}"
        alone = [number for number, graph in enumerate(graphs) if len(graphs) > 1 and _fails(program, time, graph, streams)]
        for number in alone or range(len(graphs)):
            found.setdefault(number, why)
    return found


def _fails(program: Program, time: Micros, graph: tuple[Triple, ...], streams: tuple[int, ...]) -> bool:
    return any(failed == streams for failed, _ in program.stage_one.facts(merge(time, [graph])).failed)
