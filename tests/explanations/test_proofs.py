"""Proofs of triples: elements, background triples, and the conditions of Datalog rules."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from dotr.engine.replay import ElementPlace, ReplayedInstant
from dotr.engine.spec import ProgramSpec
from dotr.explanations.evidence.proofs import (
    AggregatedGroup,
    BackgroundTriple,
    ContradictionProof,
    DerivedTriple,
    InstantProofs,
    RuleCondition,
    StatedTriple,
    TripleProof,
    UnmatchedAtoms,
    program_rules,
)
from dotr.instant.datalog.entailment import Entailment
from dotr.instant.queries.evidence import ComputedTerm, HeldFilter
from dotr.languages.programs import compile_program
from dotr.model.algebra import Const, TriplePattern
from dotr.model.places import Document
from dotr.model.terms import OWL, RDF_TYPE, RDFS, Triple
from dotr.syntax.rendering import expression_text, term_text
from dotr.syntax.turtle.graphs import read_turtle

pytestmark = pytest.mark.core
PREFIXES = {"": "http://e/", "rdfs": RDFS, "owl": OWL}
HEADER = "".join(f"PREFIX {prefix}: <{namespace}>\n" for prefix, namespace in PREFIXES.items())


def triples(text: str) -> tuple[Triple, ...]:
    return tuple(read_turtle(f"{HEADER}{text} .", f"{text} ."))


def proofs_at(
    folder: Path, elements: list[str], graph: str = "", datalog: str = "", entailment: Entailment = Entailment.NONE
) -> InstantProofs:
    """Proofs of an instant of these elements, which are the lines of `s.ndjson`."""
    (folder / "kb.ttl").write_text(HEADER + graph)
    spec = ProgramSpec(datalog=(Document("kb.dlog", datalog),), graphs=(str(folder / "kb.ttl"),), entailment=entailment, prefixes=PREFIXES)
    program = compile_program(spec)
    places = [ElementPlace("s.ndjson", number) for number in range(1, len(elements) + 1)]
    return InstantProofs(program, ReplayedInstant(0, [triples(each) for each in elements], places), program_rules(program))


def outline(proof: TripleProof | ContradictionProof | None, depth: int = 0) -> Iterator[str]:
    """The proof as indented lines: a triple, and where it is from."""
    assert proof is not None
    indent = "  " * depth
    match proof:
        case StatedTriple(triple, place):
            yield f"{indent}{written(triple)} | {place}"
        case BackgroundTriple(triple):
            yield f"{indent}{written(triple)} | background"
        case DerivedTriple(triple, rule, premises, conditions):
            yield f"{indent}{written(triple)} | {rule.name}"
            yield from (line for premise in premises for line in outline(premise, depth + 1))
            yield from (f"{indent}  {condition_text(each)}" for each in conditions)
        case ContradictionProof(rule, premises):
            yield f"{indent}false | {rule.name}"
            yield from (line for premise in premises for line in outline(premise, depth + 1))


def written(triple: Triple | TriplePattern) -> str:
    if isinstance(triple, TriplePattern):
        slots = (triple.subject, triple.predicate, triple.object)
        return " ".join(term_text(slot.term, PREFIXES) if isinstance(slot, Const) else f"?{slot.name}" for slot in slots)
    return " ".join(term_text(term, PREFIXES) for term in triple)


def condition_text(condition: RuleCondition) -> str:
    match condition:
        case HeldFilter(expression, bindings):
            return f"FILTER {expression_text(expression, PREFIXES)} {sorted(bindings)}"
        case ComputedTerm(variable, expression, term):
            return f"?{variable} = {term_text(term, PREFIXES)}: {expression_text(expression, PREFIXES)}"
        case UnmatchedAtoms(atoms):
            return f"NOT {', '.join(map(written, atoms))}"
        case AggregatedGroup(keys, results, members):
            return f"{sorted(keys)} {results[0][0]} = {term_text(results[0][2], PREFIXES)} of {len(members)}"


def stated(proof: DerivedTriple) -> list[StatedTriple]:
    return [premise for premise in proof.premises if isinstance(premise, StatedTriple)]


def check(proofs: InstantProofs, triple: str, expected: str) -> None:
    assert "\n".join(outline(proofs.proof(triples(triple)[0]))) == expected.strip("\n")


def test_a_rule_joins_an_element_with_the_background(tmp_path: Path) -> None:
    proofs = proofs_at(
        tmp_path, [":x :p 1", ":m :by :g1"], ":g1 :mountedIn :lab .", "\n:in(?reading, ?room) :- :by(?reading, ?s), :mountedIn(?s, ?room) ."
    )
    check(
        proofs,
        ":m :in :lab",
        """
