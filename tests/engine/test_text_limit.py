"""Limit of the bytes of computed terms (`limits.text`): of one instant, report or point, and of a rule at one anchor."""

from __future__ import annotations

import json
import tracemalloc
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from dotr.engine.spec import ProgramSpec
from dotr.errors.diagnostics import Refused
from dotr.evaluation.expressions import evaluator
from dotr.evaluation.limits import BOUNDS, LIMITS, LONGEST_TEXT, MOST_TEXT, LimitExceeded, Limits
from dotr.languages.programs import compile_program
from dotr.model.algebra import Var
from dotr.model.places import Document, Span
from dotr.model.terms import XSD, Term
from dotr.runtimes.local.run import run_local
from dotr.runtimes.pipeline.build import build
from dotr.runtimes.pipeline.config import read_config
from dotr.syntax.sparql import parse_expression

pytestmark = pytest.mark.core

PREFIXES = {"": "http://e/", "xsd": XSD}
TAIL = "x" * 36
LONG = f'CONCAT(?v, "{TAIL}")'
"""40 bytes as a term: the two quotes, two characters of a row, and the tail."""
LIMIT = 130
"""Three rows are within the limit, four are over it."""
RULE = "rule R define E = [ [] :x ?l ] from {} with E.?l = T.?l"
ANCHORED = """query A = [ SELECT ?s {{ ?s a :A }} ] query V = [ SELECT ?v {{ ?s :v ?v }} ]
rule R define E = [ {} ] from A and each V within [0, 1 s] from A with E.?l = {}"""
PROGRAMS: dict[str, tuple[dict[str, str], str]] = {
    "query": ({"a.dotr": RULE.format(f"T = [ SELECT ?l {{ ?s :v ?v BIND({LONG} AS ?l) }} ]")}, ""),
    "select": ({"a.dotr": RULE.format(f"T = [ SELECT ({LONG} AS ?l) {{ ?s :v ?v }} ]")}, ""),
    "filtered": ({"a.dotr": RULE.format(f"T = [ SELECT ?l {{ ?s :v ?v OPTIONAL {{ ?s :w ?w }} BIND({LONG} AS ?l) }} ]")}, ""),
    "branches": (
        {"a.dotr": RULE.format(f'T = [ SELECT ?l {{ ?s :v ?v BIND(IF(?v = "01", ?v, COALESCE(1 / 0, {LONG})) AS ?l) }} ]')},
        "one more",
    ),
    "group": (
        {"a.dotr": RULE.format(f'T = [ SELECT (GROUP_CONCAT(?v; separator="{50 * "x"}") AS ?l) {{ ?s :v ?v }} ]')},
        "",
    ),
    "datalog": ({"a.dlog": f":l(?s, ?l) :- :v(?s, ?v), BIND({LONG} AS ?l) .", "a.dotr": RULE.format("T = [ SELECT ?l { ?s :l ?l } ]")}, ""),
    "assignment": ({"a.dotr": ANCHORED.format("[] :x ?l", LONG.replace("?v", "V.?v"))}, "rule R"),
    "template": ({"a.dotr": ANCHORED.format("[] :x <<( :abc :def ?l )>>", "V.?v")}, "rule R"),
    "continuous": (
        {"a.rspql": f"REGISTER RSTREAM R AS SELECT ?l FROM NAMED WINDOW :w ON :s [NOW] {{ WINDOW :w {{ ?s :v ?v BIND({LONG} AS ?l) }} }}"},
        "rule R",
    ),
    "construct": (
        {
            "a.rspql": "REGISTER RSTREAM R AS CONSTRUCT { :x :y <<( :abc :def ?v )>> }"
            " FROM NAMED WINDOW :w ON :s [NOW] { WINDOW :w { ?s :v ?v } }"
        },
        "rule R",
    ),
    "lars": ({"a.lars": f"Long(?l) :- :v(?s, ?v) IN [0 s], BIND({LONG} AS ?l) . REPORT Long(?l) ."}, "rule a.lars"),
    "interval": ({"a.epsparql": f"REGISTER QUERY R AS SELECT ({LONG} AS ?l) WHERE {{ ?s :v ?v }}"}, "rule R"),
    "interval BIND": ({"a.epsparql": f"REGISTER QUERY R AS SELECT ?l WHERE {{ ?s :v ?v }} BIND({LONG} AS ?l)"}, "rule R"),
    "interval graphs": ({"a.epsparql": "REGISTER STREAM R AS CONSTRUCT { :x :y <<( :abc :def ?v )>> } WHERE { ?s :v ?v }"}, "rule R"),
}
"""The files of programs that compute a text for each row, and the input that the dead letter names (that of the elements if none)."""


