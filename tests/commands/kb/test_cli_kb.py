"""`dotr kb`, and runs over a compiled background."""

from __future__ import annotations

import gzip
import re
from pathlib import Path

import pytest

from dotr.evaluation.joins.deltas import Conjunction
from dotr.instant.datalog.background import compiled_cache as cache
from dotr.languages.programs import compile_program
from dotr.runtimes.pipeline.config import read_config
from tests.conftest import Project

pytestmark = pytest.mark.core

KNOWLEDGE = """\
knowledge:
  graphs: [g.ttl]
  datalog: [d.dlog]
  entailment: rdfs
  cache: cache
"""
GRAPH = """\
@prefix : <http://e/> . @prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .
:A rdfs:subClassOf :B . :B rdfs:subClassOf :C . :s a :B . :t a :B .
"""
RULE = """\
PREFIX : <http://e/>
rule R
define Out = [ dotr_id a :Out ; :x ?x ]
from A = [ SELECT ?x WHERE { ?x a :C } ]
with Out.?x = A.?x
"""


@pytest.fixture
def known(project: Project) -> Project:
    """Project with a background that has static answers."""
    project.change("c.yaml", "rules:", KNOWLEDGE + "rules:")
    project.write("g.ttl", GRAPH)
    project.write("d.dlog", "PREFIX : <http://e/>\n:Seen(?x) :- :C(?x) .\n")
    project.write("r.dotr", RULE)
    return project


def stored(project: Project) -> list[Path]:
    return sorted(path for path in (project.folder / "cache").glob("*.dotrkb"))


def test_build_and_info_print_the_summary(known: Project) -> None:
    made = known.dotr("kb", "build", "c.yaml")
    assert made.code == 0
    assert "was read, closed and written" in made.err
    assert "triples    9: 4 loaded, 5 derived" in made.out
    assert re.search(r"rdfs9 +2\n", made.out)
    assert re.search(r"d\.dlog:2 +2\n", made.out)
    assert re.search(r"rdfs11 +1\n", made.out)
    assert re.search(r"^size +.*bytes a triple", made.out, re.MULTILINE)
    assert re.search(r"^time +.* s to read and close", made.out, re.MULTILINE)
    assert "answers    2 of 1 query" in made.out
    again, info = known.dotr("kb", "build", "c.yaml"), known.dotr("kb", "info", "c.yaml")
    assert (again.code, info.code) == (0, 0)
    assert "compiled already" in again.err
    assert [re.sub("time .*", "", text) for text in (made.out, again.out)] == [re.sub("time .*", "", info.out)] * 2
    assert len(stored(known)) == 2  # and the answers of its query
    assert "was read, closed and written" in known.dotr("kb", "build", "c.yaml", "--fresh").err


def test_background_with_negation_and_aggregates_is_compiled(known: Project) -> None:
    rules = ":Quiet(?x) :- :C(?x), NOT :Loud(?x) .\n:n[?c, ?n] :- AGGREGATE(:Quiet(?x), :in[?x, ?c] ON ?c BIND COUNT(?x) AS ?n) .\n"
    known.write("d.dlog", "PREFIX : <http://e/>\n" + rules)
    known.write("g.ttl", GRAPH + ":s :in :hall . :t :in :hall .\n")
    known.write("r.dotr", RULE.replace("?x a :C", "?x a :Quiet"))
    made, info = known.dotr("kb", "build", "c.yaml"), known.dotr("kb", "info", "c.yaml")
    assert (made.code, info.code) == (0, 0)
    assert "was read, closed and written" in made.err
    assert re.search(r"d\.dlog:2 +2\n", made.out)
    assert re.search(r"d\.dlog:3 +1\n", made.out)
    assert "answers    2 of 1 query" in info.out
    known.write("a.ndjson", '{"time": 1, "graph": ":u a :B ."}\n{"time": 2, "graph": ":t a :Loud ."}\n{"time": 3, "graph": ":u a :B ."}\n')
    assert known.dotr("run", "c.yaml").code == 0
    run = (known.folder / "out.ndjson").read_text()
    assert [run.count(f'"x": "<http://e/{name}>"') for name in "stu"] == [3, 2, 2]


def test_info_compiles_a_missing_background(known: Project) -> None:
    assert "not compiled yet" in known.dotr("kb", "info", "c.yaml").err
    assert stored(known)


def test_changed_source_gets_a_new_store(known: Project) -> None:
    known.dotr("kb", "build", "c.yaml")
    known.change("g.ttl", ":t a :B", ":t a :A")
    changed = known.dotr("kb", "build", "c.yaml")
    assert "was read, closed and written" in changed.err
    assert "4 loaded, 6 derived" in changed.out


@pytest.mark.fallbacks("store", "answers")
def test_damaged_store_is_reported_and_rebuilt(known: Project) -> None:
    known.dotr("kb", "build", "c.yaml")
    for path in stored(known):
        path.write_bytes(path.read_bytes()[:-1] + b"x")
    answer = known.dotr("kb", "info", "c.yaml")
    assert answer.code == 0
    assert "K501 warning: the compiled background" in answer.err
    assert "rebuilding it" in answer.err
    assert "K501" not in known.dotr("kb", "info", "c.yaml").err


