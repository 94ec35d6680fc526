"""`dotr explain` shows the maintained and the fully evaluated parts of continuous queries (continuous.md, section 11, second table)."""

from __future__ import annotations

from pathlib import Path

import pytest

from dotr.commands.explain.text import explain

pytestmark = pytest.mark.core

WINDOW = "FROM NAMED WINDOW <w> ON :in [RANGE 10s STEP 1s]"
KEPT = "its solutions are kept from report to report; a report costs what changed"


@pytest.mark.parametrize(
    ("query", "asked"),
    [
        (f"SELECT ?x {WINDOW} {{ WINDOW <w> {{ {{ ?x :p ?y }} UNION {{ ?x :q ?y }} FILTER(?x != ?y) BIND(?y AS ?z) }} }}", KEPT),
        (f"SELECT DISTINCT ?x {WINDOW} {{ WINDOW <w> {{ ?x :p ?y }} VALUES ?y {{ 1 2 }} }}", KEPT),
        (f"SELECT ?x (AVG(?y) AS ?m) {WINDOW} {{ WINDOW <w> {{ ?x :p ?y }} }} GROUP BY ?x HAVING(COUNT(*) > 1)", KEPT),
        (f"SELECT ?x {WINDOW} FROM NAMED WINDOW <v> ON :in [NOW] {{ WINDOW <w> {{ ?x :p ?y }} WINDOW <v> {{ ?y :q ?z }} }}", KEPT),
        (f"ASK {WINDOW} {{ WINDOW <w> {{ ?x :p ?y }} }}", KEPT),
        (
            f"SELECT ?x {WINDOW} {{ WINDOW <w> {{ ?x :p ?y }} }} ORDER BY ?y LIMIT 3",
            "in full at each report, for LIMIT or OFFSET, over parts whose solutions are kept: those of ?x ?y",
        ),
        (f"SELECT ?x {WINDOW} {{ WINDOW <w> {{ ?x :p ?y }} OPTIONAL {{ WINDOW <w> {{ ?y :q ?z }} }} }}", KEPT),
        (f"SELECT ?x {WINDOW} {{ WINDOW <w> {{ ?x :p ?y MINUS {{ ?x :q :a }} }} FILTER EXISTS {{ WINDOW <w> {{ ?x :r ?y }} }} }}", KEPT),
        (
            f"SELECT ?x {WINDOW} {{ WINDOW <w> {{ ?x :p ?y FILTER EXISTS {{ ?x :q ?z OPTIONAL {{ ?z :r ?y }} }} }} }}",
            "in full at each report, for EXISTS of more than a conjunction or UNION, over parts whose solutions are kept: those of ?x ?y",
        ),
        (f"SELECT ?x {WINDOW} {{ WINDOW <w> {{ ?x :p ?y . ?y :q+ ?z }} }}", KEPT),
        (
            f"SELECT ?x {WINDOW} {{ WINDOW <w> {{ ?x :p ?y . ?w :q+ ?z }} }}",
            "in full at each report, for a property path, over parts whose solutions are kept: those of ?x ?y",
        ),
        (f"SELECT ?x {WINDOW} {{ WINDOW <w> {{ ?x :p+ ?y }} }}", "in full at each report, for a property path"),
        (f"SELECT ?x {WINDOW} {{ MATCH {{ EVENT <w> {{ ?x :p ?y }} SEQ EVENT <w> {{ ?y :p ?x }} }} }}", KEPT),
        (f"SELECT ?x {WINDOW} {{ MATCH {{ EVENT <w> {{ ?x :p ?y }} }} OPTIONAL {{ WINDOW <w> {{ ?x :q ?z }} }} }}", KEPT),
        (f"SELECT ?x {WINDOW} {{ MATCH {{ FIRST EVENT <w> {{ ?x :p ?y }} }} }}", "in full at each report, for MATCH"),
        (
            f"SELECT ?x {WINDOW} {{ MATCH {{ LAST EVENT <w> {{ ?x :p ?y }} }} WINDOW <w> {{ ?x :q ?z }} }}",
            "in full at each report, for MATCH, over parts whose solutions are kept: those of ?x ?z",
        ),
        (
            "SELECT ?x FROM WINDOW ON :in [RANGE 10s] FROM WINDOW ON :in [RANGE 20s] { ?x :p ?y }",
            "in full at each report, for a default graph of several windows or under NOT or AGGREGATE; "
            "closed anew at each report: (default), (default)",
        ),
        ("SELECT ?x FROM WINDOW ON :in [RANGE 10s STEP 1s] FROM WINDOW ON :in [RANGE 20s STEP 1s] { ?x :p ?y }", KEPT),
    ],
)
def test_explain_shows_what_is_maintained_and_what_is_evaluated_in_full(query: str, asked: str, tmp_path: Path) -> None:
    path = tmp_path / "q.rspql"
    path.write_text(f"PREFIX : <http://example.org/> REGISTER RSTREAM Q AS {query}")
    lines = [line.strip().removeprefix("asked").strip() for line in explain(str(path)).splitlines() if line.strip().startswith("asked")]
    assert lines == [asked]


@pytest.mark.parametrize(
    ("level", "where", "shown"),
    [
        ("", "WINDOW <w> { ?x :p ?y }", "GRAPH: the window closed as one graph"),
        ("", "MATCH { EVENT <w> { ?x :p ?y } }", "GRAPH: the window closed as one graph; for EVENT SNAPSHOT: each item closed by itself"),
        (" ENTAILMENT GRAPH", "MATCH { EVENT <w> { ?x :p ?y } }", "GRAPH: the window closed as one graph; for EVENT each item as it came"),
        (" ENTAILMENT SNAPSHOT", "MATCH { EVENT <w> { ?x :p ?y } }", "SNAPSHOT"),
    ],
)
def test_explain_shows_the_level_of_an_event(level: str, where: str, shown: str, tmp_path: Path) -> None:
    path = tmp_path / "q.rspql"
    window = WINDOW.replace("]", f"{level}]")
    path.write_text(f"PREFIX : <http://example.org/> REGISTER RSTREAM Q AS SELECT ?x {window} {{ {where} }}")
    lines = [line.strip().removeprefix("level").strip() for line in explain(str(path)).splitlines() if line.strip().startswith("level")]
    assert lines == [shown]
