"""The session of `dotr.Program` (interface.md, From Python), and the errors of a program that cannot
be loaded.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import rdflib
from pyoxigraph import Literal, NamedNode

from dotr import Program
from dotr.errors.diagnostics import Refused
from tests.support.paths import ROOT

pytestmark = pytest.mark.core

PREFIX = "@prefix : <http://example.org/building#> . "
HEAT = PREFIX + ":r1 a :Temp ; :has_val 70 ; :is_from_sensor :s1 . :s1 :is_at_location :locA ."
SMOKE = PREFIX + ":r2 a :Smoke ; :is_from_sensor :s2 . :s2 :is_at_location :locB ."
B = "http://example.org/building#"


@pytest.fixture(scope="module")
def program() -> Program:
    return Program.load(rules=[ROOT / "rules/fire.dotr"], graphs=[ROOT / "kb/building.ttl"], datalog=[ROOT / "kb/building.dlog"])


def test_session_returns_the_events_of_the_documentation(program: Program) -> None:
    with program.session() as session:
        assert session.advance(10, HEAT) == []
        (event,) = session.advance(12, SMOKE)
        assert (event.time, event.rule, event.type, event.attributes) == (12, "R", "Fire", {"room": f"<{B}roomA>"})
        first, second = event.graph.split("\n")
        assert first.startswith("<urn:dotr:")
        assert first.endswith(f"<http://www.w3.org/1999/02/22-rdf-syntax-ns#type> <{B}Fire> .")
        assert second.endswith(f"<{B}at_room> <{B}roomA> .")
        assert session.advance(20) == []
        assert session.finish() == []


def test_sessions_of_one_program_are_independent(program: Program) -> None:
    one, other = program.session(), program.session()
    one.advance(10, HEAT)
    assert other.advance(12, SMOKE) == []
    assert len(one.advance(12, SMOKE)) == 1


def test_instant_of_several_graphs_is_their_merge(program: Program) -> None:
    with program.session() as session:
        assert session.advance(10, HEAT, "", PREFIX + ":r7 a :Temp .") == []
        assert len(session.advance(12, SMOKE, SMOKE)) == 1


@pytest.mark.parametrize("time", [12, 11, -1])
def test_time_not_after_the_last_raises(program: Program, time: int) -> None:
    with program.session() as session:
        session.advance(12)
        with pytest.raises(ValueError, match=r"is not after 12"):
            session.advance(time, SMOKE)
        assert session.advance(13, SMOKE) == []


@pytest.mark.parametrize("time", [12.5, "12", None, True, 1 << 62])
def test_value_that_is_not_a_time_raises(program: Program, time: int) -> None:
    with pytest.raises(ValueError, match=r"no time"):
        program.session().advance(time)


def test_refused_graph_leaves_the_session_unchanged(program: Program) -> None:
    with program.session() as session:
        session.advance(10, HEAT)
        with pytest.raises(ValueError, match="prefix"):
            session.advance(12, "ex:a a ex:B .")
        assert len(session.advance(12, SMOKE)) == 1


def test_finished_session_raises(program: Program) -> None:
    with program.session() as session:
        session.finish()
        with pytest.raises(ValueError, match="finished"):
            session.advance(1)
    with program.session() as left:
        pass
    with pytest.raises(ValueError, match="finished"):
        left.advance(1)


def test_triples_of_text_and_of_libraries_are_read(program: Program) -> None:
    kind = "http://www.w3.org/1999/02/22-rdf-syntax-ns#type"
    texts = [
        (f"<{B}r1>", f"<{kind}>", f"<{B}Temp>"),
        (f"<{B}r1>", f"<{B}is_from_sensor>", "_:s"),
        ("_:s", f"<{B}is_at_location>", f"<{B}locA>"),
    ]
    value = (NamedNode(B + "r1"), NamedNode(B + "has_val"), Literal(70))
    graph = rdflib.Graph().parse(data=SMOKE)
    with program.session() as session:
        session.advance(10, [*texts, value])
        assert len(session.advance(12, graph)) == 1


@pytest.mark.parametrize("triple", [("a", "b", "c"), ("<a:b>", "<a:b>"), ('"x"', "<a:b>", "<a:b>"), ("<a:b>", "<a:b>", "")])
def test_malformed_triple_raises(program: Program, triple: tuple[str, ...]) -> None:
    with pytest.raises(ValueError, match="no triple in N-Triples"):
        program.session().advance(1, [triple])


def test_what_is_no_triple_is_told(program: Program) -> None:
    with pytest.raises(ValueError, match="None is no triple"):
        program.session().advance(1, [None])  # type: ignore[list-item]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"tables": {"path": "a.csv", "format": "csv", "map": "[] :a {a} ."}}, "C203 knowledge.tables should be a list"),
        ({"tables": "a.csv"}, "C203 knowledge.tables should be a list"),
        ({"tables": ["a.csv"]}, "C203 knowledge.tables.0 should be a mapping"),
        ({"imports": ["a.ttl"]}, "C203 knowledge.imports should be a mapping"),
        ({"text": 7}, "C203 text should be text, not 7"),
        ({"text": [None]}, "C203 text should be text, not None"),
    ],
)
def test_arguments_of_another_kind_are_refused_by_name(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(Refused, match=re.escape(message)):
        Program.load(**{"text": "", **arguments})


def test_session_uses_prefixes_and_unit_of_its_program() -> None:
    from dotr.model.time import Unit

    program = Program.load(
        rules=[ROOT / "rules/fire.dotr"],
        graphs=[ROOT / "kb/building.ttl"],
        datalog=[ROOT / "kb/building.dlog"],
        prefixes={"": B},
        unit=Unit.MINUTE,
    )
    with program.session() as session:
        session.advance(10, HEAT.removeprefix(PREFIX))
        (event,) = session.advance(15, SMOKE.removeprefix(PREFIX))
        assert event.time == 15
        session.advance(16, HEAT.removeprefix(PREFIX))
        assert session.advance(22, SMOKE.removeprefix(PREFIX)) == []


def test_program_that_cannot_be_loaded_reports_all_diagnostics(tmp_path: Path) -> None:
    (tmp_path / "bad.dotr").write_text("rule R define", encoding="utf-8")
    (tmp_path / "bad.ttl").write_text("<a> <b>", encoding="utf-8")
    with pytest.raises(Refused) as refused:
        Program.load(rules=[tmp_path / "bad.dotr"], graphs=[tmp_path / "bad.ttl", tmp_path / "none.ttl"])
    assert [d.code[0] for d in refused.value.diagnostics] == ["D", "K", "K"]
    with pytest.raises(Refused, match="cannot read"):
        Program.load(rules=[tmp_path / "none.dotr"])


def test_inconsistent_instants(tmp_path: Path) -> None:
    (tmp_path / "g.ttl").write_text(PREFIX + ":Temp <http://www.w3.org/2002/07/owl#disjointWith> :Smoke .")
    for inconsistent, found in (("report", 1), ("reject", 0)):
        program = Program.load(
            rules=[ROOT / "rules/fire.dotr"],
            graphs=[ROOT / "kb/building.ttl", tmp_path / "g.ttl"],
            datalog=[ROOT / "kb/building.dlog"],
            entailment="owl2rl",
            inconsistent=inconsistent,
        )
        with program.session() as session:
            session.advance(10, HEAT + " :r1 a :Smoke .")
            (clash,) = session.inconsistencies
            assert clash.rule == "cax-dw"
            assert [origin.value for _, origin in clash.premises] == ["background", "instant", "instant"]
            assert len(session.advance(12, SMOKE)) == found
            assert session.inconsistencies == ()
