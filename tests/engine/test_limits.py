"""Limits of work, on both runtimes: an instant over a limit is a dead letter with the name of the
query, and the stream continues.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from dotr.api.session import Session
from dotr.engine.spec import ProgramSpec
from dotr.errors.diagnostics import Refused
from dotr.evaluation.codegen.tree import Block
from dotr.evaluation.joins.compile import JoinWriter
from dotr.evaluation.limits import LimitExceeded, Limits
from dotr.evaluation.triples.index import TripleIndex
from dotr.instant.datalog.background.knowledge import Knowledge
from dotr.instant.queries import QueryPlan, join_groups, plan
from dotr.instant.stage_one import StageOne
from dotr.languages.programs import compile_program, fingerprint
from dotr.model.places import Document, Span
from dotr.model.rules import FactSource
from dotr.model.stream import Instant, Reason
from dotr.model.terms import Triple, iri
from dotr.runtimes.local.run import run_local
from dotr.runtimes.pipeline.build import build
from dotr.runtimes.pipeline.config import read_config
from dotr.syntax.sparql import parse_select
from tests.engine.test_fault_isolation import run_like_spark, run_on_both
from tests.support.default_limits import defaults_exceeded

pytestmark = pytest.mark.core

RULES = """
PREFIX : <http://e/>
rule Pairs define Pair = [ [] :n ?n ] from Both = [ SELECT ?x ?y WHERE { ?x :a ?v . ?y :b ?w } ] with Pair.?n = Both.?x
rule One define One = [ [] :n ?n ] from A = [ SELECT ?x WHERE { ?x :a ?v } ] with One.?n = A.?x
"""


def made(query: str, background: Sequence[Triple] = (), limits: Limits | None = None) -> QueryPlan:
    text = f"PREFIX : <http://e/> {query}"
    return plan(parse_select(Span(Document("q", text), 0, len(text)), {}), TripleIndex(background), limits=limits)


def n(name: str) -> str:
    return iri(f"http://e/{name}")


def crossed(size: int) -> TripleIndex:
    return TripleIndex(
        [(n(f"x{i}"), n("a"), n(f"v{i}")) for i in range(size)]
        + [(n(f"y{i}"), n("b"), n(f"w{i}")) for i in range(size)]
        + [(n(f"y{i}"), n("in"), n("room")) for i in range(size)]
    )


EXPLOSIVE = [
    "SELECT ?x ?y { ?x :a ?v . ?y :b ?w }",
    "SELECT ?x ?y { ?y :b ?w . ?x :a ?v FILTER(?v = ?w) }",
    "SELECT ?x ?y { ?x :in ?room . ?y :in ?room }",
    "SELECT ?x ?y { ?x :in ?room . ?y :in ?room FILTER(STR(?x) = STR(?y) && ?x != ?y) }",
    "SELECT ?x ?y { ?x :in :room . ?y :in :room FILTER(CONCAT(STR(?x), STR(?y)) = 'no') }",
    "SELECT ?x ?y { ?x :a ?v OPTIONAL { ?y :b ?w } }",
    "SELECT ?x { ?x :a ?v FILTER EXISTS { ?y :b ?w FILTER(?w = ?v) } }",
    "SELECT ?x { ?x :a ?v FILTER NOT EXISTS { ?y :b ?w FILTER(?w = ?v) } }",
    "SELECT ?x ?y { { ?x :a ?v } { SELECT ?y { ?y :b ?w } LIMIT 100000 } }",
    "SELECT (COUNT(*) AS ?n) { ?x :a ?v . ?y :b ?w }",
    "SELECT ?x ?y { ?x :in/^:in ?y }",
    "SELECT ?x ?y { ?x (:in|^:in)+ ?y }",
    "SELECT ?x { ?x :a ?v . ?y ?p ?z FILTER(?v = ?z) }",
    "SELECT ?x { ?x :a ?v MINUS { ?x :a ?u . ?y :b ?w FILTER(?u = ?w) } }",
    "SELECT ?x ?t { ?x :a ?v . ?y :b ?w VALUES ?t { 1 2 3 } FILTER(?v = ?w && ?t = 4) }",
]


@pytest.mark.parametrize("query", EXPLOSIVE)
def test_a_query_over_a_limit_is_stopped(query: str) -> None:
    """Twenty times the allowed probes or rows, for every way in which queries are evaluated."""
    few, many = crossed(5), crossed(450)
    limits = Limits(rows=10_000, probes=10_000)
    bounded = made(query, limits=limits)
    assert sorted(bounded.answers(few), key=str) == sorted(made(query).answers(few), key=str)
    with pytest.raises(LimitExceeded, match=r"more than 10,000 (rows|triples and rows looked at)"):
        bounded.answers(many)


FIRST_PARTNER = "SELECT ?x { ?x :a ?v MINUS { ?x :a ?u . ?y :b ?w } }"
"""A query with 450 partners for each solution, of which MINUS needs only the first."""


def test_minus_ends_at_the_first_partner() -> None:
    assert made(FIRST_PARTNER, limits=Limits(rows=10_000, probes=10_000)).answers(crossed(450)) == []


@pytest.mark.parametrize("query", EXPLOSIVE[:6])
def test_query_over_a_limit_by_joins_with_the_background_is_stopped(query: str) -> None:
    """A small instant has many joins with the background."""
    background = [(n(f"y{i}"), n(p), n(o)) for i in range(300) for p, o in (("b", "v0"), ("in", "room"), ("a", "v0"))]
    bounded = made(
        query.replace("?x :in", "?z :seen ?x . ?x :in").replace("?x :a", "?z :seen ?x . ?x :a"),
        background,
        Limits(rows=5_000, probes=5_000),
    )
    new = TripleIndex([(n(f"z{i}"), n("seen"), n(f"y{i}")) for i in range(100)])
    with pytest.raises(LimitExceeded):
        bounded.answers(new)
    assert bounded.answers(TripleIndex()) == []


ALONE = [*(query for query in EXPLOSIVE if "NOT EXISTS" not in query), FIRST_PARTNER]


@pytest.mark.parametrize("query", ALONE)
def test_answers_of_the_background_alone_are_limited(query: str) -> None:
    """Over the background a query may have fifty times the probes of an instant, and store ten
    times the rows."""
    few, many = crossed(29), crossed(450)
    limits = Limits(rows=900, probes=600)
    assert made(query, list(few), limits).static == made(query, list(few)).static
    with pytest.raises(LimitExceeded, match=r"more than (900|9,000|30,000) (rows|triples and rows looked at)"):
        made(query, list(many), limits)


def test_the_background_alone_may_have_as_many_answers_as_an_instant() -> None:
    query = "SELECT ?x ?v { ?x :a ?v }"
    assert len(made(query, list(crossed(50)), Limits(rows=50)).static) == 50
    with pytest.raises(LimitExceeded, match="more than 49 rows"):
        made(query, list(crossed(50)), Limits(rows=49))


def test_program_with_static_answers_over_the_limit_is_refused(tmp_path: Path) -> None:
    (tmp_path / "g.nt").write_text("".join(f"{' '.join(triple)} .\n" for triple in crossed(40)))
    spec = ProgramSpec((Document("r.dotr", RULES),), graphs=(str(tmp_path / "g.nt"),), limits=Limits(rows=1_599))
    with pytest.raises(Refused, match="D504 the query of Both has too many answers over the background alone: more than 1,599 rows"):
        compile_program(spec)
    assert compile_program(replace(spec, limits=Limits(rows=1_600)))


def test_errors_distinguish_rows_and_probes() -> None:
    found = crossed(50)
    pairs, none = "SELECT ?x ?y { ?x :a ?v . ?y :b ?w }", "SELECT ?x ?y { ?x :a ?v . ?y :b ?w FILTER(?v = ?w) }"
    assert len(made(pairs, limits=Limits(rows=2_500, probes=10_000)).answers(found)) == 2_500
    with pytest.raises(LimitExceeded, match="more than 2,000 rows"):
        made(pairs, limits=Limits(rows=2_000, probes=10_000)).answers(crossed(90))
    assert made(none, limits=Limits(rows=10, probes=10_000)).answers(found) == []
    with pytest.raises(LimitExceeded, match="more than 1,000 triples and rows looked at"):
        made(none, limits=Limits(rows=10, probes=1_000)).answers(found)


def test_join_of_bounded_cost_has_no_counter() -> None:
    """The join has one loop over the instant's triples; the rest are look-ups without a loop."""
    writers: list[str] = []
    end = JoinWriter.end

    def ended(self: JoinWriter, last: Block = ()) -> None:
        end(self, last)
        writers.append(self.source)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(JoinWriter, "end", ended)
        made("SELECT ?x { ?x :a :v . ?x :b :w }", limits=Limits())
        made("SELECT ?x ?v ?w { ?x :a ?v . ?x :b ?w . ?x :c ?u }", limits=Limits())
    assert "work +=" not in writers[0]
    assert [source.count("work +=") for source in writers] == [0, 1]
    assert made("SELECT ?x { ?x :a ?v }").answers(crossed(3)) == made("SELECT ?x { ?x :a ?v }", limits=Limits()).answers(crossed(3))