def test_unwritable_cache_folder_is_reported(known: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    known.write("cache", "in the way")
    answer = known.dotr("kb", "build", "c.yaml")
    assert answer.code == 1
    monkeypatch.setattr(cache, "MIN_BYTES", 0)
    assert "K502" in known.dotr("kb", "build", "c.yaml").err


def test_wrong_configuration_and_sources_are_refused(known: Project) -> None:
    known.write("g.ttl", ":s a")
    assert "K104" in known.refused("kb", "build", "c.yaml")
    known.change("c.yaml", "g.ttl", "h.ttl")
    assert "C301" in known.refused("kb", "info", "c.yaml")
    assert known.dotr("kb").code == 2


@pytest.mark.fallbacks("store", "answers")
@pytest.mark.parametrize("damage", [False, True])
def test_run_over_a_store_gives_the_same_output(known: Project, monkeypatch: pytest.MonkeyPatch, damage: bool) -> None:
    known.write("a.ndjson", "".join(f'{{"time": {t}, "graph": ":n{t} a :A . :s :p {t} ."}}\n' for t in range(1, 6)))
    assert known.dotr("run", "c.yaml", "--quiet").code == 0
    in_memory = known.read("out.ndjson")
    assert in_memory.count("http://e/s>") == 10  # attribute and graph, at every instant
    assert not stored(known)
    monkeypatch.setattr("dotr.runtimes.pipeline.config.Config.cache_policy.__defaults__", (0,))
    for again in range(3):
        if damage and again == 1:
            for path in stored(known):
                path.write_bytes(path.read_bytes()[:5000])
        answer = known.dotr("run", "c.yaml", "--fresh")
        assert answer.code == 0
        assert ("K501" in answer.err) == (damage and again == 1)
        assert known.read("out.ndjson") == in_memory
    assert len(stored(known)) == 2


@pytest.mark.fallbacks("store", "answers")
def test_static_answers_are_computed_once(known: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    first = known.dotr("kb", "build", "c.yaml").out
    found: list[int] = []
    original = Conjunction.static_answers

    def static(part: Conjunction) -> object:
        found.append(1)
        return original(part)

    monkeypatch.setattr(Conjunction, "static_answers", static)
    answers = next(path for path in stored(known) if "-" in path.stem)
    for damage, expected in ((False, 0), (True, 1), (False, 1)):
        if damage:
            answers.write_bytes(answers.read_bytes()[:-3])
        assert re.sub("time .*", "", known.dotr("kb", "info", "c.yaml").out) == re.sub("time .*", "", first)
        assert len(found) == expected
    known.change("r.dotr", "?x a :C", "?x a :B")
    assert "answers    2 of 1 query" in known.dotr("kb", "info", "c.yaml").out
    assert len(found) == 2


def test_hidden_triples_are_not_counted(known: Project) -> None:
    """OWL 2 RL stores lists, chains and reasons of reflexive triples in hidden relations."""
    lists = (
        "@prefix owl: <http://www.w3.org/2002/07/owl#> . :D owl:unionOf (:A :B) . :p owl:propertyChainAxiom (:q :r) . :A owl:sameAs :E ."
    )
    known.write("g.ttl", GRAPH + lists)
    known.change("c.yaml", "entailment: rdfs", "entailment: owl2rl")
    known.write("r.dotr", RULE.replace("?x a :C", "?s ?p ?x"))
    rule_sets = re.compile(r"^triples +([\d,]+): ([\d,]+) loaded, ([\d,]+) derived$", re.MULTILINE)
    info = known.dotr("kb", "info", "c.yaml").out
    found = rule_sets.search(info)
    assert found is not None
    seen, loaded, derived = (int(each.replace(",", "")) for each in found.groups())
    program = compile_program(read_config("c.yaml").program())
    assert seen == loaded + derived == len(list(program.knowledge.background.visible())) < len(program.knowledge.background)
    by_rule = re.findall(r"^  (\S+) +([\d,]+)$", info, re.MULTILINE)
    assert sum(int(count.replace(",", "")) for _, count in by_rule) == derived
    assert not {"reflexive", "list-cell", "list-ends", "list-member", "(unseen)"} & {rule for rule, _ in by_rule}
    assert f"Background: {loaded} triples, and {derived} derived from them once" in known.dotr("explain", "c.yaml").out


def test_byte_order_mark_is_ignored(known: Project) -> None:
    known.write("g.ttl", b"\xef\xbb\xbf" + GRAPH.encode())
    known.write("d.dlog", b"\xef\xbb\xbf" + known.read("d.dlog").encode())
    assert "triples    9: 4 loaded, 5 derived" in known.dotr("kb", "info", "c.yaml").out
    known.write("g.nt.gz", gzip.compress(b"\xef\xbb\xbf<http://e/s> <http://e/p> <http://e/o> .\n"))
    known.change("c.yaml", "[g.ttl]", "[g.ttl, g.nt.gz]")
    assert "triples    10: 5 loaded" in known.dotr("kb", "info", "c.yaml").out
