"""Runs of the engine in this process, undivided or in partitions and batches.

Results are in the oracle's form.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import pairwise

from dotr.engine.driver import Engine, Moment, moments, partition_ticks
from dotr.engine.multi_query import share_queries
from dotr.engine.program import CompiledProgram
from dotr.instant.instants import merge
from dotr.model.stream import DeadLetter, Element, Firing, output_order
from dotr.model.terms import Triple
from dotr.model.time import LAST_MICRO, Clock, Micros
from dotr.runtimes.spark.buckets.bucket_steps import in_order
from dotr.temporal.layout.layers import lay_out
from dotr.temporal.matching.operator import Arrival
from dotr.temporal.matching.rule_counts import RuleCounts, added_counts
from dotr.temporal.matching.state import State
from dotr.temporal.stage_two import LayerResult, StageTwo
from tests.oracle.program import ReportedFact, Result
from tests.oracle.temporal import Output


def by_time(elements: Iterable[Element]) -> dict[Micros, list[tuple[Triple, ...]]]:
    """The graphs of each time, in order of time."""
    together: dict[Micros, list[tuple[Triple, ...]]] = {}
    for element in sorted(elements, key=lambda element: element.time):
        together.setdefault(element.time, []).append(element.triples)
    return together


def run_engine(
    program: CompiledProgram, elements: Iterable[Element], clock: Clock, *, reload: bool = False, most: int | None = None
) -> Result:
    """The outputs of a run. `reload`: encode and restore the state after every instant; `most`: stop after more outputs."""
    together = by_time(elements)
    engine = Engine(program, clock)
    outputs: list[Output] = []
    facts: list[ReportedFact] = []

    def put(firings: Iterable[Firing]) -> None:
        outputs.extend(Output(f.time, f.rule, f.event, dict(f.attributes), frozenset(f.graph or ()), f.dropped) for f in firings)

    for time, graphs in together.items():
        firings, _ = engine.step(time, graphs)
        put(firings)
        facts += [ReportedFact(time, e.type, dict(e.attributes)) for e in program.facts_of_interest(merge(time, graphs))]
        if reload:
            engine.reload()
        if most is not None and len(outputs) > most:
            break
    for firings in engine.finish():
        put(firings)
    return Result(tuple(facts), tuple(outputs), decided_by_names=False)


def partitioned(
    program: CompiledProgram, elements: Sequence[Element], buckets: int, *, reload: bool = False, clock: Clock | None = None
) -> list[Firing]:
    """The firings of a program without timers; every layer has `buckets` partitions."""
    layers, router = program.stage_two(clock or Clock()), program.router(buckets)
    states = [[layer.start() for _ in range(buckets)] for layer in layers]
    firings: list[Firing] = []
    for time, graphs in by_time(elements).items():
        deliveries = router.facts(program.stage_one.evaluate(merge(time, graphs)).facts, time)
        now: list[Firing] = []
        for number, layer in enumerate(layers):
            # The order of partitions is irrelevant: a higher layer sorts its arrivals.
            for bucket, arrivals in sorted(deliveries[number].items(), reverse=True):
                step = layer.step(states[number][bucket], time, arrivals, bucket)
                now += step.firings
                for above, further in enumerate(router.events(step.events, number, time)):
                    for target, ports in further.items():
                        for port, events in ports.items():
                            deliveries[above].setdefault(target, {}).setdefault(port, []).extend(events)
            if reload:
                states[number] = [layer.restore(state.encode()) for state in states[number]]
        firings += sorted(now, key=output_order)
    return firings


def cut_into_stages(program: CompiledProgram) -> CompiledProgram | None:
    """A program whose rules are cut into stages, as on Spark; None if no rule is cut."""
    layout = lay_out(share_queries(program.rules.rules), program.spec.since, program.units, cut=True)
    assert layout.streams == program.layout.streams
    return None if layout == program.layout else replace(program, spec=replace(program.spec, cut=True), layout=layout)


def outputs(firings: Sequence[Firing]) -> list[Output]:
    return [Output(f.time, f.rule, f.event, dict(f.attributes), frozenset(f.graph or ()), f.dropped) for f in firings]


def in_batches(program: CompiledProgram, elements: Sequence[Element], clock: Clock, buckets: int, cuts: Sequence[Micros]) -> list[Firing]:
    """The firings where each layer has `buckets` partitions, and each batch is processed layer by layer."""
    return Batched(program, clock, buckets).run(elements, cuts)


class Batched:
    """A program whose layers have `buckets` partitions, run batch by batch; between batches the state is encoded."""

    def __init__(self, program: CompiledProgram, clock: Clock, buckets: int) -> None:
        self.program = program
        self.clock = clock
        self.buckets = buckets
        self.layers = program.stage_two(clock)
        self.failed: list[DeadLetter] = []
        self.rule_counts: dict[str, RuleCounts] = {}
        self.states = [[layer.start().encode() for _ in range(buckets)] for layer in self.layers]
        router = program.router(buckets)
        self._ticks = [
            [partition_ticks(program, router, number, bucket) for bucket in range(buckets)] for number in range(len(self.layers))
        ]

    def run(self, elements: Sequence[Element], cuts: Sequence[Micros]) -> list[Firing]:
        """The firings of all elements, in batches that end at the cuts."""
        firings: list[Firing] = []
        for after, closed in pairwise([-LAST_MICRO, *sorted(set(cuts)), LAST_MICRO]):
            firings += self.batch([element for element in elements if after < element.time <= closed], closed)
        return sorted(firings, key=output_order)

    def stepped(self, layer: int, bucket: int, moment: Moment, result: LayerResult) -> None:
        """Hook for subclasses: called with the result of a step of a bucket."""

    def finished(self, number: int, bucket: int, layer: StageTwo, state: State) -> None:
        """Hook for subclasses: called with the state of a bucket at the end of a batch."""

    def batch(self, elements: Iterable[Element], closed: Micros) -> list[Firing]:
        """The firings of a batch up to a time."""
        together = by_time(elements)
        layers, router, buckets = self.layers, self.program.router(self.buckets), self.buckets
        firings: list[Firing] = []
        chunks: list[list[list[tuple[Micros, dict[int, list[Arrival]]]]]] = [[[] for _ in range(buckets)] for _ in layers]
        spans = [(time, time) for time in together]
        for time, graphs in together.items():
            for number, deliveries in enumerate(router.facts(self.program.stage_one.evaluate(merge(time, graphs)).facts, time)):
                for bucket, ports in deliveries.items():
                    chunks[number][bucket].append((time, ports))
        for number, layer in enumerate(layers):
            for bucket in range(buckets):
                state = layer.restore(self.states[number][bucket])
                for moment in moments(layer, state, self._ticks[number][bucket], in_order([chunks[number][bucket]]), spans, closed):
                    step = layer.step(state, moment.time, moment.arrivals, bucket, ended=moment.ended)
                    self.stepped(number, bucket, moment, step)
                    firings += step.firings
                    self.failed += step.failed
                    for above, further in enumerate(router.events(step.events, number, moment.time)):
                        for target, ports in further.items():
                            chunks[above][target].append((moment.time, ports))
                self.finished(number, bucket, layer, state)
                self.states[number][bucket] = state.encode()
                self.rule_counts = added_counts(self.rule_counts, layer.rule_counts(state.counter))
        return firings
