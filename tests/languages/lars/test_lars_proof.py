"""Derivations of rows that a LARS file reports, down to atoms of the stream."""

from __future__ import annotations

import pytest

from dotr.languages.lars.closure.atoms import PointAtoms
from dotr.languages.lars.closure.proof import LarsProof, LarsReason
from tests.languages.lars.test_lars_examples import Line, lars, short, triple

pytestmark = pytest.mark.core


def drawn(reason: LarsReason, depth: int = 0) -> list[str]:
    points = "always" if reason.first is None else f"{reason.first}" if reason.first == reason.last else f"{reason.first} to {reason.last}"
    name = reason.rows.name.split()[-1].rpartition("/")[2].rstrip(">")
    line = f"{'  ' * depth}{name} {short(reason.row)} @ {points}{' by ' + reason.rule if reason.rule else ''}"
    return [line, *(each for premise in reason.premises for each in drawn(premise, depth + 1))]


def why(text: str, stream: dict[int, list[str]], row: str, background: tuple[str, ...] = ()) -> list[str]:
    line = Line(lars(text), background)
    line.closure.begin(min(stream))
    for k, triples in stream.items():
        line.go_to(k - 1)
        line.visit(k, PointAtoms({triple(each): 0 for each in triples}, {}))
    rows = {short(each): each for each in line.closure.reported()[0]}
    reason = LarsProof(line.closure).of_report(0, rows[row])
    assert reason is not None
    return drawn(reason)


def test_always_over_conclusions() -> None:
    text = """Hot(?x) AT ?t :- :temp(?x, ?v) AT ?t IN [5 s], FILTER(?v > 60) .
    Q(?x) :- Hot(?x) ALWAYS IN [1 s] .
    REPORT Q(?x) ."""
    assert why(text, {1: [], 2: [":a :temp 70"], 3: [":a :temp 75"]}, "a") == [
        "Q a @ 3 by f.lars:2",
        "  Hot a @ 2 by f.lars:1",
        "    temp a 70 @ 2",
        "  Hot a @ 3 by f.lars:1",
        "    temp a 75 @ 3",
    ]


def test_derivation_of_recursion_has_the_least_height() -> None:
    text = """Reach(?x, ?y) :- :link(?x, ?y) IN [9 s] .
    Reach(?x, ?z) :- Reach(?x, ?y), :link(?y, ?z) IN [9 s] .
    REPORT Reach(?x, ?z) ."""
    stream = {1: [":a :link :b", ":b :link :a"], 2: [":b :link :c"], 3: [":a :link :c", ":c :link :d"]}
    assert why(text, stream, "a d") == [
        "Reach a d @ 3 by f.lars:2",
        "  Reach a c @ 3 by f.lars:1",
        "    link a c @ 3",
        "  link c d @ 3",
    ]


def test_runs_counts_and_the_background() -> None:
    text = """BACKGROUND :room .
    Q(?s) :- :on(?s, true) ALWAYS IN [2 s], :room(?s, ?r), :v(?s, ?v) IN [LAST 2 PER ?s], :w(?s, ?u) AT ?t IN [LAST 2 MATCHING],
      :on(?s, true) SINCE :v(?s, 2) IN [5 s], NOT :off(?s, ?z) IN [3 s] .
    REPORT Q(?s) ."""
    stream = {1: [":s :on true"], 2: [":s :on true", ":s :v 2", ":s :w 7"], 3: [":s :on true"]}
    found = why(text, stream, "s", (":s :room :kitchen",))
    assert found[0] == "Q s @ 3 by f.lars:2"
    assert sorted(found[1:]) == ["  on s true @ 1 to 3", "  room s kitchen @ always", "  v s 2 @ 2", "  w s 7 @ 2"]
