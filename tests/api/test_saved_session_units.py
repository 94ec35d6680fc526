"""Saved sessions of programs with continuous queries: restored ones equal uninterrupted ones, and a changed query starts without state."""

from __future__ import annotations

import logging
import tempfile
from pathlib import Path

import pytest
from hypothesis import given

import dotr
from dotr import DotrError
from tests.languages.continuous.test_continuous_random import PREFIXES
from tests.support.properties import examples
from tests.support.strategies_continuous import ContinuousProgram, continuous_programs

QUERIES = """\
PREFIX : <http://example.org/>
REGISTER RSTREAM Hot AS SELECT ?x FROM NAMED WINDOW <w> ON :temp [RANGE 10s STEP 5s] WHERE { WINDOW <w> { ?x :v ?v FILTER(?v > 60) } }
REGISTER ISTREAM :Seen AS CONSTRUCT { ?x a :Seen } FROM WINDOW ON :temp [RANGE 10s STEP 5s] { ?x :v ?v }
REGISTER RSTREAM Count AS SELECT (COUNT(*) AS ?n) FROM NAMED WINDOW <w> ON :Seen [RANGE 20s STEP 5s] WHERE { WINDOW <w> { ?x a :Seen } }
"""
RULES = """\
PREFIX : <http://example.org/>
rule Again define Again = [ [] :of ?x ] from Hot and last Hot as Before [ FILTER(?x = Hot.?x) ] within 10 s from Hot with Again.?x = Hot.?x
"""


def load(folder: Path, queries: str = QUERIES, rules: str = RULES) -> dotr.Program:
    (folder / "q.rspql").write_text(queries)
    (folder / "r.dotr").write_text(rules)
    return dotr.Program.load(rules=[folder / "q.rspql", folder / "r.dotr"], prefixes={"": "http://example.org/"})


def signatures(events: list[dotr.Event]) -> list[tuple[object, str, tuple[tuple[str, str], ...]]]:
    return sorted((event.time, event.type, tuple(sorted(event.attributes.items()))) for event in events)


def fed(program: dotr.Program) -> dotr.Session:
    session = program.session()
    session.advance(1, {":temp": ":a :v 70 ."})
    session.advance(6, {":temp": ":b :v 20 ."})
    return session


def test_a_saved_session_can_be_continued(tmp_path: Path) -> None:
    program = load(tmp_path)
    whole, saved = fed(program), fed(program).save()
    restored = program.restore(saved)
    assert restored.save() == saved
    given = {":temp": ":c :v 80 ."}
    assert signatures(restored.advance(12, given)) == signatures(whole.advance(12, given)) != []
    assert signatures(restored.finish()) == signatures(whole.finish()) != []


def test_a_changed_query_starts_empty_and_its_readers_keep_what_it_made(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    saved = fed(load(tmp_path)).save()
    changed = load(tmp_path, QUERIES.replace("?v > 60", "?v > 65").replace("RSTREAM Hot", "RSTREAM  Hot"))
    with caplog.at_level(logging.WARNING, "dotr"):
        restored = changed.restore(saved)
    assert [record.getMessage() for record in caplog.records] == [
        "query Hot starts empty: it has changed",
    ]
    assert signatures(restored.advance(12)) == [
        (10, "Count", (("n", '"2"^^<http://www.w3.org/2001/XMLSchema#integer>'),)),
        (10, "Seen", ()),
    ]


def test_a_query_that_means_the_same_keeps_its_state(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    saved = fed(load(tmp_path)).save()
    spelt = QUERIES.replace("PREFIX :", "PREFIX e:").replace(" :", " e:").replace("[RANGE 10s STEP 5s]", "[RANGE 10 s SLIDE 5 s]")
    with caplog.at_level(logging.WARNING, "dotr"):
        restored = load(tmp_path, spelt).restore(saved)
    assert not caplog.records
    assert signatures(restored.advance(12)) == signatures(load(tmp_path).restore(saved).advance(12))


def test_damaged_states_are_refused(tmp_path: Path) -> None:
    program = load(tmp_path)
    saved = fed(program).save()
    for wrong in (saved[:-1], saved[: len(saved) // 2], b"dotr session 1 " + saved[15:]):
        if wrong != saved:
            with pytest.raises(DotrError, match="C501"):
                program.restore(wrong)


@given(continuous_programs())
@examples(10)
def test_random_restored_sessions_equal_uninterrupted_ones(random: ContinuousProgram) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder)
        for name, text in (("q.rspql", random.queries), ("r.dotr", random.rules), ("k.dlog", random.datalog)):
            (path / name).write_text(text)
        (path / "k.ttl").write_text("".join(f"@prefix {name}: <{iri}> .\n" for name, iri in PREFIXES.items()) + random.background)
        try:
            rules = [path / "q.rspql", path / "r.dotr"]
            program = dotr.Program.load(rules, path / "k.ttl", path / "k.dlog", prefixes=PREFIXES, entailment=random.entailment, unit="ms")
        except DotrError:
            return
        whole, parted = program.session(), program.session()
        for at in sorted({at for at, _, _ in random.elements}):
            graphs = [{f":{name}": turtle} for time, name, turtle in random.elements if time == at]
            parted = program.restore(parted.save())
            assert signatures(parted.advance(int(at * 1000), *graphs)) == signatures(whole.advance(int(at * 1000), *graphs))
        assert signatures(program.restore(parted.save()).finish()) == signatures(whole.finish())
