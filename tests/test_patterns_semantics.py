"""Stage two over the whole rule language: the engine says what the oracle says, in one partition and in many, whatever the batches."""

from __future__ import annotations

import os
import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from hypothesis import HealthCheck, assume, given, note, settings

from dotr import Program
from dotr.engine.instants import merge
from dotr.engine.program import compile_program
from dotr.engine.spec import ProgramSpec
from dotr.model.places import Document
from dotr.model.stream import Element, Firing
from dotr.model.terms import Triple
from dotr.model.time import Clock, Micros
from dotr.outputs.writing import output_order
from tests.oracle.cases import read_world
from tests.oracle.isomorphism import canonical
from tests.oracle.program import run
from tests.oracle.temporal import Output
from tests.running import run_engine
from tests.strategies import Features, ProgramText, programs
from tests.strategies_streams import streams

EXAMPLES = os.environ.get("DOTR_EXAMPLES")
TEMPORAL = Features(counts=True, absent=True, aggregates=True, recursion=True)
TIMERS = replace(TEMPORAL, timers=True)


def program_of(text: ProgramText) -> Program:
    with tempfile.TemporaryDirectory() as folder:
        graph = Path(folder) / "background.ttl"
        graph.write_text(text.background)
        documents = (Document("random.dotr", text.rules),), (Document("random.dlog", text.datalog),)
        return compile_program(ProgramSpec(*documents, (str(graph),)))


def partitioned(program: Program, elements: Sequence[Element], buckets: int, *, reload: bool = False) -> list[Firing]:
    """The firings of a program whose every layer runs in so many partitions."""
    together: dict[Micros, list[tuple[Triple, ...]]] = {}
    for element in elements:
        together.setdefault(element.time, []).append(element.triples)
    layers, router = program.stage_two(Clock()), program.router(buckets)
    states = [[layer.start() for _ in range(buckets)] for layer in layers]
    firings: list[Firing] = []
    for time in sorted(together):
        deliveries = router.facts(program.stage_one.facts(merge(time, together[time])).facts)
        now: list[Firing] = []
        for number, layer in enumerate(layers):
            # Whichever partition comes first: what is above sorts what it is handed.
            for bucket, arrivals in sorted(deliveries[number].items(), reverse=True):
                step = layer.step(states[number][bucket], time, arrivals, bucket)
                now += step.firings
                for above, further in enumerate(router.events(step.events, number)):
                    for target, ports in further.items():
                        for port, events in ports.items():
                            deliveries[above].setdefault(target, {}).setdefault(port, []).extend(events)
            if reload:
                states[number] = [layer.restore(state.encode()) for state in states[number]]
        firings += sorted(now, key=output_order)
    return firings


def outputs(firings: Sequence[Firing]) -> list[Output]:
    return [Output(f.time, f.rule, f.event, dict(f.attributes), frozenset(f.graph), f.dropped) for f in firings]


def said(found: Sequence[Output]) -> Counter[tuple[object, ...]]:
    """Outputs up to the names of blank and generated nodes."""
    return Counter((o.time, o.rule, o.event, canonical(o.graph, o.attributes), o.dropped) for o in found)


def expected(text: ProgramText, elements: Sequence[Element]) -> Counter[tuple[object, ...]]:
    world = read_world([("random.dotr", text.rules)], [text.background], [("random.dlog", text.datalog)])
    result = run(world, elements)
    assume(not result.decided_by_names)
    return said(result.outputs)


def shown(text: ProgramText, elements: Sequence[Element]) -> None:
    note(f"{text.rules}\n--- Datalog\n{text.datalog}\n--- background\n{text.background}\n--- stream")
    for element in elements:
        note(f"{element.time}: {' . '.join(map(' '.join, element.triples))}")


def examples(number: int) -> settings:
    return settings(
        max_examples=int(EXAMPLES or number),
        deadline=None,
        derandomize=EXAMPLES is None,
        database=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large],
    )


@examples(150)
@given(programs(TEMPORAL), streams())
def test_the_engine_says_what_the_oracle_says(text: ProgramText, elements: list[Element]) -> None:
    shown(text, elements)
    assert said(run_engine(program_of(text), elements, Clock()).outputs) == expected(text, elements)


@examples(150)
@given(programs(TIMERS), streams())
def test_so_it_does_for_timers(text: ProgramText, elements: list[Element]) -> None:
    """With the state written and read back, too."""
    shown(text, elements)
    program = program_of(text)
    result = run_engine(program, elements, Clock())
    assert said(result.outputs) == expected(text, elements)
    assert run_engine(program, elements, Clock(), reload=True).outputs == result.outputs


@examples(60)
@given(programs(TEMPORAL), streams())
def test_many_partitions_say_what_one_says(text: ProgramText, elements: list[Element]) -> None:
    """Fresh names included, and with the state written and read back at every instant."""
    shown(text, elements)
    program = program_of(text)
    one = partitioned(program, elements, 1)
    assert partitioned(program, elements, 7, reload=True) == one
    assert outputs(one) == list(run_engine(program, elements, Clock(), reload=True).outputs)
