"""Rules cut into stages give what they give in one piece, in any number of buckets, fresh names and counts included."""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import replace

import pytest

from dotr.engine.program import CompiledProgram, compile_program
from dotr.engine.spec import ProgramSpec
from dotr.errors.diagnostics import Refused
from dotr.model.places import Document
from dotr.model.time import Clock
from tests.support.random_chains import ChainMaker
from tests.support.running import in_batches, outputs, run_engine

EXAMPLES = int(os.environ.get("DOTR_EXAMPLES", "60"))
MOST = 3_000


def programs(text: str) -> tuple[CompiledProgram, CompiledProgram]:
    """A program in one piece, and cut."""
    spec = ProgramSpec((Document("rules.dotr", text),))
    return compile_program(spec), compile_program(replace(spec, cut=True))


@pytest.mark.parametrize("seed", range(EXAMPLES))
def test_cut_equals_uncut(seed: int) -> None:
    maker = ChainMaker(seed)
    try:
        whole, cut = programs(text := maker.program())
    except Refused as refused:
        pytest.skip(str(refused.diagnostics[0]))
    elements = maker.stream()
    print(text)
    expected = list(run_engine(whole, elements, Clock(), most=MOST).outputs)
    if len(expected) > MOST:
        pytest.skip("too much")
    cuts = [maker.choose(elements).time for _ in range(3)]
    for buckets in (1, 2, 3, 8):
        found = outputs(in_batches(cut, elements, Clock(), buckets, cuts))
        assert Counter(map(repr, found)) == Counter(map(repr, expected))
        assert found == expected
