"""The paper's default scenario by RDF libraries, one instant after the other.

Each adds the graph of an instant to the background, evaluates the twenty queries, and removes the graph
again; the last B of a room within 30 s is kept in a dictionary. `_folded`: the Datalog rule that the
queries need is written into them by hand; `_construct`: all eleven rules are evaluated at each instant.
`rdflib_owlrl` and `rdflib_reasonable` close the background with the instant anew, as a first design would.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, Final

_PREFIX: Final = "http://example.org/dotr#"
_RULES: Final = 10
_DATALOG: Final = 11
FOLDED: Final = "?s :equips/:placed_in ?room"
ROOM: Final = "?s :is_in_room ?room"

Ask = Callable[[str], Sequence[str]]
"""The rooms and values that a query has, or asks for, at the present instant."""


def queries(kind: str, where: str) -> list[str]:
    """The queries of the rules for A or B; `where`: the way from a sensor to its room."""
    form = "PREFIX : <{0}> SELECT ?val ?room WHERE {{ ?s :read_val{1} ?val . {2} . FILTER(?val > {3}) }}"
    return [form.format(_PREFIX, kind, where, number) for number in range(_RULES)]


def constructs() -> list[str]:
    """The Datalog rules."""
    made = [f"CONSTRUCT {{ ?s :near{k} ?o }} WHERE {{ ?s :attribute{k} ?x . ?x :placed_in ?o }}" for k in range(_DATALOG - 1)]
    made.append("CONSTRUCT { ?s :is_in_room ?r } WHERE { ?s :equips ?o . ?o :placed_in ?r }")
    return [f"PREFIX : <{_PREFIX}> {text}" for text in made]


class _Rules:
    """The ten rules over the answers of an instant."""

    def __init__(self) -> None:
        self._last: dict[tuple[int, str], int] = {}
        self.output: list[str] = []

    def instant(self, now: int, a: Sequence[Sequence[tuple[str, str]]], b: Sequence[Sequence[tuple[str, str]]]) -> None:
        for number, rows in enumerate(a):
            for value, room in rows:
                before = self._last.get((number, room))
                if before is not None and now - before <= 30:
                    self.output.append(f"_:e{number}t{now} <{_PREFIX}has_val> {value} .")
        for number, rows in enumerate(b):
            for _, room in rows:
                self._last[number, room] = now


def _elements(folder: Path) -> list[tuple[int, str]]:
    lines = (folder / "stream.ndjson").read_text(encoding="utf-8").splitlines()
    return [(element["time"], f"@prefix : <{_PREFIX}> . {element['graph']}") for element in map(json.loads, lines)]


def oxigraph_folded(folder: str) -> Callable[[], int]:
    """pyoxigraph, the rule folded into the queries."""
    return _oxigraph(Path(folder), FOLDED, [])


def oxigraph_construct(folder: str) -> Callable[[], int]:
    """pyoxigraph, the rules as CONSTRUCT."""
    return _oxigraph(Path(folder), ROOM, constructs())


def _oxigraph(folder: Path, where: str, constructs: Sequence[str]) -> Callable[[], int]:
    package = import_module("pyoxigraph")
    turtle, quad = package.RdfFormat.TURTLE, package.Quad
    store = package.Store()
    store.bulk_load(path=str(folder / "kb.ttl"), format=turtle)
    elements, texts = _elements(folder), [queries(kind, where) for kind in "AB"]

    def rows(query: str) -> list[tuple[str, str]]:
        return [(str(row[0]), str(row[1])) for row in store.query(query)]

    def run() -> int:
        rules = _Rules()
        for now, text in elements:
            held = [each for each in package.parse(text, turtle) if each not in store]
            for each in held:
                store.add(each)
            for construct in constructs:
                derived = [quad(*triple) for triple in store.query(construct)]
                held += (fresh := [each for each in derived if each not in store])
                for each in fresh:
                    store.add(each)
            rules.instant(now, *([rows(query) for query in queries_] for queries_ in texts))
            for each in held:
                store.remove(each)
        return len(rules.output)

    return run


def rdflib_folded(folder: str) -> Callable[[], int]:
    """rdflib, the rule folded into the queries."""
    return _rdflib(Path(folder), lambda graph: graph)


def rdflib_owlrl(folder: str) -> Callable[[], int]:
    """rdflib; owlrl closes the background with the instant."""
    package, rdflib = import_module("owlrl"), import_module("rdflib")

    def close(graph: Any) -> Any:
        closed = rdflib.Graph()
        closed += graph
        package.DeductiveClosure(package.OWLRL_Semantics).expand(closed)
        return closed

    return _rdflib(Path(folder), close)


def rdflib_reasonable(folder: str) -> Callable[[], int]:
    """rdflib; reasonable closes the background with the instant."""
    package, rdflib = import_module("reasonable"), import_module("rdflib")

    def close(graph: Any) -> Any:
        reasoner = package.PyReasoner()
        reasoner.from_graph(graph)
        closed = rdflib.Graph()
        for triple in reasoner.reason():
            closed.add(triple)
        return closed

    return _rdflib(Path(folder), close)


def _rdflib(folder: Path, close: Callable[[Any], Any]) -> Callable[[], int]:
    rdflib = import_module("rdflib")
    prepare = import_module("rdflib.plugins.sparql").prepareQuery
    background = rdflib.Graph().parse(str(folder / "kb.ttl"))
    elements, texts = _elements(folder), [[prepare(text) for text in queries(kind, FOLDED)] for kind in "AB"]

    def run() -> int:
        rules = _Rules()
        for now, text in elements:
            fresh = [triple for triple in rdflib.Graph().parse(data=text, format="turtle") if triple not in background]
            for triple in fresh:
                background.add(triple)
            graph = close(background)
            answers = [[[(row[0].n3(), row[1].n3()) for row in graph.query(query)] for query in queries_] for queries_ in texts]
            rules.instant(now, *answers)
            for triple in fresh:
                background.remove(triple)
        return len(rules.output)

    return run
