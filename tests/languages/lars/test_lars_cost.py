"""The cost of a point of a LARS file depends on the atoms that begin or end alone: counted in calls, not timed."""

from __future__ import annotations

import sys

import pytest

from dotr.evaluation.triples.index import TripleIndex
from dotr.languages.lars.closure.atoms import PointAtoms
from dotr.languages.lars.closure.maintained import LarsClosure
from dotr.languages.lars.closure.rules import rules_of_file
from dotr.languages.lars.reading import compile_lars
from dotr.model.places import Document
from dotr.model.terms import Triple
from dotr.model.time import Clock

FILES = {
    "diamond and join": "Q(?x, ?z) :- :p(?x, ?y) IN [1 d], :q(?y, ?z) IN [1 d] .",
    "at": "Q(?x, ?t) :- :p(?x, ?y) AT ?t IN [1 d], :q(?y, ?z) IN [1 d] .",
    "not": "Q(?x, ?x) :- :p(?x, ?y) IN [1 d], NOT :q(?y, ?z) IN [1 d] .",
    "counts": "Q(?x, ?z) :- :p(?x, ?y) IN [LAST 2 PER ?x], :q(?y, ?z) IN [1 d] .",
    "always": "Q(?x, ?z) :- :q(?x, ?z) ALWAYS IN [2 s], :p(?w, ?x) IN [1 d] .",
    "since": "Q(?x, ?z) :- :q(?x, ?z) SINCE :p(?x, ?z) IN [1 d] .",
}


def line(text: str, silent: int) -> LarsClosure:
    (file,) = compile_lars([Document("f.lars", text + " REPORT Q(?x, ?z) .")], {"": "http://e/"}).checked().files
    closure = LarsClosure(rules_of_file(file, TripleIndex(), Clock()), file.resolution, Clock())
    closure.begin(1)
    closure.advance(1, atoms([triple for n in range(silent) for triple in keyed(f"silent{n}")]))
    return closure


def keyed(key: str) -> list[Triple]:
    return [(f"<x{key}>", "<http://e/p>", f"<y{key}>"), (f"<y{key}>", "<http://e/q>", f"<z{key}>")]


def atoms(triples: list[Triple]) -> PointAtoms:
    return PointAtoms(dict.fromkeys(triples, 0), {})


def calls(closure: LarsClosure, k: int, triples: list[Triple]) -> int:
    """The number of calls, of Python functions and of C functions, that a point makes."""
    found = 0

    def count(frame: object, event: str, argument: object) -> None:
        nonlocal found
        found += event in ("call", "c_call")

    sys.setprofile(count)
    closure.advance(k, atoms(triples))
    sys.setprofile(None)
    return found


@pytest.mark.parametrize("name", FILES)
def test_a_point_makes_no_join_for_silent_keys(name: str) -> None:
    few, many = line(FILES[name], 10), line(FILES[name], 50_000 if name == "diamond and join" else 3_000)
    for k in (2, 3, 4):  # joins are compiled at their first use
        steps = [calls(each, k, keyed("a") + keyed(f"b{k}")) for each in (few, many)]
    assert steps[1] <= steps[0] + 20, steps
    assert steps[1] <= 900


@pytest.mark.parametrize("name", ["diamond and join", "at"])
def test_renewed_triples_cost_no_more_than_new_ones(name: str) -> None:
    closure = line(FILES[name], 10)
    for k in (2, 3):
        closure.advance(k, atoms([triple for n in range(20) for triple in keyed(f"w{n}")]))
    renewed = calls(closure, 4, [triple for n in range(20) for triple in keyed(f"w{n}")])
    new = calls(closure, 5, [triple for n in range(20) for triple in keyed(f"v{n}")])
    assert renewed <= 1.1 * new
