"""Random programs cut into stages, in several buckets and batches, give what one process gives, fresh names included."""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from dotr.engine.driver import Moment
from dotr.engine.program import CompiledProgram, compile_program
from dotr.engine.spec import ProgramSpec
from dotr.engine.stage_two import LayerResult
from dotr.errors.diagnostics import Refused, Severity
from dotr.model.places import Document
from dotr.model.time import Clock
from tests.support.running import Batched, outputs, run_engine
from tests.support.staged_programs import BACKGROUND, RandomProgram, random_program
from tests.support.varied_programs import varied_program

PROGRAMS: Final = int(os.environ.get("DOTR_EXAMPLES", "60"))
MOST: Final = 400
"""Outputs of a program; one with more is passed over."""


@pytest.fixture(scope="module")
def background(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("background") / "ticks.ttl"
    path.write_text(BACKGROUND)
    return path


def compiled(rules: str, background: Path, *, cut: bool) -> CompiledProgram | None:
    """The program; None where an event needs itself at its own instant."""
    try:
        return compile_program(ProgramSpec((Document("r.dotr", rules),), graphs=(str(background),), cut=cut))
    except Refused as refused:
        codes = {str(each.code) for each in refused.diagnostics if each.severity is Severity.ERROR}
    assert codes <= {"D401", "D402"}
    return None


class Bucketed(Batched):
    """A program in buckets, whose arrivals come in any order. No two buckets make one graph with a fresh name at a time, as equal matches
    meet in one bucket."""

    def __init__(self, program: CompiledProgram, buckets: int, seed: int) -> None:
        super().__init__(program, Clock(), buckets)
        self.random = random.Random(seed)
        self.made: dict[object, int] = {}

    def stepped(self, layer: int, bucket: int, moment: Moment, result: LayerResult) -> None:
        """Asserts that no bucket before has made the graphs of this one, and shuffles the events."""
        for each in result.firings:
            if any("urn:dotr:" in name for triple in each.graph or () for name in triple):
                assert self.made.setdefault((each.time, each.rule, each.graph), bucket) == bucket, "equal matches in two buckets"
        self.random.shuffle(result.events)


def as_in_one_process(seed: int, background: Path, program: Callable[[int], RandomProgram] = random_program) -> str:
    """Compares a program cut into 1, 2, 3 and 8 buckets with the program in one process. Returns what was compared."""
    made = program(seed)
    whole = compiled(made.rules, background, cut=False)
    if whole is None:
        return "refused"
    expected = list(run_engine(whole, made.elements, Clock(), most=MOST).outputs)
    if len(expected) > MOST:
        return "too much"
    cut = compiled(made.rules, background, cut=True)
    assert cut is not None
    times = sorted({element.time for element in made.elements})
    for buckets in (1, 2, 3, 8):
        choose = random.Random(f"{seed} {buckets}")
        ends = [time + choose.choice([0, 0, 500_000]) for time in choose.sample(times, k=min(len(times), choose.randint(0, 4)))]
        assert outputs(Bucketed(cut, buckets, seed).run(made.elements, ends)) == expected, made.rules
    return "staged" if any(placed.stage.number for layer in cut.layout.layers for placed in layer.rules) else "whole"


@pytest.mark.parametrize("part", range(4))
def test_cut_programs_give_what_one_process_gives(part: int, background: Path) -> None:
    """`DOTR_EXAMPLES=2000` tries that many programs."""
    found = Counter(as_in_one_process(seed, background) for seed in range(part, PROGRAMS, 4))
    assert found["staged"] > sum(found.values()) / 8


def test_other_terms_and_constructs_change_nothing(background: Path) -> None:
    """Keys are NaN, blank nodes, IRIs, texts with a language, date-times; queries have VALUES, DISTINCT, hidden joins and unions."""
    found = Counter(as_in_one_process(seed, background, varied_program) for seed in range(PROGRAMS // 3))
    assert found["staged"] > sum(found.values()) / 8
