"""`dotr kb compare`: the rule sets beside owlrl, and the table of the reasons for differences."""

from __future__ import annotations

import re
import sys

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dotr.commands.kb import comparison
from dotr.commands.kb.comparison import DOTR, KNOWN, OWLRL, Difference, compare, value_form
from dotr.instant.datalog.entailment import Entailment, rule_set
from dotr.model.datalog import DatalogRule
from dotr.model.places import Document
from dotr.model.terms import OWL, XSD, Triple
from dotr.syntax.datalog import parse_datalog
from dotr.syntax.turtle.graphs import read_graph
from tests.conftest import Project
from tests.instant.datalog.test_entailment_owlrl import PREFIXES, ontologies
from tests.support.paths import ROOT

ROWS = {row.row for row in KNOWN}


def differences(text: str, entailment: Entailment = Entailment.OWL2RL, instant: str = "") -> list[Difference]:
    return compare(read_graph(text, PREFIXES, 64), read_graph(instant, PREFIXES, 64), [], entailment)


def row_of(found: list[Difference], text: str, by: str = OWLRL) -> str:
    """The reason for a triple, or without a text for the contradiction."""
    triple: tuple[str, ...] = ()
    if text:
        literal, quote, rest = text.rpartition('"')  # of a subject, which Turtle does not have
        ((subject, predicate, value),) = read_graph(f"{':x' if quote else ''}{rest} .", PREFIXES, 64)
        triple = (literal + quote or subject, predicate, value)
    (row,) = (each.row for each in found if each.by == by and each.triple == triple)
    return row


def test_table_has_the_rows_of_the_page() -> None:
    page = (ROOT / "docs" / "entailment.md").read_text(encoding="utf-8")
    table = page[page.index("| owlrl's closure | reason |") :].split("\n\n")[0]
    assert [line.split(" | ")[0].removeprefix("| ") for line in table.splitlines()[2:]] == [row.row for row in KNOWN]


@pytest.mark.parametrize(
    ("text", "triple", "row"),
    [
        (":a :p :b .", ":a owl:sameAs :a", "`x owl:sameAs x` for every term"),
        (":a :p 10 .", "xsd:integer a rdfs:Datatype", "types, subsumption and disjointness of datatypes"),
        (":p a owl:ObjectProperty .", ":p rdfs:subPropertyOf :p", "other reflexive triples"),
        (":a :p :b .", "owl:Thing a owl:Class", "`owl:Thing` and `owl:Nothing` are classes"),
        (":a :p :b .", "rdfs:label a owl:AnnotationProperty", "`owl:Thing` and `owl:Nothing` are classes"),
        (":p a owl:FunctionalProperty . :q rdfs:subPropertyOf :p . :a :p 2 ; :q 1 .", ":a :q 2", "`10` as integer is copied"),
        (":a owl:sameAs 5 ; :p :b . :c owl:sameAs 5 .", ":c :p :b", "`10` as integer is copied"),
        (":C owl:onProperty :p ; owl:someValuesFrom xsd:int . :a :p 'no'^^xsd:int .", ":a a :C", "types, subsumption"),
        (":q a owl:FunctionalProperty . :a :q 7, :b . :c :p :b .", ":c :p 7", "`10` as integer is copied"),
        (':p rdfs:range :C . :a :p "x" .', '"x" a :C', "triples with literals as subjects"),
    ],
)
def test_difference_has_the_row_that_says_why(text: str, triple: str, row: str) -> None:
    found = differences(text)
    assert row_of(found, triple).startswith(row)
    assert {each.row for each in found} <= ROWS


