"""Random programs cut into stages, in several buckets and batches: the output equals that of one process, fresh names included."""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from dotr.engine.driver import Moment
from dotr.engine.program import CompiledProgram
from dotr.engine.spec import ProgramSpec
from dotr.errors.diagnostics import Refused, Severity
from dotr.languages.programs import compile_program
from dotr.model.places import Document
from dotr.model.time import Clock
from dotr.temporal.stage_two import LayerResult
from tests.support.running import Batched, outputs, run_engine
from tests.support.staged_programs import BACKGROUND, RandomProgram, random_program
from tests.support.varied_programs import varied_program

PROGRAMS: Final = int(os.environ.get("DOTR_EXAMPLES", "60"))
MOST: Final = 400
"""The number of outputs above which a program is skipped."""


@pytest.fixture(scope="module")
def background(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("background") / "ticks.ttl"
    path.write_text(BACKGROUND)
    return path


def compiled(rules: str, background: Path, *, cut: bool) -> CompiledProgram | None:
    """The compiled program; None if an event depends on itself at one instant."""
    try:
        return compile_program(ProgramSpec((Document("r.dotr", rules),), graphs=(str(background),), cut=cut))
    except Refused as refused:
        codes = {str(each.code) for each in refused.diagnostics if each.severity is Severity.ERROR}
    assert codes <= {"D401", "D402"}
    return None


class Bucketed(Batched):
    """A program in buckets, with arrivals in random order. Equal matches meet in one bucket, so no two buckets make the same graph with
    fresh names at one time."""

    def __init__(self, program: CompiledProgram, buckets: int, seed: int) -> None:
        super().__init__(program, Clock(), buckets)
        self.random = random.Random(seed)
        self.bucket_of: dict[object, int] = {}  # by time, rule and graph

    def stepped(self, layer: int, bucket: int, moment: Moment, result: LayerResult) -> None:
        """Asserts that no other bucket has made a graph of this one, and shuffles the events."""
        for each in result.firings:
            if any("urn:dotr:" in name for triple in each.graph or () for name in triple):
                assert self.bucket_of.setdefault((each.time, each.rule, each.graph), bucket) == bucket, "equal matches in two buckets"
        self.random.shuffle(result.events)


def as_in_one_process(seed: int, background: Path, program: Callable[[int], RandomProgram] = random_program) -> str:
    """Compares a program that is cut, in 1, 2, 3 and 8 buckets, with the program in one process.

    Returns `staged` if a rule has several stages, `whole` if none has, `refused` or `too much` if the program was skipped.
    """
    generated = program(seed)
    whole = compiled(generated.rules, background, cut=False)
    if whole is None:
        return "refused"
    expected = list(run_engine(whole, generated.elements, Clock(), most=MOST).outputs)
    if len(expected) > MOST:
        return "too much"
    cut = compiled(generated.rules, background, cut=True)
    assert cut is not None
    times = sorted({element.time for element in generated.elements})
    for buckets in (1, 2, 3, 8):
        choose = random.Random(f"{seed} {buckets}")
        ends = [time + choose.choice([0, 0, 500_000]) for time in choose.sample(times, k=min(len(times), choose.randint(0, 4)))]
        assert outputs(Bucketed(cut, buckets, seed).run(generated.elements, ends)) == expected, generated.rules
    return "staged" if any(placed.stage.number for layer in cut.layout.layers for placed in layer.rules) else "whole"


@pytest.mark.parametrize("part", range(4))
def test_output_of_cut_programs_equals_that_of_one_process(part: int, background: Path) -> None:
    """`DOTR_EXAMPLES=2000` tries that many programs."""
    found = Counter(as_in_one_process(seed, background) for seed in range(part, PROGRAMS, 4))
    assert found["staged"] > sum(found.values()) / 8


def test_output_of_cut_varied_programs_equals_that_of_one_process(background: Path) -> None:
    """Keys are NaN, blank nodes, IRIs, texts with a language, date-times; queries have VALUES, DISTINCT, hidden joins and unions."""
    found = Counter(as_in_one_process(seed, background, varied_program) for seed in range(PROGRAMS // 3))
    assert found["staged"] > sum(found.values()) / 8
