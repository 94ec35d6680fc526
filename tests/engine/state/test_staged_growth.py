"""Rules in stages, as Spark's workers run them: state written after each batch, and moved to other numbers of buckets between."""

from __future__ import annotations

import os
import random
from collections import Counter
from itertools import groupby
from operator import attrgetter
from typing import Final

import pytest

pytest.importorskip("pyspark")

from dotr.engine.spec import ProgramSpec
from dotr.engine.state import bucket as bucket_state
from dotr.engine.state import pages as paged_state
from dotr.engine.state.migration import state_change
from dotr.engine.state.schema import state_schema
from dotr.errors.diagnostics import Refused
from dotr.languages.programs import compile_program
from dotr.model.places import Document
from dotr.model.time import LAST_MICRO
from tests.engine.state.test_growth import expected, through
from tests.support.layered_batches import Instants, LayeredRun, moved_to
from tests.support.staged_programs import BACKGROUND, random_program
from tests.support.varied_programs import varied_program

PROGRAMS: Final = int(os.environ.get("DOTR_EXAMPLES", "18"))
FIRST: Final = 18
"""The first seed: two in five programs have stages, but of the 18 before this seed only four."""
MOST: Final = 400
"""Firings of a program; one with more is passed over."""


@pytest.fixture(scope="module")
def background(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("background") / "ticks.ttl"
    path.write_text(BACKGROUND)
    return str(path)


def moved_through(seed: int, background: str) -> str:
    """Compares a cut program whose buckets and groups change between batches with one engine. Returns the kind of the program."""
    made = (varied_program if seed % 3 == 2 else random_program)(seed)
    spec = ProgramSpec((Document("r.dotr", made.rules),), graphs=(background,))
    try:
        if not compile_program(spec).layout.stateful_operators:
            return "stateless"
    except Refused:
        return "refused"
    by_time = groupby(sorted(made.elements, key=attrgetter("time")), key=attrgetter("time"))
    instants: Instants = [(time, [element.triples for element in elements]) for time, elements in by_time]
    firings = expected(spec, instants)
    if len(firings) > MOST or len(instants) < 2:
        return "too much"
    choose = random.Random(seed)
    cuts = sorted(choose.sample(range(1, len(instants)), k=min(len(instants) - 1, choose.randint(1, 4))))
    widths = [choose.choice([1, 2, 3, 8]) for _ in range(len(cuts) + 1)]
    cut = ProgramSpec(spec.rules, graphs=spec.graphs, cut=True)
    groups = [choose.choice([1, 1, 2, 3]) for _ in widths]
    assert through(cut, instants, cuts, widths, seed, groups) == firings, (seed, widths, groups, made.rules)
    return "staged" if any(placed.stage.number for layer in compile_program(cut).layout.layers for placed in layer.rules) else "whole"


@pytest.mark.parametrize("part", range(3))
def test_output_of_staged_programs_equals_one_engine(part: int, background: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """`DOTR_EXAMPLES=2000` tries that many programs. Buckets are one text in a third of them, logs in another, and pages in the last."""
    if part:
        monkeypatch.setattr(bucket_state, "SMALL", 3)
    if part == 2:
        monkeypatch.setattr(paged_state, "MAX_UNPAGED", 8)
    first, programs = FIRST + part * (PROGRAMS // 3), PROGRAMS // 3
    found = Counter(moved_through(seed, background) for seed in range(first, first + programs))
    assert found["staged"] > sum(found.values()) / 5, found


def test_state_of_a_rule_in_one_partition_moves_to_its_stages(background: str) -> None:
    """The checkpoint of a release without stages has each rule in one layer; then the rules are cut."""
    compared = 0
    for seed in range(FIRST, FIRST + PROGRAMS // 2):
        made = random_program(seed)
        spec = ProgramSpec((Document("r.dotr", made.rules),), graphs=(background,))
        try:
            cut = compile_program(ProgramSpec(spec.rules, graphs=spec.graphs, cut=True))
        except Refused:
            continue
        if not any(placed.stage.number for layer in cut.layout.layers for placed in layer.rules):
            continue
        by_time = groupby(sorted(made.elements, key=attrgetter("time")), key=attrgetter("time"))
        instants: Instants = [(time, [element.triples for element in elements]) for time, elements in by_time]
        firings = expected(spec, instants)
        if len(firings) > MOST or len(instants) < 4:
            continue
        middle = len(instants) // 2
        run = LayeredRun(spec, 2, seed)
        got = run.batch(instants[:middle], instants[middle][0] - 1)
        got += moved_to(run, 3, instants[middle][0] - 1, cut.spec).batch(instants[middle:], LAST_MICRO)
        assert sorted(map(repr, got)) == sorted(map(repr, firings)), (seed, made.rules)
        compared += 1
    assert compared > 2


@pytest.mark.core
def test_cut_program_in_one_piece_moves_no_state(background: str) -> None:
    """A batch that an earlier release has written to an output is finished in its layout."""
    rules = (
        "PREFIX : <http://e/>\nrule R define E = [ [] :k ?k ] from A = [ SELECT ?k ?v WHERE { ?x a :A ; :k ?k ; :v ?v } ]\n"
        "and last B = [ SELECT ?k WHERE { ?x a :B ; :k ?k } ] within 5 s from A\nwith E.?k = B.?k\n"
    )
    cut = compile_program(ProgramSpec((Document("r.dotr", rules),), graphs=(background,), cut=True, groups=2))
    before = state_schema(compile_program(ProgramSpec((Document("r.dotr", rules),), graphs=(background,))))
    assert state_change(before, cut, 7).moves
    assert not state_change(before, cut.in_one_piece, 7).moves