@pytest.mark.parametrize(
    "text",
    [
        ":R owl:onProperty :p ; owl:maxCardinality 1 . :a a :R ; :p :b, :c . :b :q :d .",
        ":R owl:onProperty :p ; owl:maxCardinality 0 . :a a :R ; :p :b .",
        ':p rdfs:range :C . :a :p "x" ; :q "x" . :R owl:onProperty :q ; owl:someValuesFrom :C .',
        ":R owl:onProperty [ owl:inverseOf :p ] ; owl:someValuesFrom :C . :a a :C ; :p :b .",
    ],
)
def test_cardinalities_literals_and_inverses_count_for_both(text: str) -> None:
    """No plain triple of the data's names is derived by only one of the two."""
    names = [each for each in differences(text) if PREFIXES[""] in each.triple[0] + each.triple[2] and each.triple[0][0] != '"']
    assert not [each for each in names if each.triple[1] != f"<{OWL}sameAs>" and each.triple[0] != each.triple[2]]


def test_rdfs_is_compared_with_rdfs() -> None:
    found = differences(":A rdfs:subClassOf :B . :a a :A .", Entailment.RDFS)
    assert row_of(found, ":a a rdfs:Resource").startswith("rdfs1, rdfs4a")
    assert {each.by for each in found} == {OWLRL}
    assert {each.row for each in found} <= ROWS


def test_contradiction_of_one_of_the_two_has_a_row() -> None:
    last = "[] a owl:AllDifferent ; owl:members ( :a :b ) . :a owl:sameAs :b ."
    assert row_of(differences(last), "", DOTR).startswith("the last member of `owl:AllDifferent`")
    wrong = f'"-1"^^<{XSD}nonNegativeInteger>'
    assert row_of(differences(f":a :p {wrong} ."), "").startswith("types, subsumption")
    values = ":p a owl:FunctionalProperty . :a :p 1, 2 ."
    assert row_of(differences(values), "", DOTR).startswith("two different values of a functional property")
    types = ":C owl:oneOf ( 4 ) ; rdfs:subClassOf xsd:string . :a :p 'x' ."
    assert row_of(differences(types), "").startswith("types, subsumption")
    twice = "[] a owl:AllDifferent ; owl:members ( :a :b :a :c ) . :p a owl:FunctionalProperty . :p :q 5 ."
    assert row_of(differences(twice), "", DOTR).startswith("a member that `owl:AllDifferent` lists twice")
    both = differences(":A owl:disjointWith :B . :a a :A, :B .")
    assert not [each for each in both if not each.triple]


def test_literals_are_compared_by_value() -> None:
    assert not [each for each in differences(":p a owl:SymmetricProperty . :a :q 05, 5.0, 5, 5e0 .") if ":q" in each.triple[1]]
    written = [("05", "byte"), ("5.0", "decimal"), ("5e0", "double")]
    integer, decimal, double = (value_form(f'"{text}"^^<{XSD}{name}>') for text, name in written)
    assert integer == decimal != double
    zone, other = (value_form(f'"2024-01-01T0{text}"^^<{XSD}dateTime>') for text in ("1:00:00Z", "2:00:00+01:00"))
    assert zone != other


def test_type_of_a_literal_by_its_value_is_dotrs() -> None:
    """Owlrl knows the datatype of a literal, and those above it."""
    some = ":C owl:onProperty :p ; owl:someValuesFrom xsd:short . :C rdfs:subClassOf :D . :D owl:disjointWith :E . :x :p 9 . :x a :E ."
    found = differences(some)
    for triple in (":x a :C", ":x a :D", ""):
        assert row_of(found, triple, DOTR).startswith("a literal has its own datatype")
    assert {each.row for each in found} <= ROWS


def test_each_row_of_a_contradiction_is_told() -> None:
    several = ":p a owl:FunctionalProperty . :a :p 1, 2 . [] a owl:AllDisjointProperties ; owl:members ( :q :r ) . :a :q :b ; :r :b ."
    rows = {each.row for each in differences(several) if not each.triple}
    assert {row.split()[0] for row in rows} == {"two", "the"}


def test_constraint_of_the_program_is_no_difference() -> None:
    constraint = parse_datalog(Document("own.dlog", "false :- :B(?x) ."), {"": "http://e/"})
    found = compare(read_graph(":a a :B .", PREFIXES, 64), [], constraint, Entailment.OWL2RL)
    assert all(each.triple for each in found)


