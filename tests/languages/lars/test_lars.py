"""LARS files in one process: the tests of the oracle, run by the engine; limits, sessions and
state."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

import tests.oracle.test_lars as page
from dotr.engine.driver import Engine
from dotr.engine.program import CompiledProgram
from dotr.engine.spec import ProgramSpec
from dotr.evaluation.limits import LIMITS, Limits
from dotr.languages.programs import compile_program
from dotr.model.places import Document
from dotr.model.stream import Firing, Reason
from dotr.model.time import Clock
from tests.oracle.cases import read_turtle
from tests.oracle.test_lars import *  # noqa: F403 (each test of the page, here run by the engine)

pytestmark = pytest.mark.core

SECOND = 1_000_000


def compiled(text: str, rules: str = "", limits: Limits = LIMITS, graphs: tuple[str, ...] = ()) -> CompiledProgram:
    documents = [Document("a.lars", text)] + ([Document("r.dotr", rules)] if rules else [])
    spec = ProgramSpec(tuple(documents), (), graphs, prefixes=page.PREFIXES, limits=limits)
    return compile_program(spec)


def steps(engine: Engine, stream: Sequence[tuple[float, str]], *, reloaded: bool = False) -> list[Firing]:
    firings: list[Firing] = []
    for at in dict.fromkeys(at for at, _ in stream):
        graphs = [read_turtle(graph, page.PREFIXES) for time, graph in stream if time == at]
        firings += engine.step(int(at * SECOND), graphs)[0]
        if reloaded:
            engine.reload()
    return firings + [firing for moment in engine.finish() for firing in moment]


def rows_of(firings: Sequence[Firing]) -> list[page.Told]:
    return [(each.time // SECOND, each.event, tuple(page.short(value) for _, value in each.attributes)) for each in firings]


@pytest.fixture(autouse=True, params=["whole", "reloaded"])
def _by_the_engine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    def told(text: str, stream: Sequence[tuple[float, str]], rules: str = "", background: str = "") -> list[page.Told]:
        graphs: tuple[str, ...] = ()
        if background:
            path = tmp_path / "background.ttl"
            path.write_text("".join(f"@prefix {name}: <{iri}> .\n" for name, iri in page.PREFIXES.items()) + background)
            graphs = (str(path),)
        engine = Engine(compiled(text, rules, graphs=graphs), Clock())
        firings = steps(engine, stream, reloaded=request.param == "reloaded")
        assert not engine.failed
        return rows_of(firings)

    monkeypatch.setattr(page, "told", told)


# --- limits ---

PAIRS = (
    ":pair(?x, ?y) :- :p(?x, ?v) IN [2 s], :p(?y, ?w) IN [2 s] . REPORT :pair(?x, ?y) AS Pair . REPORT ENDED :pair(?x, ?y) AS Unpaired ."
)


@pytest.mark.parametrize("reloaded", [False, True])
def test_point_over_the_limit_is_evaluated_without_its_atoms(reloaded: bool) -> None:
    many = " ".join(f":n{n} :p {n} ." for n in range(12))
    stream = [(1, ":a :p 1 . :b :p 1 ."), (2, many), (3, ":c :p 1 ."), (7, "")]
    engine = Engine(compiled(PAIRS, limits=Limits(triples=60)), Clock())
    found = rows_of(steps(engine, stream, reloaded=reloaded))
    without = rows_of(steps(Engine(compiled(PAIRS), Clock()), [stream[0], (2, ""), *stream[2:]]))
    assert found == without
    (letter,) = engine.failed
    assert (letter.reason, letter.input, letter.file, letter.line, letter.text) == (Reason.LIMIT, "rule a.lars", "a.lars", 1, "a.lars")
    assert letter.time == 2 * SECOND
    assert letter.why == "a point of a.lars goes over a limit: more than 60 triples"


@pytest.mark.parametrize("reloaded", [False, True])
def test_runs_and_counts_are_rolled_back_at_a_point_over_the_limit(reloaded: bool) -> None:
    text = PAIRS + (
        " Kept(?x) :- :p(?x, ?v) IN [LAST 2 MATCHING] . REPORT Kept(?x) . REPORT ENDED Kept(?x) AS Left ."
        " Run(?x) :- :p(?x, ?v) ALWAYS IN [1 s] . REPORT Run(?x) ."
    )
    many = ":a :p 1 . " + " ".join(f":n{n} :p {n} ." for n in range(12))
    stream = [(1, ":a :p 1 . :b :p 1 ."), (2, many), (3, ":a :p 1 ."), (4, ":a :p 1 ."), (7, "")]
    engine = Engine(compiled(text, limits=Limits(triples=90)), Clock())
    found = rows_of(steps(engine, stream, reloaded=reloaded))
    assert len(engine.failed) == 1
    assert found == rows_of(steps(Engine(compiled(text), Clock()), [stream[0], (2, ""), *stream[2:]]))


# --- sessions ---


def test_a_session_evaluates_points_up_to_the_time_advanced_to() -> None:
    text = "RESOLUTION 10 s . Q(?x) :- :p(?x, ?v) IN [0] . REPORT Q(?x) ."
    engine = Engine(compiled(text), Clock())
    assert engine.step(3 * SECOND, [read_turtle(":x :p 1 .", page.PREFIXES)])[0] == []
    assert [firing for moment in engine.advance(9 * SECOND) for firing in moment] == []
    assert rows_of([firing for moment in engine.advance(10 * SECOND) for firing in moment]) == [(10, "Q", (":x",))]
    assert engine.step(11 * SECOND, [read_turtle(":y :p 1 .", page.PREFIXES)])[0] == []
    assert rows_of([firing for moment in engine.finish() for firing in moment]) == [(20, "Q", (":y",))]


# --- state ---


def test_size_of_state_is_bounded_by_the_windows() -> None:
    text = "Q(?x) :- :p(?x, ?v) IN [3 s], :q(?x, ?v) AT ?t IN [3 s], :r(?x, ?v) IN [LAST 2 MATCHING] . REPORT Q(?x) ."
    engine = Engine(compiled(text), Clock())
    sizes = []
    for k in range(1, 60):
        engine.step(k * SECOND, [read_turtle(f":x :p 1 . :x :q 1 . :x :r {k} .", page.PREFIXES)])
        sizes.append(len(json.dumps(engine.encode(k * SECOND)[0].decode())))
    assert max(sizes[10:]) <= min(sizes[10:]) + 40


def test_log_has_only_the_last_point_of_an_atom_given_windows_that_need_no_other() -> None:
    text = "Q(?x) :- :p(?x, ?v) IN [9 s], :p(?x, ?v) IN [4 s], :q(?x, ?v) AT ?t IN [5 s], :q(?x, ?v) IN [9 s] . REPORT Q(?x) ."
    engine = Engine(compiled(text), Clock())
    for k in range(1, 21):
        engine.step(k * SECOND, [read_turtle(":x :p 1 . :x :q 1 .", page.PREFIXES)])
    (run,) = engine.unit_runs.values()
    written = [[time // SECOND for time, _, _ in log] for log in run.entries()]
    assert sorted(written) == [[15, 16, 17, 18, 19, 20], [20], [20]]
    assert run.entry_count == 8
    assert sorted(map(len, run.entries(after=18 * SECOND))) == [1, 1, 2]
    assert sorted(time for time in run.oldest() if time is not None) == [15 * SECOND, 20 * SECOND, 20 * SECOND]


# --- reads, and points that are evaluated ---


def test_facts_of_shared_queries_absence_and_facts_at_each_point() -> None:
    rules = (
        "PREFIX : <http://example.org/>\n"
        "query Temp = [ SELECT ?s ?v WHERE { ?s :temp ?v } ]\n"
        "rule A define A = [ ?s a :X ] from Temp with A.?s = Temp.?s\n"
    )
    text = """Q(?s, ?v) :- EVENT Temp(?s, ?v) IN [2 s] . REPORT Q(?s, ?v) . REPORT ENDED Q(?s, ?v) AS Out .
    Two(?s) :- EVENT A(?s) ALWAYS IN [1 s] . REPORT ALL Two(?s) .
    None_ :- NOT EVENT A(?s) IN [3 s] . REPORT None_ .
    Fixed(:a) . Shown(?x, ?t) :- Fixed(?x) AT ?t IN [1 s] . REPORT Shown(?x, ?t) ."""
    found = rows_of(steps(Engine(compiled(text, rules), Clock()), [(1, ":x :temp 1 ."), (2, ":x :temp 1 ."), (9, "")]))
    assert [each for each in found if each[1] not in ("A", "Shown")] == [
        (1, "Q", (":x", "1")),
        (1, "Two", (":x",)),
        (2, "Two", (":x",)),
        (5, "Out", (":x", "1")),
        (6, "None_", ()),
    ]
    assert [each for each in found if each[1] == "Shown"] == [(k, "Shown", (str(k), ":a")) for k in range(1, 10)]


def test_only_points_at_which_something_may_change_are_evaluated() -> None:
    text = "Q(?x) :- :p(?x, ?v) IN [3 s] . REPORT Q(?x) . Hot(?x) AT ?t :- :p(?x, ?v) AT ?t IN [9 s] . H(?x) :- Hot(?x) ALWAYS IN [2 s] ."
    engine = Engine(compiled(text), Clock())
    engine.step(SECOND, [read_turtle(":x :p 1 .", page.PREFIXES)])
    visited = 0
    for _ in engine.moments_until(100_000 * SECOND):
        visited += 1
    assert visited <= 12