def test_group_over_the_limit_is_evaluated_query_by_query() -> None:
    """Queries that exceed a limit together are evaluated separately; only a query that exceeds it
    alone rejects the instant.
    """
    limits = Limits(2_000, 1_000, 3_000)
    texts = [f"PREFIX : <http://e/> SELECT ?x ?y {{ ?x :a ?v . ?y :b ?w FILTER(STR(?x) != '{k}') }}" for k in range(4)]
    selects = [parse_select(Span(Document("q", text), 0, len(text)), {}) for text in texts]
    stage = StageOne(Knowledge.load((), ()), [FactSource(select, ("x", "y"), ("x", "y")) for select in selects], limits=limits)
    (unit,) = join_groups(stage.plans, TripleIndex(), limits)
    with pytest.raises(LimitExceeded):
        unit.evaluate(TripleIndex(), crossed(20), {})
    result = stage.evaluate(Instant(0, tuple(crossed(20))))
    assert {stream: len(rows) for stream, rows in result.facts.items()} == dict.fromkeys(range(4), 400)
    result = stage.evaluate(Instant(0, tuple(crossed(60))))
    assert (result.rejected, result.exceeded, result.over) == (True, "more than 1,000 rows", (0,))


def test_empty_look_ups_are_counted() -> None:
    """Each new triple joins a hub with many members, and the look-up of each member is empty, so
    the inner two loops never run.
    """
    chain = "?x :new ?h . ?h :member ?m . ?m :b ?z . ?z :c ?w . ?w :d ?v"
    text = f"PREFIX : <http://e/> SELECT ?x ?v {{ {chain} }}"
    select = parse_select(Span(Document("q", text), 0, len(text)), {})
    background = [(n("hub"), n("member"), n(f"m{i}")) for i in range(500)]
    background += [(n(f"q{i}"), n(p), n(f"r{i}")) for p in "bcd" for i in range(1_000)]
    stage = StageOne(
        Knowledge.load(background, ()), [FactSource(select, ("v", "x"), ("v", "x"))], limits=Limits(rows=10_000, probes=10_000)
    )
    few, many = ([(n(f"x{i}"), n("new"), n("hub")) for i in range(count)] for count in (5, 200))
    assert not stage.evaluate(Instant(0, tuple(few))).rejected
    assert stage.evaluate(Instant(0, tuple(many))).exceeded == "more than 10,000 triples and rows looked at"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "r.dotr").write_text(RULES)
    write_config("limits: { rows: 1000, probes: 100000 }")
    return tmp_path


