"""Units of EP-SPARQL in a program: parts of events, limits, labels of several languages,
components."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

import dotr
from dotr.api.session import Session
from dotr.commands.check.retained_state import state
from dotr.engine.driver import Engine
from dotr.engine.program import CompiledProgram
from dotr.engine.spec import ProgramSpec
from dotr.engine.unit_runs import UnitContext, engine_unit
from dotr.errors.diagnostics import Refused
from dotr.evaluation.limits import Limits
from dotr.languages.epsparql.component import IntervalComponent
from dotr.languages.programs import compile_program
from dotr.model.places import Document
from dotr.model.stream import Firing, Reason
from dotr.model.terms import literal_parts
from dotr.model.time import Clock
from tests.oracle.cases import read_turtle

pytestmark = pytest.mark.core

S = 1_000_000
IRI = "http://example.org/"
PREFIXES = f"PREFIX : <{IRI}> PREFIX xsd: <http://www.w3.org/2001/XMLSchema#>\n"


def program(units: str, rules: str = "", queries: str = "", limits: Limits | None = None) -> CompiledProgram:
    files = [Document("q.epsparql", PREFIXES + units)]
    files += [Document("r.dotr", PREFIXES + rules)] if rules else []
    files += [Document("w.rspql", PREFIXES + queries)] if queries else []
    return compile_program(ProgramSpec(tuple(files), limits=limits or Limits()))


def shown(firing: Firing) -> str:
    terms = {name: literal_parts(term)[0] if term[0] == '"' else term[1:-1].removeprefix(IRI) for name, term in firing.attributes}
    return " ".join([f"{firing.time / S:g}", firing.event, *(f"{name}={term}" for name, term in sorted(terms.items()))])


def run(compiled: CompiledProgram, stream: str) -> tuple[list[str], Engine]:
    """The events of a stream `1 :a :price 10 | 2 …`, and the engine after the run."""
    engine = Engine(compiled, Clock())
    found: list[str] = []
    for each in map(str.strip, stream.split("|")):
        time, _, graph = each.partition(" ")
        found += map(shown, engine.step(int(time) * S, [read_turtle(graph + " .", {"": IRI})])[0])
        engine.reload()
    for moment in engine.finish():
        found += map(shown, moment)
    return found, engine


SUM = """REGISTER STREAM Sum AS CONSTRUCT { [] :n ?m ; :sum ?t } WHERE { ?x :n ?k ; :sum ?s } SEQ { :a :price ?p }
    BIND(?k + 1 AS ?m) BIND(?s + ?p AS ?t) WITHIN PT1H POLICY RECENT"""


def test_traced_unit_returns_the_parts_of_its_events() -> None:
    compiled = program("REGISTER QUERY Q AS SELECT ?c WHERE { ?c :p ?x } SEQ { { ?c :q ?y } AND { ?c :r ?z } } WITHIN 9 s")
    (placed,) = compiled.layout.units
    run_ = engine_unit(placed.unit).run(UnitContext(compiled.knowledge, (), Clock(), Limits(), 0, traced=True))
    order = [read.span.text for read in placed.unit.reads]
    assert order == ["{ ?c :p ?x }", "{ ?c :q ?y }", "{ ?c :r ?z }"]
    run_.step(1 * S, {0: [(0, ("<c>", '"1"'))]})
    run_.step(3 * S, {2: [(0, ("<c>", '"3"'))]})
    result = run_.step(4 * S, {1: [(0, ("<c>", '"2"'))]})
    ((first, second, third),) = result.parts
    assert [(part.span.text, part.start // S) for part in (first, second, third)] == [(order[0], 1), (order[1], 4), (order[2], 3)]
    assert third.attributes == (("c", "<c>"), ("z", '"3"'))
    assert result.starts == [1 * S]


def test_a_unit_that_reads_its_own_graphs_is_a_component() -> None:
    compiled = program(SUM)
    (placed,) = compiled.layout.units
    assert isinstance(placed.unit, IntervalComponent)
    assert placed.unit.name == "Sum"
    assert run(compiled, "0 :acc :n 0 ; :sum 0 | 1 :a :price 5 | 2 :a :price 7")[0] == ["1 Sum m=1 t=5", "2 Sum m=2 t=12"]


def test_rules_and_units_depend_on_each_other_through_the_past() -> None:
    rules = """query Calm = [ SELECT ?y { ?y a :Calm } ]
        define Fire = [ :x :fired ?n ] from Calm and last Hot within 10 s from Calm with Fire.?n = Hot.?n"""
    units = "REGISTER QUERY Hot AS SELECT ?n WHERE { EVENT Fire SEQ { ?x :hot ?n } } UNION { ?x :first ?n } WITHIN 5 s"
    compiled = program(units, rules)
    assert [placed.unit.name for placed in compiled.layout.units] == ["Fire+Hot"]
    found, _ = run(compiled, "1 :x :first 1 | 2 :y a :Calm | 3 :x :hot 2 | 4 :x :hot 3 | 5 :y a :Calm | 20 :y a :Calm")
    assert found == ["1 Hot n=1", "2 Fire n=1", "3 Hot n=2", "4 Hot n=3", "5 Fire n=3"]


@pytest.mark.parametrize("other", ["and not Hot within (0, 3 s] from Note", ""], ids=["in the cycle", "outside"])
def test_rule_in_a_cycle_reads_events_of_its_label_that_other_rules_make(other: str) -> None:
    rules = f"""query Calm = [ SELECT ?y ?k {{ ?y :calm ?k }} ]
        rule A define Fire = [ :x :fired ?n ]
        from Calm and each Fire as Old within 10 s from Calm and not Hot within (0, 1 s] from Calm with Fire.?n = Calm.?k + Old.?n
        rule B define Fire = [ :x :fired ?n ]
        from Note = [ SELECT ?y ?k {{ ?y :note ?k }} ] {other} with Fire.?n = Note.?k"""
    compiled = program("REGISTER QUERY Hot AS SELECT ?n WHERE EVENT Fire SEQ { ?x :hot ?n } WITHIN 5 s", rules)
    assert [placed.unit.name for placed in compiled.layout.units] == ["A+B+Hot" if other else "A+Hot"]
    found, _ = run(compiled, "1 :x :note 1 | 2 :y :calm 10 | 3 :x :note 2 | 4 :y :calm 100")
    assert found == ["1 Fire n=1", "2 Fire n=11", "3 Fire n=2", "4 Fire n=101", "4 Fire n=102", "4 Fire n=111"]


@pytest.mark.parametrize(
    ("assigned", "is_spread"),
    [
        ("Rise.?room", True),
        ("COALESCE(Rise.?v + 1, 0)", True),
        ('"all"', True),
        ("time(Rise)", True),
        ("sameTerm(Rise.?room, Rise.?v)", True),
        ("Rise.?v + 1", False),
        ("sameTerm(Rise.?v + 1, 2)", False),
    ],
)
def test_attribute_of_an_assignment_without_errors_is_a_key(assigned: str, is_spread: bool) -> None:
    """The second rule reads the event of the first one."""
    rules = f"""define Rise = [ ?room :rose ?v ] from Temp = [ SELECT ?room ?v {{ ?room :temp ?v }} ]
        with Rise.?room = Temp.?room, Rise.?v = Temp.?v
        define High = [ :x :high ?k ] from Rise with High.?k = {assigned}"""
    units = "REGISTER QUERY Q AS SELECT ?k WHERE EVENT High(?k) SEQ { ?x :acknowledged ?k } WITHIN 9 s"
    compiled = program(units, rules)
    assert [placed.is_spread for placed in compiled.layout.units] == [is_spread]


@pytest.mark.parametrize(
    ("query", "is_spread"),
    [
        ("SELECT ?k {window} {{ WINDOW <w> {{ ?k :temp ?v }} }}", True),
        ("SELECT ?k (AVG(?v) AS ?m) {window} {{ WINDOW <w> {{ ?k :temp ?v }} }} GROUP BY ?k", True),
        ("SELECT ?x ?k {window} {{ MATCH {{ EVENT <w> {{ ?x :temp ?k }} }} }}", True),
        ("SELECT ?x ?k {window} {{ WINDOW <w> {{ ?x :temp ?v OPTIONAL {{ ?x :near ?k }} }} }}", False),
        ("SELECT ?x (?v + 1 AS ?k) {window} {{ WINDOW <w> {{ ?x :temp ?v }} }}", False),
    ],
)
def test_an_attribute_that_every_event_of_a_continuous_query_has_is_a_key(query: str, is_spread: bool) -> None:
    queries = "REGISTER RSTREAM <Warm> AS " + query.format(window="FROM NAMED WINDOW <w> ON :in [RANGE 2 s STEP 2 s]")
    units = "REGISTER QUERY Q AS SELECT ?k WHERE EVENT Warm(?k) SEQ { ?k :acknowledged ?y } WITHIN 9 s"
    compiled = program(units, queries=queries)
    assert {placed.unit.name: placed.is_spread for placed in compiled.layout.units}["Q"] == is_spread


DURATIONS = "1 :a :d " + " , ".join(f'"{each}"^^<http://www.w3.org/2001/XMLSchema#duration>' for each in ("PT1M", "PT70S", "PT5S", "P1M"))


@pytest.mark.parametrize(
    ("select", "expected"),
    [
        ("?x WHERE { :a :d ?x , ?y FILTER(?x < ?y) }", ["PT1M", "PT5S", "PT5S"]),
        ('?x WHERE { :a :d ?x FILTER(?x <= "PT60S"^^xsd:duration) }', ["PT1M", "PT5S"]),
        ("?x WHERE { :a :d ?x OPTIONAL { :a :d ?y FILTER(?x < ?y) } FILTER(!BOUND(?y)) }", ["P1M", "PT70S"]),
        ("?x WHERE { :a :d ?x FILTER NOT EXISTS { :a :d ?y FILTER(?x < ?y) } }", ["P1M", "PT70S"]),
        ('?x WHERE { :a :d ?x BIND((?x > "PT10S"^^xsd:duration) AS ?z) FILTER(?z) }', ["PT1M", "PT70S"]),
        ('(SAMPLE(?y) AS ?x) WHERE { :a :d ?y } GROUP BY ?y HAVING(?y > "PT10S"^^xsd:duration)', ["PT1M", "PT70S"]),
        ('?x WHERE { ?b :is ?x FILTER(?x > "PT10S"^^xsd:duration) }', ["PT1M", "PT70S"]),
    ],
)
def test_durations_without_months_are_ordered_by_length_in_plain_groups(select: str, expected: list[str]) -> None:
    units = f"REGISTER STREAM S AS CONSTRUCT {{ ?c :is ?x }} WHERE {{ ?c :d ?x }} REGISTER QUERY Q AS SELECT {select}"
    found, _ = run(program(units), DURATIONS)
    assert [line for line in found if " Q " in line] == [f"1 Q x={each}" for each in expected]


def test_labels_are_read_in_all_languages() -> None:
    units = "REGISTER STREAM Up AS CONSTRUCT { ?c :rose ?q } WHERE { ?c :price ?p } SEQ EVENT Dear(?c, ?q) FILTER(?q > ?p) WITHIN 9 s"
    rules = """define Dear = [ ?c :dear ?q ] from Price = [ SELECT ?c ?q { ?c :price ?q FILTER(?q > 1) } ]
            with Dear.?c = Price.?c, Dear.?q = Price.?q
        define Seen = [ ?c :seen ?q ] from Up with Seen.?c = Up.?c, Seen.?q = Up.?q"""
    queries = "REGISTER RSTREAM <seen> AS SELECT ?c FROM NAMED WINDOW :w ON <Up> [RANGE 5 s STEP 5 s] WHERE { WINDOW :w { ?c :rose ?q } }"
    found, _ = run(program(units, rules, queries), "1 :a :price 1 | 2 :a :price 2 | 9 :a :price 1")
    assert found[:4] == ["2 Dear c=a q=2", "2 Seen c=a q=2", "2 Up c=a q=2", "5 seen c=a"]


def test_a_limit_is_one_dead_letter_of_the_moment() -> None:
    compiled = program("REGISTER QUERY Q AS SELECT ?y WHERE { ?x :p 1 } SEQ { ?y :q 1 } WITHIN 9 s", limits=Limits(rows=3))
    found, engine = run(compiled, "1 :a :p 1 . :b :p 1 | 2 :c :q 1 . :d :q 1 | 3 :c :q 1")
    assert found == ["3 Q y=c"] * 2
    (letter,) = engine.failed
    assert (letter.reason, letter.input, letter.file, letter.line, letter.time, letter.text) == (
        Reason.LIMIT,
        "rule Q",
        "q.epsparql",
        2,
        2 * S,
        "Q",
    )
    assert letter.why == "Q goes over a limit: more than 3 combinations"


@pytest.mark.parametrize(
    ("where", "problem"),
    [("EVENT Missing", "E205 nothing makes events Missing"), ("EVENT Q(?z)", "E206 no event Q can have an attribute ?z")],
)
def test_unknown_label_or_attribute_is_refused(where: str, problem: str) -> None:
    units = f"REGISTER QUERY Q AS SELECT ?y WHERE {{ ?x :p ?y }} REGISTER QUERY R AS SELECT * WHERE {where} AND {{ ?x :p ?y }} WITHIN 1 s"
    with pytest.raises(Refused) as refused:
        program(units)
    assert problem in str(refused.value)


def test_a_cycle_at_one_moment_is_refused() -> None:
    with pytest.raises(Refused, match=r"D404.*a cycle: Q needs Q"):
        program("REGISTER QUERY Q AS SELECT ?y WHERE EVENT Q(?y) AND { ?x :p ?y } WITHIN 9 s")


def test_a_query_of_one_group_has_the_modifiers_of_sparql() -> None:
    compiled = program("REGISTER QUERY Q AS SELECT ?x (COUNT(*) AS ?n) WHERE { ?x :p ?y } GROUP BY ?x ORDER BY DESC(?n) LIMIT 1")
    assert run(compiled, "1 :a :p 1 , 2 . :b :p 1 | 2 :b :p 3")[0] == ["1 Q n=2 x=a", "2 Q n=1 x=b"]


def test_check_prints_the_state_of_operators() -> None:
    units = """REGISTER QUERY Q AS SELECT ?x WHERE { ?x :p ?y } SEQ { ?x :q ?y } AND { ?x :r ?y } WITHIN 10 s"""
    assert str(state("q.epsparql", program(units).rules, program(units).units)) == (
        "State of q.epsparql, bounded by the longest chain of windows:\n"
        "  Q: solutions on the left side of SEQ kept 10 s\n"
        "  Q: solutions on both sides of AND kept 10 s"
    )


def test_restored_session_keeps_the_state_of_unchanged_units(tmp_path: Path) -> None:
    sum_file, two_file = tmp_path / "sum.epsparql", tmp_path / "two.epsparql"
    sum_file.write_text(PREFIXES + SUM)
    two_file.write_text(PREFIXES + "REGISTER QUERY Two AS SELECT ?p ?q WHERE { ?c :price ?p } SEQ { ?c :price ?q } WITHIN 50 s")

    def events(session: Session, second: int) -> list[str]:
        return [event.type for event in session.advance(second, f":a :price {second} .")]

    load = partial(dotr.Program.load, rules=[sum_file, two_file], prefixes={"": IRI})
    with load().session() as session:
        session.advance(0, ":acc :n 0 ; :sum 0 .")
        assert events(session, 1) == ["Sum"]
        saved = session.save()
    assert events(load().restore(saved), 2) == ["Sum", "Two"]
    sum_file.write_text(PREFIXES + SUM.replace("PT1H", "PT2H"))
    assert events(load().restore(saved), 2) == ["Two"]
