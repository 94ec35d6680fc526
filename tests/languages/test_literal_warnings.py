"""Warnings about literals in the background's axioms (K403, K404)."""

from __future__ import annotations

from pathlib import Path

import pytest

from dotr.engine.spec import ProgramSpec
from dotr.instant.datalog.entailment import Entailment
from dotr.languages.programs import compile_program
from dotr.model.places import Document
from dotr.model.stream import InputStream

pytestmark = pytest.mark.core
PREFIXES = "PREFIX : <http://e/>\nPREFIX owl: <http://www.w3.org/2002/07/owl#>\nPREFIX rdfs: <http://www.w3.org/2000/01/rdf-schema#>\n"
PREFIXES += "PREFIX xsd: <http://www.w3.org/2001/XMLSchema#>\n"
RULE = Document("r.dotr", "PREFIX : <http://e/>\nrule R define E = [ [] :x ?x ] from A = [ SELECT ?x WHERE { ?x :p ?y } ] with E.?x = A.?x")
WINDOW = Document(
    "w.rspql",
    "PREFIX : <http://e/>\nREGISTER RSTREAM <Warm> AS\nSELECT ?x FROM NAMED WINDOW <w> ON :in [RANGE 5s STEP 1s]\n"
    "WHERE { WINDOW <w> { ?x :p ?y } }\n",
)
OF_INSTANTS = [
    Document(
        "l.lars",
        "PREFIX : <http://e/>\nRESOLUTION 1 s .\nWarm(?x, ?y) :- :p(?x, ?y) IN [5 s] .\nREPORT Warm(?x, ?y) AS Warm .\n",
    ),
    Document("e.epsparql", "PREFIX : <http://e/>\nREGISTER QUERY Twice AS SELECT ?x WHERE { ?x :p ?y } SEQ { ?x :p ?z } WITHIN 5 s\n"),
]


def warned(folder: Path, graph: str, *documents: Document, entailment: Entailment = Entailment.OWL2RL) -> list[tuple[str, str]]:
    (folder / "kb.ttl").write_text(PREFIXES + graph)
    inputs = (InputStream("in", "http://e/in"),)
    spec = ProgramSpec(documents, graphs=(str(folder / "kb.ttl"),), entailment=entailment, prefixes={"": "http://e/"}, inputs=inputs)
    return [(each.code, each.message) for each in compile_program(spec).warnings if each.code in ("K403", "K404")]


def test_literals_outside_a_range_are_told_once_a_property(tmp_path: Path) -> None:
    graph = ":p rdfs:range xsd:integer . :q rdfs:range xsd:integer . :x :p 'a', 'b', 5 ; :q 7.0, '8'^^xsd:byte ."
    ((code, message),) = warned(tmp_path, graph, RULE)
    assert code == "K404"
    assert "http://e/p" in message
    assert not warned(tmp_path, graph, RULE, entailment=Entailment.RDFS)


def test_functional_data_beside_rules_alone_is_no_warning(tmp_path: Path) -> None:
    assert not warned(tmp_path, ":p a owl:FunctionalProperty, owl:DatatypeProperty .", RULE)


def test_windows_that_merge_functional_data(tmp_path: Path) -> None:
    graph = ":p a owl:FunctionalProperty, owl:DatatypeProperty . :q a owl:FunctionalProperty . "
    found = warned(tmp_path, f"{graph} :r a owl:FunctionalProperty ; rdfs:range xsd:int .", WINDOW)
    assert [(code, message.split()[0]) for code, message in found] == [("K403", "<http://e/p>"), ("K403", "<http://e/r>")]


@pytest.mark.parametrize("document", OF_INSTANTS, ids=lambda document: document.name)
def test_functional_data_in_windows_over_closed_instants_is_no_warning(tmp_path: Path, document: Document) -> None:
    """A window of LARS or EP-SPARQL has the closure of each instant, and is not closed as one graph."""
    assert not warned(tmp_path, ":p a owl:FunctionalProperty, owl:DatatypeProperty .", document)