def write_config(more: str) -> None:
    Path("c.yaml").write_text(
        f"name: c\nprefixes: {{ '': 'http://e/' }}\nrules: [r.dotr]\ninput: [{{ name: a, format: ndjson, path: a.ndjson }}]\n"
        f"output: [{{ path: out.ndjson }}]\ndead_letter: dead.ndjson\n{more}\n"
    )


def write_stream(*instants: tuple[int, int]) -> None:
    """Write an element for each (time, number of triples of each predicate)."""
    graphs = [(time, " ".join(f":x{i} :a {i} . :y{i} :b {i} ." for i in range(size))) for time, size in instants]
    Path("a.ndjson").write_text("".join(json.dumps({"time": time, "graph": graph}) + "\n" for time, graph in graphs))


def test_instant_over_the_limit_is_a_dead_letter_and_the_stream_continues(folder: Path) -> None:
    write_stream((1, 2), (2, 1), (2, 40), (3, 3))
    events, letters, totals = run_on_both(build(read_config("c.yaml"), fresh=True, on_spark=False))
    assert events == {"1 One": 2, "1 Pairs": 4, "3 One": 3, "3 Pairs": 9}
    assert [(json.loads(letter)["reason"], json.loads(letter)["line"]) for letter in letters] == [("limit", 2), ("limit", 3)]
    assert totals.dead_letters == {Reason.LIMIT: 2}
    assert (totals.elements, totals.instants) == (2, 2)


