"""Heartbeats of the pipeline's clock in batches, without Spark: the events of one engine, and no batch more than needed."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import assume, given, note
from hypothesis import strategies as st

pytest.importorskip("pyspark")

from dotr.engine.driver import Engine
from dotr.engine.spec import ProgramSpec
from dotr.errors.diagnostics import Refused
from dotr.languages.programs import compile_program
from dotr.model.places import Document
from dotr.model.stream import DeadLetter, Element, FedGraph, Firing
from dotr.model.terms import Triple
from dotr.model.time import LAST_MICRO, Clock, Micros
from dotr.syntax.turtle.graphs import read_graph
from tests.support.layered_batches import LayeredRun
from tests.support.properties import examples
from tests.support.running import by_time
from tests.support.strategies import PLAIN, ProgramText, programs
from tests.support.strategies_continuous import ContinuousProgram, continuous_programs
from tests.support.strategies_lars import LarsProgram, lars_programs
from tests.support.strategies_streams import streams
from tests.support.strategies_temporal import TemporalProgram, temporal_programs

SECOND = 1_000_000
PREFIXES = {"": "http://example.org/", "owl": "http://www.w3.org/2002/07/owl#", "rdfs": "http://www.w3.org/2000/01/rdf-schema#"}
Timeline = Sequence[tuple[Micros, list[tuple[Triple, ...]]]]
"""Instants, and heartbeats as times without graphs, in order."""


def in_process(spec: ProgramSpec, timeline: Timeline) -> tuple[list[Firing], list[DeadLetter]]:
    engine = Engine(compile_program(spec), Clock(spec.unit))
    firings: list[Firing] = []
    for time, graphs in timeline:
        firings += engine.step(time, graphs)[0] if graphs else [each for moment in engine.advance(time) for each in moment]
    return firings + [each for moment in engine.finish() for each in moment], engine.failed


def on_spark(spec: ProgramSpec, timeline: Timeline, buckets: int, seed: int) -> tuple[list[Firing], list[DeadLetter], int]:
    """The firings and dead letters of batches as the planner makes them, and the number of batches of heartbeats alone."""
    run, firings, made, skipped = LayeredRun(spec, buckets, seed, clock_delay=SECOND), list[Firing](), 0, None
    chance = random.Random(seed)
    waiting: list[tuple[Micros, list[tuple[Triple, ...]]]] = []
    for time, graphs in timeline:
        if graphs:
            waiting.append((time, graphs))
            if chance.random() < 0.5:
                firings += run.batch(waiting, time + chance.randrange(2) * 10)
                waiting, skipped = [], None
        elif waiting or (run.due is not None and run.due <= time):
            made += not waiting
            firings += run.batch(waiting, time, is_heartbeat=True)
            waiting, skipped = [], None
        else:
            skipped = time
    if skipped is not None and run.due is not None:
        firings += run.batch([], skipped, is_heartbeat=True)
    return firings + run.batch(waiting, LAST_MICRO), run.letters, made


def compare(spec: ProgramSpec, instants: dict[Micros, list[tuple[Triple, ...]]], chance: random.Random) -> None:
    """Compare batches with one engine, over instants with heartbeats among them; the first and the last one are perhaps far away."""
    try:
        program = compile_program(spec)
    except Refused:
        assume(False)
    assume(program.layout.stateful_operators > 0)
    first, last, found = min(instants, default=0), max(instants, default=0), dict(instants)
    for _ in range(chance.randrange(12)):
        found.setdefault(chance.randrange(first - 8 * SECOND, last + 20 * SECOND), [])
    timeline = sorted(found.items())
    for document in (*spec.rules, *spec.datalog):
        note(f"{document.name}:\n{document.text}")
    note(str([(time, len(graphs)) for time, graphs in timeline]))
    seed, buckets = chance.randrange(1 << 30), chance.choice([1, 2, 3])
    expected, letters = in_process(spec, timeline)
    assume(len(expected) < 1_000)
    firings, found_letters, _ = on_spark(spec, timeline, buckets, seed)
    assert firings == expected
    assert sorted(found_letters) == sorted(letters)


def instants_of(elements: Sequence[tuple[float, str, str]], spec: ProgramSpec) -> dict[Micros, list[tuple[Triple, ...]]]:
    """The instants of elements: seconds, the name of the stream, and Turtle."""
    found: dict[Micros, list[tuple[Triple, ...]]] = {}
    for at, name, turtle in elements:
        found.setdefault(int(at * SECOND), []).append(FedGraph.on("http://example.org/" + name, read_graph(turtle, spec.prefixes, 100)))
    return found


def spec_of(**texts: str) -> ProgramSpec:
    return ProgramSpec(tuple(Document(name.replace("_", "."), text) for name, text in texts.items() if text), prefixes=PREFIXES)


@given(programs(PLAIN), streams(), st.randoms(use_true_random=False))
@examples(12)
def test_random_rules(text: ProgramText, elements: list[Element], chance: random.Random) -> None:
    compare(replace(spec_of(r_dotr=text.rules), unit=text.clock.unit), by_time(elements), chance)


@given(continuous_programs(), st.randoms(use_true_random=False))
@examples(6)
def test_random_queries_and_rules(program: ContinuousProgram, chance: random.Random) -> None:
    spec = replace(spec_of(q_rspql=program.queries, r_dotr=program.rules), origin=program.origin * SECOND)
    compare(spec, instants_of(program.elements, spec), chance)


@given(lars_programs(), st.randoms(use_true_random=False))
@examples(6)
def test_random_lars_files(program: LarsProgram, chance: random.Random) -> None:
    spec = spec_of(a_lars=program.first, b_lars=program.later, r_dotr=program.rules, q_rspql=program.queries)
    compare(spec, instants_of([(at, "in", turtle) for at, turtle in program.elements], spec), chance)


@given(temporal_programs(), st.randoms(use_true_random=False))
@examples(4)
def test_random_epsparql_units(program: TemporalProgram, chance: random.Random) -> None:
    spec = spec_of(q_epsparql=program.units, r_dotr=program.rules)
    compare(spec, instants_of([(at, "in", turtle) for at, turtle in program.elements], spec), chance)
