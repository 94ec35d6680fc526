"""The engine run in this process on elements, its results in the oracle's form so that the two can be compared."""

from __future__ import annotations

from collections.abc import Iterable

from dotr import Program
from dotr.engine.instants import merge
from dotr.engine.session import Engine
from dotr.model.stream import Element, Firing
from dotr.model.terms import Triple
from dotr.model.time import Clock, Micros
from tests.oracle.program import ReportedFact, Result
from tests.oracle.temporal import Output


def run_engine(program: Program, elements: Iterable[Element], clock: Clock, *, reload: bool = False) -> Result:
    """`reload`: write the state after every instant and read it back, as between batches."""
    together: dict[Micros, list[tuple[Triple, ...]]] = {}
    for element in elements:
        together.setdefault(element.time, []).append(element.triples)
    engine = Engine(program, clock)
    outputs: list[Output] = []
    facts: list[ReportedFact] = []

    def put(firings: Iterable[Firing]) -> None:
        outputs.extend(Output(f.time, f.rule, f.event, dict(f.attributes), frozenset(f.graph), f.dropped) for f in firings)

    for time in sorted(together):
        instant = merge(time, together[time])
        firings, _ = engine.step(instant)
        put(firings)
        facts += [ReportedFact(time, e.type, dict(e.attributes)) for e in program.facts_of_interest(instant)]
        if reload:
            engine.reload()
    for firings in engine.finish():
        put(firings)
    return Result(tuple(facts), tuple(outputs), decided_by_names=False)