:m :in :lab | kb.dlog:2
  :m :by :g1 | s.ndjson:2
  :g1 :mountedIn :lab | background""",
    )
    assert [(each.triple, each.rule.name, each.height) for each in proofs.derived()] == [(*triples(":m :in :lab"), "kb.dlog:2", 1)]
    assert proofs.proof(triples(":m :in :attic")[0]) is None


def test_the_proof_of_least_height_is_kept(tmp_path: Path) -> None:
    datalog = ":b(?x, ?y) :- :a(?x, ?y) .\n:c(?x, ?y) :- :b(?x, ?y) .\n:c(?x, ?y) :- :a(?x, ?y) ."
    check(proofs_at(tmp_path, [":x :a 1"], "", datalog), ":x :c 1", ":x :c 1 | kb.dlog:3\n  :x :a 1 | s.ndjson:1")


def test_rows_of_a_rule_set_have_their_names(tmp_path: Path) -> None:
    proofs = proofs_at(
        tmp_path, [":t9 a :Thermometer"], ":Thermometer rdfs:subClassOf :Sensor . :Sensor rdfs:subClassOf :Device .", "", Entailment.OWL2RL
    )
    check(
        proofs,
        ":t9 a :Device",
        """
:t9 <http://www.w3.org/1999/02/22-rdf-syntax-ns#type> :Device | cax-sco
  :Thermometer rdfs:subClassOf :Device | background
  :t9 <http://www.w3.org/1999/02/22-rdf-syntax-ns#type> :Thermometer | s.ndjson:1""",
    )


def test_equal_names_show_their_chain(tmp_path: Path) -> None:
    proofs = proofs_at(tmp_path, [":a owl:sameAs :b", ":b owl:sameAs :c . :a :v 1"], "", "", Entailment.OWL2RL)
    check(
        proofs,
        ":c :v 1",
        """
:c :v 1 | eq-rep-s
  :a owl:sameAs :c | eq-trans
    :a owl:sameAs :b | s.ndjson:1
    :b owl:sameAs :c | s.ndjson:2
  :a :v 1 | s.ndjson:2""",
    )


def test_negation_aggregate_bind_and_filter_show_their_values(tmp_path: Path) -> None:
    datalog = """
:free(?room, ?area) :- :Room(?room), :side(?room, ?a), BIND(?a * ?a AS ?area), FILTER(?area > 3), NOT(:in(?p, ?room), :awake(?p, ?y)) .
:crowd(?room, ?n) :- :Room(?room), AGGREGATE(:in(?p, ?room) ON ?room BIND COUNT(?p) AS ?n) ."""
    proofs = proofs_at(tmp_path, [":p :in :r . :q :in :r . :r :side 2"], ":r a :Room .", datalog)
    check(
        proofs,
        ":r :free 4",
        """
:r :free 4 | kb.dlog:2
  :r <http://www.w3.org/1999/02/22-rdf-syntax-ns#type> :Room | background
  :r :side 2 | s.ndjson:1
  ?area = 4: ?a * ?a
  FILTER ?area > 3 ['area']
  NOT ?p :in :r, ?p :awake ?y""",
    )
    check(
        proofs,
        ":r :crowd 2",
        """
:r :crowd 2 | kb.dlog:3
  :r <http://www.w3.org/1999/02/22-rdf-syntax-ns#type> :Room | background
  ['room'] n = 2 of 2""",
    )


def test_retracted_triple_has_no_proof_and_its_consequence_has_one(tmp_path: Path) -> None:
    datalog = ":free(?r, :now) :- :Room(?r), NOT :busy(?r, ?p) .\n:open(?r, :now) :- :Room(?r), NOT :free(?r, :now) ."
    proofs = proofs_at(tmp_path, [":r :busy :p"], ":r a :Room .", datalog)
    assert proofs.proof(triples(":r :free :now")[0]) is None
    check(
        proofs,
        ":r :open :now",
        """
:r :open :now | kb.dlog:2
  :r <http://www.w3.org/1999/02/22-rdf-syntax-ns#type> :Room | background
  NOT :r :free :now""",
    )


