"""Properties of whole programs: the engine says what the oracle says, and nothing depends on batches or on the order of lists.

Examples are the same on every run; `DOTR_EXAMPLES=5000` looks at that many new ones.
"""

from __future__ import annotations

import os
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from random import Random

from hypothesis import HealthCheck, assume, given, note, settings
from hypothesis import strategies as st

from dotr import Program
from dotr.engine.program import compile_program
from dotr.engine.spec import ProgramSpec
from dotr.knowledge.entailment import Entailment
from dotr.model.places import Document
from dotr.model.stream import Element
from dotr.model.time import Clock
from tests.oracle.cases import read_world
from tests.oracle.isomorphism import canonical
from tests.oracle.program import Result, run
from tests.running import run_engine
from tests.strategies import GENERAL, ProgramText, programs
from tests.strategies_streams import streams

EXAMPLES = os.environ.get("DOTR_EXAMPLES")


def examples(number: int) -> settings:
    return settings(
        max_examples=int(EXAMPLES or number),
        deadline=None,
        derandomize=EXAMPLES is None,
        database=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large],
    )


def compiled(text: ProgramText, *, backwards: bool = False) -> Program:
    """`backwards`: with the lines of its graph and of its Datalog the other way round."""

    def lines(part: str, header: int) -> str:
        head, rest = part.splitlines()[:header], part.splitlines()[header:]
        return "\n".join([*head, *(reversed(rest) if backwards else rest)]) + "\n"

    with tempfile.TemporaryDirectory() as folder:
        graph = Path(folder) / "background.ttl"
        graph.write_text(lines(text.background, 3))
        return compile_program(
            ProgramSpec(
                (Document("random.dotr", text.rules),),
                (Document("random.dlog", lines(text.datalog, 2)),),
                (str(graph),),
                Entailment(text.entailment),
            )
        )


def oracle(text: ProgramText, elements: Sequence[Element]) -> Result:
    world = read_world([("random.dotr", text.rules)], [text.background], [("random.dlog", text.datalog)], text.entailment)
    result = run(world, elements)
    assume(not result.decided_by_names)
    return result


def said(result: Result) -> Counter[tuple[object, ...]]:
    """A result up to the names of blank and generated nodes."""
    outputs = ((o.time, o.rule, o.event, canonical(o.graph, o.attributes), o.dropped) for o in result.outputs)
    facts = ((f.time, f.label, canonical([], f.attributes)) for f in result.facts)
    return Counter([*outputs, *facts])


def shown(text: ProgramText, elements: Sequence[Element]) -> None:
    note(f"{text.rules}\n--- Datalog\n{text.datalog}\n--- background, {text.entailment}\n{text.background}\n--- stream")
    for element in elements:
        note(f"{element.time}: {' . '.join(map(' '.join, element.triples))}")


@examples(150)
@given(programs(), streams())
def test_the_engine_says_what_the_oracle_says(text: ProgramText, elements: list[Element]) -> None:
    shown(text, elements)
    assert said(run_engine(compiled(text), elements, Clock())) == said(oracle(text, elements))


@examples(60)
@given(programs(GENERAL), streams())
def test_so_it_does_for_general_queries(text: ProgramText, elements: list[Element]) -> None:
    shown(text, elements)
    assert said(run_engine(compiled(text), elements, Clock())) == said(oracle(text, elements))


@examples(40)
@given(programs(entailments=("rdfs", "owl2rl")), streams(longest=4))
def test_so_it_does_under_entailment(text: ProgramText, elements: list[Element]) -> None:
    shown(text, elements)
    assert said(run_engine(compiled(text), elements, Clock())) == said(oracle(text, elements))


@examples(60)
@given(programs(), streams())
def test_any_batching_is_one_batch(text: ProgramText, elements: list[Element]) -> None:
    shown(text, elements)
    program = compiled(text)
    assert run_engine(program, elements, Clock(), reload=True) == run_engine(program, elements, Clock())


@examples(60)
@given(programs(), streams(), st.randoms(use_true_random=False))
def test_the_order_of_lists_does_not_matter(text: ProgramText, elements: list[Element], random: Random) -> None:
    """Names included."""
    shown(text, elements)
    shuffled = list(elements)
    random.shuffle(shuffled)
    forwards = run_engine(compiled(text), elements, Clock())
    backwards = run_engine(compiled(text, backwards=True), shuffled, Clock())
    assert backwards.outputs == forwards.outputs
