"""A run whose state moves between numbers of buckets has the output of one engine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("pyspark")

from hypothesis import given
from hypothesis import strategies as st

from dotr.engine.driver import Engine
from dotr.engine.spec import ProgramSpec
from dotr.engine.state import bucket as bucket_state
from dotr.engine.state import pages as paged_state
from dotr.languages.programs import compile_program
from dotr.model.places import Document
from dotr.model.stream import Element, Firing, output_order
from dotr.model.terms import Triple
from dotr.model.time import LAST_MICRO, Clock, Micros
from tests.engine.state.test_state_migration import HEADER, RULES, streams, with_clock
from tests.engine.state.test_unit_division import SPEC as UNITS
from tests.engine.state.test_unit_division import instants as unit_instants
from tests.runtimes.spark.test_lars_buckets import instants_of as lars_instants
from tests.runtimes.spark.test_lars_buckets import lars_spec
from tests.runtimes.spark.test_query_buckets import query_spec
from tests.runtimes.spark.test_unit_steps import by_one_engine
from tests.support.layered_batches import Instants, LayeredRun, moved_to
from tests.support.properties import examples


def expected(spec: ProgramSpec, instants: Instants) -> list[Firing]:
    """The firings of one engine."""
    engine = Engine(compile_program(spec), Clock())
    firings = [firing for time, graphs in instants for firing in engine.step(time, graphs)[0]]
    return sorted([*firings, *(firing for moment in engine.finish() for firing in moment)], key=output_order)


def through(
    spec: ProgramSpec, instants: Instants, cuts: list[int], widths: list[int], seed: int = 0, groups: Sequence[int] = ()
) -> list[Firing]:
    """The firings of a run in which each batch has its own number of buckets (`widths`) and of groups. Between equal cuts the state
    moves without a batch."""
    specs = [replace(spec, groups=number) for number in groups] or [spec] * len(widths)
    run, firings, start = LayeredRun(specs[0], widths[0], seed), list[Firing](), 0
    for number, (end, width) in enumerate(zip([*cuts, len(instants)], widths, strict=True)):
        if number:
            run = moved_to(run, width, instants[start][0] - 1, specs[number])
        if start == end:
            continue
        firings += run.batch(instants[start:end], LAST_MICRO if end == len(instants) else instants[end][0] - 1)
        start = end
    return sorted(firings, key=output_order)


def by_time(elements: list[Element]) -> list[tuple[Micros, list[tuple[Triple, ...]]]]:
    return [(element.time, [element.triples]) for element in elements]


@pytest.mark.parametrize("small", [2_000, 3])
@examples(15)
@given(st.lists(st.sampled_from(sorted({*RULES} - {"Pair"})), min_size=1, unique=True), streams(), st.data())
def test_output_equals_one_engine_for_any_numbers_of_buckets(
    small: int, names: list[str], elements: list[Element], data: st.DataObject
) -> None:
    """A bucket of at most `small` events is one text; a larger one has logs."""
    rules = with_clock([RULES[name][0] for name in [*names, *(["Pair"] if "Jump" in names else [])]])
    spec = ProgramSpec((Document("rules.dotr", HEADER + "\n".join(rules)),))
    instants = by_time(elements)
    cuts = sorted(data.draw(st.lists(st.integers(1, len(instants) - 1), max_size=3, unique=True)))
    widths = data.draw(st.lists(st.integers(1, 4), min_size=len(cuts) + 1, max_size=len(cuts) + 1))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bucket_state, "SMALL", small)
        assert through(spec, instants, cuts, widths, data.draw(st.integers(0, 9))) == expected(spec, instants)


PAGED = """PREFIX : <http://e/>
query Reading = [ SELECT ?room ?v WHERE { ?r :room ?room ; :value ?v } ]
rule Eaten define Eaten = [ dotr_id1 :room ?room ; :v ?v ] from Reading as Now
and each Reading as Old [ FILTER(?room = Now.?room && ?v < Now.?v) ] within 90 s from Now
with Eaten.?room = Now.?room, Eaten.?v = Old.?v consuming Old
rule Later define Later = [ [] :room ?room ; :v ?v ] from Eaten
and last Eaten as Before [ FILTER(?room = Eaten.?room) ] within [1 s, 90 s] from Eaten
with Later.?room = Eaten.?room, Later.?v = Before.?v
"""


STANDING = """PREFIX : <http://e/>
query Reading = [ SELECT ?room ?v WHERE { ?r :room ?room ; :value ?v } ]
rule Was define Was = [ dotr_id1 :room ?room ; :v ?v ] from Reading as Now
and last Reading as Old [ FILTER(?room = Now.?room) ] before Now
and also last Reading as Low [ FILTER(?room = Now.?room && ?v < 9) ] within 200 s from Now
and not Reading as Top [ FILTER(?room = Now.?room && ?v > 21) ] before Now
with Was.?room = Now.?room, Was.?v = Old.?v, Was.?low = Low.?v
rule Again define Again = [ [] :room ?room ; :v ?v ] from Was
and last Was as Then [ FILTER(?room = Was.?room) ] before Was
with Again.?room = Was.?room, Again.?v = Then.?v
rule Eaten define Eaten = [ dotr_id1 :room ?room ; :v ?v ] from Reading as Now
and each Reading as Old [ FILTER(?room = Now.?room && ?v < Now.?v) ] within 3 s from Now
with Eaten.?room = Now.?room, Eaten.?v = Old.?v consuming Old
"""


@pytest.mark.parametrize(("rules", "unpaged"), [(PAGED, 64), (STANDING, 32), (STANDING, 10_000)])
def test_state_in_logs_and_pages_moves_between_buckets(rules: str, unpaged: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bucket_state, "SMALL", 8)
    monkeypatch.setattr(bucket_state, "REWRITE", 2)
    monkeypatch.setattr(paged_state, "MAX_UNPAGED", unpaged)
    integer = "<http://www.w3.org/2001/XMLSchema#integer>"
    instants: Instants = []
    for now in range(300):
        rooms = [(f"_:{n}", "<http://e/room>", f"<http://e/r{(now * 7 + n) % 11}>") for n in range(3)]
        values = [(f"_:{n}", "<http://e/value>", f'"{(now * 5 + n) % 23}"^^{integer}') for n in range(3)]
        instants = [*instants, (now * 1_000_000, [(*rooms, *values)])]
    spec = ProgramSpec((Document("rules.dotr", rules),))
    found = expected(spec, instants)
    assert len({firing.rule for firing in found}) == rules.count("\nrule ")
    assert through(spec, instants, [100, 110, 200, 250], [1, 3, 1, 2, 5]) == found
    assert through(spec, instants, list(range(20, 300, 20)), [2] * 15) == found


def test_state_of_epsparql_units_moves_between_buckets() -> None:
    instants = unit_instants()
    for cuts, widths in (([10, 20], [1, 3, 1]), ([3, 12, 13, 25], [2, 5, 1, 4, 2])):
        assert through(UNITS, instants, cuts, widths) == expected(UNITS, instants), widths


@pytest.mark.parametrize("seed", range(3))
def test_state_of_lars_files_moves_between_buckets(seed: int, tmp_path: Path) -> None:
    """Runs, counts, windows of points, and input whose point is not evaluated yet; a relation of facts is in the first bucket."""
    spec, instants = lars_spec(tmp_path), lars_instants(seed)
    whole = expected(spec, instants)
    for cuts, widths in (([20, 21, 40], [1, 3, 2, 1]), ([1, 15, 33, 59], [2, 5, 1, 4, 3])):
        assert through(spec, instants, cuts, widths, seed) == whole, (cuts, widths)


@pytest.mark.parametrize("seed", range(6))
def test_state_of_queries_moves_between_buckets(seed: int, tmp_path: Path) -> None:
    spec, instants = query_spec(seed, str(tmp_path / "kb.ttl"))
    whole = sorted(by_one_engine(spec, instants), key=output_order)
    for cuts, widths in (([8, 9, 16], [1, 3, 2, 1]), ([3, 12, 20], [2, 5, 1, 4])):
        assert through(spec, instants, cuts, widths, seed) == whole, (cuts, widths, spec.rules[0].text)


@pytest.mark.parametrize("seed", range(6))
def test_state_moves_twice_without_a_batch(seed: int, tmp_path: Path) -> None:
    """The second move divides and unites what no bucket has read yet."""
    of_queries = query_spec(seed, str(tmp_path / "kb.ttl"))
    for spec, instants in ((UNITS, unit_instants()), (lars_spec(tmp_path), lars_instants(seed)), of_queries):
        whole = sorted(by_one_engine(spec, instants), key=output_order)
        assert through(spec, instants, [11, 11, 11, 20], [1, 3, 2, 3, 1], seed) == whole, spec.rules[0].text