@settings(max_examples=25, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(ontologies(), st.integers(0, 2**20), st.sampled_from([Entailment.OWL2RL, Entailment.RDFS]))
def test_random_ontologies_differ_for_known_reasons_alone(triples: frozenset[Triple], cut: int, entailment: Entailment) -> None:
    instant = [t for number, t in enumerate(sorted(triples)) if cut >> number & 1]
    found = compare(sorted(triples.difference(instant)), instant, [], entailment)
    assert {each.row for each in found} <= ROWS


# --- the command ---

CONFIGURED = "knowledge: { graphs: [g.ttl], datalog: [d.dlog], entailment: owl2rl }\nrules:"
GRAPH = """\
@prefix : <http://e/> . @prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .
:A rdfs:subClassOf :B . :a a :A . :B rdfs:subClassOf :C .
"""


@pytest.fixture
def known(project: Project) -> Project:
    project.change("c.yaml", "rules:", CONFIGURED)
    project.write("g.ttl", GRAPH)
    project.write("d.dlog", "PREFIX : <http://e/>\n:A(?y) :- :by(?x, ?y) .\n:by(:a, :d) .\n:by(:a, ?x) :- :in(?x, ?y) .\n")
    return project


def test_background_and_instant_are_compared(known: Project) -> None:
    background = known.dotr("kb", "compare", "c.yaml")
    assert background.code == 0
    assert re.search(r"only owlrl, \d+: `x owl:sameAs x` for every term\n  .* owl:sameAs ", background.out)
    assert "… " in background.out
    assert "only dotr" not in background.out
    assert "… " not in known.dotr("kb", "compare", "c.yaml", "--all").out
    known.write("a.ndjson", '{"time": 3, "graph": "<http://e/x> a <http://e/A> ."}\n')
    at = known.dotr("kb", "compare", "c.yaml", "--at", "3", "--all")
    assert at.code == 0
    assert "  :x owl:sameAs :x\n" in at.out
    assert ":x owl:sameAs :x" not in known.dotr("kb", "compare", "c.yaml", "--all").out
    assert "C219 there is no instant at 77" in known.refused("kb", "compare", "c.yaml", "--at", "77")


@pytest.mark.parametrize(
    ("left_out", "added", "reported"),
    [
        ("cax-sco", "", "only owlrl, 4: nothing says why\n  :a a :B\n  :a a :C\n  :d a :B\n  :d a :C\n"),
        ("", ":Wrong(?x) :- :B(?x) .", "only dotr, 2: nothing says why\n  :a a :Wrong\n  :d a :Wrong\n"),
        ("", "false :- :B(?x) .", "only dotr, 1: nothing says why\n  a contradiction\n"),
    ],
)
def test_difference_that_nothing_explains_is_shown(
    known: Project, monkeypatch: pytest.MonkeyPatch, left_out: str, added: str, reported: str
) -> None:
    def wrong(entailment: Entailment) -> tuple[DatalogRule, ...]:
        rules = [each for each in rule_set(entailment) if each.name != left_out]
        return (*rules, *parse_datalog(Document("wrong.dlog", added), {"": "http://e/"}))

    monkeypatch.setattr(comparison, "rule_set", wrong)
    answer = known.dotr("kb", "compare", "c.yaml")
    assert answer.code == 1
    assert answer.out.endswith(reported)


def test_what_cannot_be_compared_is_refused(known: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    none = known.refused("kb", "compare", "c.yaml", "--set", "knowledge.entailment=none")
    assert none == "C267 there is nothing to compare: no entailment is configured\nWrite knowledge: { entailment: owl2rl }, or rdfs.\n"
    monkeypatch.setattr(comparison, "MOST", 2)
    assert known.refused("kb", "compare", "c.yaml").startswith("C267 3 triples are too many to compare")
    monkeypatch.setattr(comparison, "MOST", 3)
    monkeypatch.setitem(sys.modules, "owlrl", None)
    missing = known.refused("kb", "compare", "c.yaml")
    assert missing == "C226 kb compare needs the Python package owlrl, which is not installed\npip install 'dotr[owlrl]'\n"