def test_dead_letter_has_the_name_of_the_query(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    write_stream((1, 40))
    run_local(build(read_config("c.yaml"), fresh=True, on_spark=False), lambda totals: None)
    (message,) = caplog.messages
    assert message == (
        "a.ndjson:1: dead letter (limit): its instant goes over a limit: more than 1,000 rows in the query Both of rule Pairs"
    )


def test_a_closure_over_the_limit_is_a_dead_letter(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    Path("r.dlog").write_text("@prefix : <http://e/> .\n[?x, :near, ?y] :- [?x, :a, ?v], [?y, :b, ?w] .\n")
    write_config("knowledge: { datalog: [r.dlog] }\nlimits: { triples: 500 }")
    write_stream((1, 2), (2, 40), (3, 1))
    _, letters, totals = run_on_both(build(read_config("c.yaml"), fresh=True, on_spark=False))
    assert [json.loads(letter)["line"] for letter in letters] == [2]
    assert totals.dead_letters == {Reason.LIMIT: 1}
    assert caplog.messages[0].endswith("its instant goes over a limit: more than 500 triples in the closure")


@pytest.mark.default_limits
def test_default_limits_that_a_test_exceeds_are_noted() -> None:
    with defaults_exceeded() as reached:
        assert [str(LimitExceeded(limit)) for limit in (20_000, 1_000_000, 50_000_000)]
        Limits().next_check(0, range(1_000_000))
        with pytest.raises(LimitExceeded):
            Limits().next_check(0, range(1_000_001))
    assert reached == ["more than 1,000,000 triples", "more than 1,000,000 rows"]


@pytest.mark.default_limits
def test_cross_product_of_five_thousand_is_stopped(folder: Path) -> None:
    write_config("")
    write_stream((1, 5_000), (2, 1))
    events, rejected, totals = run_like_spark(build(read_config("c.yaml"), fresh=True, on_spark=False))
    assert events == ["2 One", "2 Pairs"]
    assert [letter.why for letter in rejected] == [
        "its instant goes over a limit: more than 1,000,000 rows in the query Both of rule Pairs"
    ]
    assert totals.dead_letters == {Reason.LIMIT: 1}


def test_limits_are_part_of_a_program() -> None:
    spec = ProgramSpec(limits=Limits(5, 6, 7))
    assert ProgramSpec.from_json(spec.to_json()) == spec
    assert fingerprint(spec) != fingerprint(ProgramSpec())


def test_session_warns_of_a_limit_and_continues(caplog: pytest.LogCaptureFixture) -> None:
    spec = ProgramSpec(rules=(Document("r.dotr", RULES),), prefixes={"": "http://e/"}, limits=Limits(rows=100))
    session = Session(compile_program(spec))
    assert session.advance(1, " ".join(f":x{i} :a {i} . :y{i} :b {i} ." for i in range(20))) == []
    assert caplog.messages == ["the instant 1 is left out, it goes over a limit: more than 100 rows in the query Both"]
    assert len(session.advance(2, ":x :a 1 . :y :b 2 .")) == 2


def test_a_rule_over_its_limit_is_a_dead_letter_on_both_runtimes(folder: Path) -> None:
    """Only the anchor fails: other instants, rules and anchors are evaluated."""
    Path("r.dotr").write_text(
        "PREFIX : <http://e/>\nquery A = [ SELECT ?x WHERE { ?x :a ?v } ]\n"
        "rule Many define Many = [ [] :n ?n ] from A and each A as B within [0, 2 s] from A and each A as C within [0, 2 s] from A\n"
        "  with Many.?n = B.?x\n"
        "rule One define One = [ [] :n ?n ] from A with One.?n = A.?x\n"
    )
    write_config("limits: { matches: 6 }")
    write_stream((1, 4), (5, 5), (9, 2), (10, 3))
    events, letters, totals = run_on_both(build(read_config("c.yaml"), fresh=True, on_spark=False))
    assert events == {"1 One": 4, "1 Many": 24, "5 One": 5, "9 One": 2, "10 One": 3}
    written = [json.loads(letter) for letter in letters]
    assert {(x["reason"], x["input"], x["file"], x["line"], x["text"]) for x in written} == {("limit", "rule Many", "r.dotr", 3, "Many")}
    assert sorted((x["time"], x["error"].partition("anchor ")[2]) for x in written) == sorted(
        (time, f'A {{"x": "<http://e/x{i}>"}}: more than 6 matches of a branch, at the clause each C')
        for time, size in ((5, 5), (10, 3))
        for i in range(size)
    )
    assert totals.dead_letters == {Reason.LIMIT: 8}