def test_hidden_premises_are_replaced_by_their_premises(tmp_path: Path) -> None:
    graph = ":uncle owl:propertyChainAxiom (:parent :brother :spouse) ."
    proofs = proofs_at(tmp_path, [":a :parent :b . :b :brother :c . :c :spouse :d"], graph, "", Entailment.OWL2RL)
    lines = list(outline(proofs.proof(triples(":a :uncle :d")[0])))
    assert lines[0] == ":a :uncle :d | prp-spo2"
    assert not any("hidden" in line for line in lines)
    assert [line.strip() for line in lines if "s.ndjson" in line] == [
        ":a :parent :b | s.ndjson:1",
        ":b :brother :c | s.ndjson:1",
        ":c :spouse :d | s.ndjson:1",
    ]
    assert "  :uncle owl:propertyChainAxiom _:g0x0 | background" in lines


def test_a_contradiction_has_a_proof(tmp_path: Path) -> None:
    graph = ":Hot owl:disjointWith :Cold . :Burning rdfs:subClassOf :Hot ."
    proofs = proofs_at(tmp_path, [":r a :Cold", ":r a :Burning"], graph, "", Entailment.OWL2RL)
    (first, *_) = proofs.contradictions()
    kind = "<http://www.w3.org/1999/02/22-rdf-syntax-ns#type>"
    assert list(outline(first)) == [
        "false | cax-dw",
        "  :Hot owl:disjointWith :Cold | background",
        f"  :r {kind} :Hot | cax-sco",
        "    :Burning rdfs:subClassOf :Hot | background",
        f"    :r {kind} :Burning | s.ndjson:2",
        f"  :r {kind} :Cold | s.ndjson:1",
    ]


def test_a_high_proof_needs_no_recursion(tmp_path: Path) -> None:
    links = " . ".join(f":n{number} :link :n{number + 1}" for number in range(3000))
    datalog = ":reach(:n0, ?y) :- :link(:n0, ?y) .\n:reach(:n0, ?z) :- :reach(:n0, ?y), :link(?y, ?z) ."
    proof = proofs_at(tmp_path, [links], "", datalog).proof(triples(":n0 :reach :n3000")[0])
    height = 0
    while isinstance(proof, DerivedTriple):
        proof, height = proof.premises[0], height + 1
    assert height == 3000


def test_blank_nodes_and_triple_terms_are_proved(tmp_path: Path) -> None:
    datalog = ":says(?r, ?t) :- <http://www.w3.org/1999/02/22-rdf-syntax-ns#reifies>(?r, ?t) ."
    proofs = proofs_at(tmp_path, ["[] <http://www.w3.org/1999/02/22-rdf-syntax-ns#reifies> <<( :a :b [] )>>"] * 2, "", datalog)
    found = [proofs.proof(each.triple) for each in proofs.derived()]
    premises = [premise.place for each in found if isinstance(each, DerivedTriple) for premise in stated(each)]
    places = [place.line for place in premises if isinstance(place, ElementPlace)]
    assert sorted(places) == [1, 2]


def test_a_proof_names_generalised_triples(tmp_path: Path) -> None:
    """A step with a blank node as predicate, and one with a literal as subject, which no answer has."""
    graph = (
        ":Part owl:onProperty :back ; owl:someValuesFrom owl:Thing . :back rdfs:subPropertyOf :back . _:i owl:inverseOf :has ; "
        "rdfs:subPropertyOf :back . :Coded owl:onProperty :nr ; owl:someValuesFrom :Code . :nr rdfs:range :Code ."
    )
    proofs = proofs_at(tmp_path, [":pump :has :valve", ":valve :nr 7"], graph, entailment=Entailment.OWL2RL)
    lines = list(outline(proofs.proof(triples(":valve :back :pump")[0])))
    assert lines[0] == ":valve :back :pump | prp-spo1"
    assert [line for line in lines if line.startswith("  :valve _:") and line.endswith(" :pump | prp-inv2")]
    check(
        proofs,
        ":valve a :Coded",
        f"""
:valve {RDF_TYPE} :Coded | cls-svf1
  :Coded owl:someValuesFrom :Code | background
  :Coded owl:onProperty :nr | background
  :valve :nr 7 | s.ndjson:2
  7 {RDF_TYPE} :Code | prp-rng
    :nr rdfs:range :Code | background
    :valve :nr 7 | s.ndjson:2""",
    )


def test_two_values_of_a_functional_property_are_a_contradiction(tmp_path: Path) -> None:
    proofs = proofs_at(tmp_path, [":x :p 1", ":x :p 2, 1.0"], ":p a owl:FunctionalProperty .", entailment=Entailment.OWL2RL)
    rules = {each.rule.name for each in proofs.contradictions()}
    assert rules == {"dt-diff"}
    assert any({written(premise.triple) for premise in stated(each)} == {":x :p 1", ":x :p 2"} for each in proofs.contradictions())  # type: ignore[arg-type]
