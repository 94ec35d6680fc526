"""Peers that close triples; each runs under an interpreter with its package and without dotr."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from importlib import import_module
from pathlib import Path
from typing import Final

_NAME: Final = "http://example.org/building#"
_TYPE: Final = "http://www.w3.org/1999/02/22-rdf-syntax-ns#type"


def _count(triples: Iterable[tuple[object, object, object]]) -> int:
    """The number of triples about the data; terms are texts, with or without brackets."""
    count = 0
    for triple in triples:
        subject, predicate, thing = (str(term).strip("<>") for term in triple)
        count += subject.startswith(_NAME) and (predicate.startswith(_NAME) or (predicate == _TYPE and thing.startswith(_NAME)))
    return count


def owlrl(path: str, rules: str) -> Callable[[], int]:
    """owlrl over rdflib."""
    package, rdflib = import_module("owlrl"), import_module("rdflib")

    def run() -> int:
        graph = rdflib.Graph().parse(path, format="nt")
        package.DeductiveClosure(package.OWLRL_Semantics).expand(graph)
        return _count(graph)

    return run


def reasonable(path: str, rules: str) -> Callable[[], int]:
    """reasonable, written in Rust."""
    package = import_module("reasonable")
    turtle = Path(path).with_suffix(".ttl")
    turtle.write_text(Path(path).read_text(encoding="utf-8"), encoding="utf-8")

    def run() -> int:
        reasoner = package.PyReasoner()
        reasoner.load_file(str(turtle))
        return _count(reasoner.reason())

    return run


def nemo(path: str, rules: str) -> Callable[[], int]:
    """nemo, written in Rust, with the rows of OWL 2 RL as rules over one relation of triples."""
    package = import_module("nmo_python")
    given = f'@import given :- ntriples{{resource="{path}"}} .\ntriple(?s, ?p, ?o) :- given(?s, ?p, ?o) .\n@output triple .\n'
    text = given + Path(rules).read_text(encoding="utf-8")

    def run() -> int:
        engine = package.NemoEngine(package.load_string(text))
        engine.reason()
        return _count(engine.result("triple"))

    return run