@pytest.fixture(autouse=True)
def _default() -> Iterator[None]:
    yield
    BOUNDS.start(LONGEST_TEXT, MOST_TEXT)


def rows(number: int, first: int = 0) -> str:
    return ":s a :A . " + " ".join(f':s{row:02} :v "{row:02}" .' for row in range(first, first + number))


def run(folder: Path, files: Mapping[str, str], graphs: Mapping[int, str], **limits: int) -> tuple[list[Any], list[Any]]:
    """The events and the dead letters of a run in process."""
    write(folder, files, graphs, **limits)
    run_local(build(read_config(str(folder / "c.yaml")), fresh=False, on_spark=False), lambda totals: None)
    return lines(folder / "out.ndjson"), lines(folder / "dead.ndjson")


def write(folder: Path, files: Mapping[str, str], graphs: Mapping[int, str], **limits: int) -> None:
    for name, text in files.items():
        (folder / name).write_text(text if name.endswith(".dlog") else "PREFIX : <http://e/>\n" + text)
    (folder / "in.ndjson").write_text("".join(json.dumps({"time": time, "graph": graph}) + "\n" for time, graph in graphs.items()))
    datalog = [name for name in files if name.endswith(".dlog")]
    (folder / "c.yaml").write_text(
        f"name: c\nprefixes: {{ '': 'http://e/' }}\nlimits: {json.dumps(limits)}\n"
        f"rules: {json.dumps([name for name in files if name not in datalog])}\nknowledge: {{ datalog: {json.dumps(datalog)} }}\n"
        "input: [{ name: in, format: ndjson, path: in.ndjson, stream: ':s' }]\noutput: [{ path: out.ndjson }]\ndead_letter: dead.ndjson\n"
        'spark: { master: "local[2]", checkpoint: checkpoint }\n'
    )


def lines(path: Path) -> list[Any]:
    files = sorted(path.iterdir()) if path.is_dir() else [path] if path.exists() else []
    return [json.loads(line) for file in files for line in file.read_text().splitlines()]


@pytest.mark.parametrize("name", PROGRAMS)
def test_more_computed_text_than_the_limit_is_a_dead_letter(name: str, tmp_path: Path) -> None:
    files, place = PROGRAMS[name]
    more = place == "one more"
    graphs = {1: rows(3 + more), 5: rows(4 + more, 0 if more else 10), 9: rows(1)}
    events, letters = run(tmp_path, files, graphs, text=LIMIT)
    assert sorted({each["time"] for each in events}) == [1, 9]
    assert [(each["reason"], each["time"], each["input"]) for each in letters] == [("limit", 5, "in" if more else place or "in")]
    assert "more than 130 bytes of computed terms" in letters[0]["error"]


def test_default_is_that_of_limits() -> None:
    assert LIMITS.text == MOST_TEXT == 64 << 20
    assert Limits.from_json({name: value for name, value in Limits().to_json().items() if name != "text"}) == Limits()


def test_rule_over_the_limit_at_one_anchor_matches_at_the_others(tmp_path: Path) -> None:
    files = {
        "a.dotr": f"""query A = [ SELECT ?s {{ ?s a :A }} ] query V = [ SELECT ?s ?v {{ ?s :v ?v }} ]
        rule R define E = [ [] :x ?l ] from A and each V [ FILTER(?s = A.?s) ] within [0, 1 d] from A with E.?l = CONCAT(V.?v, "{TAIL}")
        rule S define F = [ [] :x ?l ] from A and each V [ FILTER(?s = A.?s) ] within [0, 1 d] from A with F.?l = V.?v"""
    }
    graph = " ".join(f':s{s} a :A . :s{s} :v "{s}{v}" .' for s in range(5) for v in range(4 if s == 2 else 3))
    events, letters = run(tmp_path, files, {1: graph}, text=LIMIT)
    found = [(each["rule"], each["attributes"]["l"][1:2]) for each in events]
    assert sorted(found) == sorted([("R", s) for s in "0134" * 3] + [("S", s) for s in "01234" * 3 + "2"])
    (letter,) = letters
    assert (letter["reason"], letter["input"], letter["text"]) == ("limit", "rule R", "R")
    assert letter["error"] == 'rule R goes over a limit at its anchor A {"s": "<http://e/s2>"}: more than 130 bytes of computed terms'


PATHS = """:path(?x, ?q) :- :link(?x, ?z), BIND(STR(?x) AS ?q) .
:path(?z, ?q) :- :path(?y, ?p), :link(?y, ?z), BIND(CONCAT(?p, STR(?z)) AS ?q) ."""
RECURSION = {
    "lars": {
        "a.lars": "Path(?x, ?z, ?q) :- :link(?x, ?z) IN [1 h], BIND(STR(?x) AS ?q) .\n"
        "Path(?x, ?z, ?q) :- Path(?x, ?y, ?p), :link(?y, ?z) IN [1 h], BIND(CONCAT(?p, STR(?z)) AS ?q) .\nREPORT Path(?x, ?z, ?q) ."
    },
    "datalog": {
        "a.dlog": PATHS,
        "a.dotr": RULE.format("T = [ SELECT ?l { ?x :path ?l } ]"),
    },
    "window": {
        "a.dlog": PATHS,
        "a.rspql": "REGISTER RSTREAM R AS SELECT ?l FROM NAMED WINDOW :w ON :s [RANGE PT1H] { WINDOW :w { ?x :path ?l } }",
    },
}


@pytest.mark.parametrize("name", RECURSION)
def test_text_that_grows_with_each_derivation_ends_at_the_limit(name: str, tmp_path: Path) -> None:
    graphs = {1: ":a :link :b .", 2: ":b :link :a .", 4000: ":c :link :d ."}
    if name == "datalog":
        graphs[2] = ":a :link :b . :b :link :a ."
    write(tmp_path, RECURSION[name], graphs, text=4 << 20)
    pipeline = build(read_config(str(tmp_path / "c.yaml")), fresh=False, on_spark=False)
    tracemalloc.start()
    run_local(pipeline, lambda totals: None)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    letters = lines(tmp_path / "dead.ndjson")
    assert letters
    assert {each["reason"] for each in letters} == {"limit"}
    assert all("more than 4,194,304 bytes of computed terms" in each["error"] for each in letters)
    assert max(each["time"] for each in lines(tmp_path / "out.ndjson")) >= 4000
    assert peak < 80_000_000


def test_background_that_computes_ever_new_texts_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    datalog = f':p(:a, "{"b" * 200_000}") .\n:p(:a, ?y) :- :p(:a, ?x), BIND(CONCAT(SUBSTR(?x, 33), MD5(?x)) AS ?y) .'
    monkeypatch.setattr("dotr.instant.datalog.background.knowledge.MOST_TEXT_OF_BACKGROUND", 4_000_000)
    with pytest.raises(Refused) as refused:
        compile_program(ProgramSpec(datalog=(Document("a.dlog", datalog),), prefixes=PREFIXES))
    (problem,) = refused.value.diagnostics
    assert (problem.code, problem.message) == ("K308", "the background: more than 4,000,000 bytes of computed terms")


def value(text: str, **bound: Term) -> Term | None:
    expression = parse_expression(Span(Document("", text), 0, len(text)), PREFIXES)
    result: Term | None = evaluator(expression, [Var(name) for name in bound])(*bound.values())
    return result


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ('CONCAT("ab", "cd")', 6),
        ('CONCAT("é", "€")', 7),
        ('CONCAT("ab"@en, "cd"@en)', 9),
        ("STR(<e:abc>)", 7),
        ('IRI("e:abc")', 7),
        ('STRDT("ab", <e:t>)', 11),
        ("TRIPLE(<e:a>, <e:b>, <e:c>)", 25),
        ('UCASE("ab")', 4),
        ('MD5("a")', 34),
        ('xsd:string("abc")', 5),
        ('IF(true, CONCAT("a", "b"), "c")', 4),
        ('COALESCE(1 / 0, "abc", CONCAT("a", "b"))', 0),
        ('IF(CONCAT("a", "b") = "ab", "c", "d")', 0),
        ("1 + 1", 0),
        ('STRLEN(CONCAT("a", "b"))', 0),
        ('CONCAT("a", "b") = "c"', 0),
        (f"{'9' * 200} + 1", 201 + len(f'"^^<{XSD}integer>"')),
    ],
)
def test_bytes_of_the_computed_term_are_counted(text: str, size: int) -> None:
    BOUNDS.start(LONGEST_TEXT, 1000)
    assert value(text) is not None
    assert BOUNDS.left == 1000 - size
    if size:
        BOUNDS.start(LONGEST_TEXT, size - 1)
        with pytest.raises(LimitExceeded, match=f"more than {size - 1} bytes of computed terms"):
            value(text)
