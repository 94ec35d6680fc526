"""Random programs of continuous queries, rules and Datalog over two streams, and their elements."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from hypothesis import strategies as st

SECOND = 1_000_000
LEVELS = ("", "", "", "NONE", "SNAPSHOT", "GRAPH", "WINDOW", "STREAM WITHIN 12s")
DATALOG = (
    "",
    "",
    ":p(?x, ?z) :- :p(?x, ?y), :p(?y, ?z) .",
    ":q(?x, ?z) :- :p(?x, ?y), :q(?y, ?z) .",
    ":A(?x) :- :p(?x, ?y), NOT :B(?x) . :q(?x, ?y) :- :p(?y, ?x) .",
    ":B(?x) :- :q(?x, ?y), :A(?y) . :p(?x, :many) :- AGGREGATE(:q(?x, ?y) ON ?x BIND COUNT(?y) AS ?n), FILTER(?n > 1) .",
    "[?x, :q, ?y] :- :A(?x), :B(?y) .",
)
BACKGROUND = (
    "",
    "",
    ":a a :A . :a :p :b .",
    ":b :q :c . :c a :B . :p rdfs:subPropertyOf :q .",
    ":p a owl:TransitiveProperty . :A rdfs:subClassOf :B .",
    ":q owl:propertyChainAxiom ( :p :p ) . :a :p :c .",
    ":p a owl:FunctionalProperty . :a :p :c .",
    ":p owl:inverseOf :q ; rdfs:domain :A . :B owl:equivalentClass [ owl:onProperty :p ; owl:someValuesFrom owl:Thing ] .",
    ":A owl:intersectionOf ( :B [ owl:onProperty :q ; owl:hasValue :a ] ) .",
)
BLOCKS = (
    "?x :p ?y",
    "?x :p ?y . ?y :q ?z",
    "?x a :A",
    "?x a :B . OPTIONAL { ?x :p ?y }",
    "?x :q ?y FILTER(?y != :a)",
    "?x :p+ ?y",
    "{ ?x :p ?y } UNION { ?y :q ?x }",
    "?x :p ?y MINUS { ?x :q ?z }",
    "?x :p ?y FILTER NOT EXISTS { ?y :p ?x }",
    "?x ?r ?y",
)
EVENTS = ("?x :p ?y", "?x :q ?y", "?x a :A", "?y a :B", "?x :p ?y . ?y :q ?z", "?x ?r ?y FILTER(?y != :b)", "[] :p ?x")
_Choice = TypeVar("_Choice")


@dataclass(frozen=True)
class ContinuousProgram:
    """Texts of a program, and elements: second, stream's local name, Turtle."""

    queries: str
    rules: str
    datalog: str
    background: str
    entailment: str
    origin: int
    elements: tuple[tuple[float, str, str], ...]


def pick(draw: st.DrawFn, choices: Sequence[_Choice]) -> _Choice:
    return draw(st.sampled_from(choices))


def often(draw: st.DrawFn, one_in: int) -> bool:
    return draw(st.integers(1, one_in)) == 1


def extent(draw: st.DrawFn) -> tuple[str, bool, bool]:
    """The text of an extent, true if it is in time, and true if it is NOW."""
    kind = draw(st.integers(0, 9))
    if kind <= 4:
        return f"RANGE {pick(draw, (1, 2, 4, 5, 10))}s STEP {pick(draw, (1, 2, 3, 4))}s", True, False
    if kind == 5:
        return pick(draw, ("FROM NOW-5s TO NOW-2s STEP 2s", "FROM NOW-4s TO NOW-1s", "FROM NOW-6s TO NOW")), True, False
    if kind == 6:
        bound = pick(draw, ("RESTARTING EVERY 4s", "RESTARTING EVERY 7s", "LIMIT 4", "LIMIT 100"))
        return f"LANDMARK STEP {pick(draw, (2, 3))}s {bound}", True, False
    if kind == 7:
        return f"ELEMENTS {pick(draw, (1, 2, 3))}{pick(draw, ('', ' STEP 2', ' STEP 3'))}", False, False
    if kind == 8:
        return f"TRIPLES {pick(draw, (1, 3, 5))}{pick(draw, ('', ' STEP 2'))}", False, False
    return "NOW", False, True


def spec(draw: st.DrawFn, *, reports: bool) -> str:
    text, of_time, is_now = extent(draw)
    options = []
    if of_time and often(draw, 4):
        options.append(f"STARTING AT {pick(draw, (-3, 0, 1, 5))}")
    if reports and often(draw, 2):
        times = ["ON CONTENT CHANGE", "PERIODIC 3s", "PERIODIC 2s AND ON CONTENT CHANGE"]
        if not is_now:
            times += ["ON WINDOW CLOSE", "ON WINDOW CLOSE AND ON CONTENT CHANGE", "ON WINDOW CLOSE AND PERIODIC 3s"]
        options.append(f"REPORT {pick(draw, times)}{pick(draw, ('', ' AND NON-EMPTY CONTENT'))}")
    level = pick(draw, LEVELS)
    if level and not (level.startswith("STREAM") and (not of_time or "LIMIT" in text)):
        options.append(f"ENTAILMENT {level}")
    return " ".join([text, *draw(st.permutations(options))])


def events(draw: st.DrawFn, depth: int, count: list[int]) -> str:
    if depth == 0 or often(draw, 3):
        count[0] += 1
        at = f"AT ?t{count[0]} " if often(draw, 2) else ""
        return f"EVENT {pick(draw, ('<w>', '<w>', '<v>'))} {at}{{ {pick(draw, EVENTS)} }}"
    if often(draw, 4):
        return f"{pick(draw, ('FIRST', 'LAST'))} ({events(draw, depth - 1, count)})"
    policy = pick(draw, ("", "", "NAIVE", "CHRONOLOGICAL", "RECENT"))
    return f"({events(draw, depth - 1, count)} SEQ {policy} {events(draw, depth - 1, count)})"


def where(draw: st.DrawFn) -> str:
    block = f"WINDOW <w> {{ {pick(draw, BLOCKS)} }}"
    other = f"WINDOW <v> {{ {pick(draw, BLOCKS)} }}"
    plain = pick(draw, BLOCKS)
    kind = draw(st.integers(0, 11))
    if kind <= 3:
        return block
    if kind == 4:
        return f"{block} {other}"
    if kind == 5:
        return f"{block} OPTIONAL {{ {other} }}"
    if kind == 6:
        return f"{block} MINUS {{ {other} }}"
    if kind == 7:
        return plain
    if kind == 8:
        return f"{block} FILTER {pick(draw, ('NOT EXISTS', 'EXISTS'))} {{ {pick(draw, (plain, other))} }}"
    match = f"MATCH {pick(draw, ('', 'CONSUMING '))}{{ {events(draw, 2, [0])} }}"
    return f"{match} {pick(draw, ('', '', block, 'FILTER(?x != :b)'))}"


def query(draw: st.DrawFn, label: str, streams: Sequence[str], *, is_stream: bool) -> str:
    relation = pick(draw, ("RSTREAM", "ISTREAM", "DSTREAM"))
    form = "CONSTRUCT" if is_stream else pick(draw, ("SELECT", "SELECT", "SELECT", "AGGREGATE", "CONSTRUCT", "ASK"))
    every = f"COMPUTED EVERY {pick(draw, (2, 3))}s" if often(draw, 6) else ""
    froms = [
        f"FROM NAMED WINDOW <w> ON {pick(draw, streams)} [{spec(draw, reports=not every)}]",
        f"FROM NAMED WINDOW <v> ON {pick(draw, streams)} [{spec(draw, reports=not every)}]",
    ]
    froms += [f"FROM WINDOW ON {pick(draw, streams)} [{spec(draw, reports=not every)}]" for _ in range(draw(st.integers(0, 2)))]
    pattern = where(draw)
    lines = {
        "SELECT": pick(draw, ("SELECT *", "SELECT ?x", "SELECT DISTINCT ?x ?y", "SELECT ?x ?y")),
        "AGGREGATE": "SELECT (COUNT(*) AS ?n)",
        "CONSTRUCT": "CONSTRUCT { ?x :p ?y . ?y :q [ :p ?x ] }" if not is_stream else "CONSTRUCT { ?x :q ?y . ?x a :A }",
        "ASK": "ASK",
    }
    line = lines[form]
    head, _, template = line.partition("{")
    if form == "CONSTRUCT":
        # Variables of the template are bound by every pattern: x and y by a further optional block.
        pattern += " OPTIONAL { WINDOW <w> { ?x :p ?y } }"
        line = f"{head}{{{template}"
    return f"REGISTER {relation} <{label}> {every} AS {line} {' '.join(froms)} WHERE {{ {pattern} }}"


RULES = (
    "",
    "",
    "define Fire = [ [] a :A ; :p ?x ] from One and last One as Before within 6 s from One with Fire.?x = time(One)",
    "define Fire = [ [] :q ?x ] from Seen = [ SELECT ?x { ?x :p ?y } ] and not One within [0, 3 s] from Seen with Fire.?x = Seen.?x",
    "define Fire = [ [] :p ?x ] from One delayed by 2 s with Fire.?x = time(One)",
)


@st.composite
def continuous_programs(draw: st.DrawFn) -> ContinuousProgram:
    streams = [":s", ":t"]
    texts = [query(draw, "One", streams, is_stream=True)]
    rules = pick(draw, RULES)
    readable = [*streams, "<One>"]
    if often(draw, 2):
        texts.append(query(draw, "Two", readable, is_stream=False))
    if rules:
        texts.append(query(draw, "Three", [*readable, "<Fire>", "<Fire>"], is_stream=False))
    if len(texts) == 1 and often(draw, 2):
        texts = [query(draw, "One", streams, is_stream=False)]
    times = sorted(draw(st.lists(st.sampled_from([0, 1, 2, 3, 4, 5, 6, 7, 7.5, 8, 10, 19]), min_size=1, max_size=6)))
    elements = tuple((time, pick(draw, ("s", "s", "t")), graph(draw)) for time in times)
    return ContinuousProgram(
        "\n".join(draw(st.permutations(texts))),
        rules,
        pick(draw, DATALOG),
        pick(draw, BACKGROUND),
        pick(draw, ("none", "none", "none", "rdfs", "owl2rl")),
        pick(draw, (0, 0, 0, 1)),
        elements,
    )


KEPT_BLOCKS = (
    "?x :p ?y",
    "?x :v ?y",
    "?x :p ?y . ?y :q ?z",
    "?x :p ?z . ?x :v ?y",
    "{ ?x :p ?y } UNION { ?y :q ?x }",
    "{ ?x :p ?y } UNION { ?x :v ?y } UNION { ?x :p ?y }",
    "?x :v ?n FILTER(?n > 1) BIND(?n + 1 AS ?y)",
    "?x ?r ?n BIND(?n * 2 AS ?y)",
    "VALUES ?y { :a :b } ?x :p ?y",
    "?x :p ?y VALUES (?x ?y) { (:a UNDEF) (UNDEF :b) (:c :c) }",
    "{ SELECT DISTINCT ?x { ?x ?r ?y } } ?x :v ?y",
    "{ SELECT ?x (COUNT(*) AS ?y) { ?x ?r ?z } GROUP BY ?x }",
    "{ SELECT ?x (SUM(?n) AS ?y) { ?x :v ?n } GROUP BY ?x HAVING(COUNT(*) > 1) }",
    "?x :v ?y FILTER(!BOUND(?z))",
    "[] :p ?x . ?x ?r ?y",
    "?x ?r ?y",
    "?x :p ?y . :a :q :b",
)
PARTLY_KEPT_BLOCKS = (
    "?x :v ?y OPTIONAL { ?x :p ?z }",
    "?x :v ?y MINUS { ?x :p :a }",
    "?x :p ?y FILTER NOT EXISTS { ?y :p ?x }",
    "?x :v ?y . ?x :p+ ?z",
    "?x ?r ?y OPTIONAL { ?y :p ?z FILTER(?z != ?x) } MINUS { ?y :q ?x }",
    "?x :p ?y FILTER EXISTS { { ?y :p ?z } UNION { ?z :v ?n } FILTER(?z != ?x) }",
    "{ SELECT ?x ?y { ?x :v ?y } ORDER BY ?y ?x LIMIT 2 }",
)
KEPT_MATCHES = (
    "EVENT <w> { ?x :v ?y }",
    "EVENT <w> AT ?t { ?x :v ?n } SEQ EVENT <w> { ?x :p ?y }",
    "EVENT <w> { ?x :p ?y } SEQ EVENT <w> { ?y :p ?z } SEQ EVENT <w> { ?x ?r ?n FILTER(?n != ?x) }",
    "EVENT <w> { [] :p ?x } SEQ (EVENT <w> { ?y :p ?x } SEQ EVENT <w> AT ?u { ?y :v ?n })",
)
KEPT_LINES = (
    ("SELECT ?x ?y", ""),
    ("SELECT ?x", ""),
    ("SELECT *", ""),
    ("SELECT DISTINCT ?x", ""),
    ("SELECT (COUNT(*) AS ?total)", ""),
    ("SELECT (COUNT(DISTINCT *) AS ?total)", ""),
    ("SELECT ?x (COUNT(?y) AS ?total)", "GROUP BY ?x"),
    ("SELECT ?x (SUM(?y) AS ?total) (AVG(?y) AS ?other)", "GROUP BY ?x"),
    ("SELECT (SUM(DISTINCT ?y) AS ?total)", ""),
    ("SELECT (AVG(?y) AS ?total)", ""),
    ("SELECT ?y (MAX(?x) AS ?total) (MIN(?x) AS ?other)", "GROUP BY ?y HAVING(COUNT(*) > 1)"),
    ("SELECT (SAMPLE(?x) AS ?total) (GROUP_CONCAT(?x) AS ?other)", ""),
    ('SELECT (GROUP_CONCAT(?y) AS ?total) (GROUP_CONCAT(DISTINCT ?y; SEPARATOR="|") AS ?other)', ""),
    ("SELECT ?x ?y", "ORDER BY ?y DESC(?x) LIMIT 2"),
    ("SELECT DISTINCT ?x", "ORDER BY ?x LIMIT 1 OFFSET 1"),
    ("ASK", ""),
    ("CONSTRUCT { ?x :q ?y }", ""),
)


def kept_query(draw: st.DrawFn, label: str) -> str:
    """A query whose solutions, or parts of them, are maintained incrementally, over windows with small steps."""
    line, modifiers = pick(draw, KEPT_LINES)
    blocks = KEPT_BLOCKS * 3 + PARTLY_KEPT_BLOCKS
    froms, patterns = [], []
    for name in draw(st.sampled_from((("<w>",), ("<w>",), ("<w>", "<v>"), ("<w>", None), (None,)))):
        reports = pick(draw, ("", "REPORT ON CONTENT CHANGE", "REPORT ON WINDOW CLOSE", "REPORT PERIODIC 2s"))
        width = pick(draw, ("RANGE 6s STEP 1s", "RANGE 10s STEP 1s", "RANGE 20s STEP 2s", "LANDMARK STEP 1s LIMIT 100", "ELEMENTS 4"))
        level = pick(draw, ("", "", "", "ENTAILMENT NONE", "ENTAILMENT SNAPSHOT"))
        pattern = pick(draw, blocks)
        froms.append(f"FROM {'NAMED ' if name else ''}WINDOW {name or ''} ON {pick(draw, (':s', ':s', ':t'))} [{width} {reports} {level}]")
        patterns.append(f"WINDOW {name} {{ {pattern} }}" if name else f"{{ {pattern} }}")
    if "<v>" not in froms[-1] and often(draw, 4):
        patterns.append(pick(draw, ("{ ?x :p ?y }", "{ ?x a ?c }", "FILTER(?x != :a)", "BIND(1 AS ?k)", "VALUES ?x { :a :b :b }")))
    if "<w>" in froms[0] and often(draw, 5):
        match = f"MATCH {{ {pick(draw, KEPT_MATCHES)} }}"
        patterns[0:1] = pick(draw, ([match], [match, patterns[0]], [match, f"OPTIONAL {{ {patterns[0]} }}"]))
    text = f"REGISTER {pick(draw, ('RSTREAM', 'ISTREAM', 'DSTREAM'))} <{label}> AS {line} {' '.join(froms)}"
    return f"{text} WHERE {{ {' '.join(patterns)} }} {modifiers}"


@st.composite
def kept_programs(draw: st.DrawFn) -> ContinuousProgram:
    """A program with a query over windows that change little from report to report."""
    times = sorted(draw(st.lists(st.sampled_from([0, 0.5, 1, 2, 3, 4, 5, 6, 7, 7.5, 8, 9, 10, 13]), min_size=4, max_size=9)))
    elements = [(time, pick(draw, ("s", "s", "t")), " ".join(measured(draw) for _ in range(draw(st.integers(0, 5))))) for time in times]
    if often(draw, 3):
        elements.insert(1, elements[0])  # the same element twice
    return ContinuousProgram(
        kept_query(draw, "One"),
        "",
        pick(draw, ("", "", "", *DATALOG)),
        pick(draw, ("", "", ":a :p :b . :b :q :c . :a :v 2 .", *BACKGROUND)),
        pick(draw, ("none", "none", "none", "none", "rdfs")),
        pick(draw, (0, 0, 1)),
        tuple(elements),
    )


@st.composite
def joined_programs(draw: st.DrawFn) -> ContinuousProgram:
    """A program with a query over several default windows, mostly of equal steps, which may share one closure."""
    step = draw(st.integers(1, 3))
    froms = []
    for _ in range(draw(st.integers(2, 3))):
        reports = pick(draw, ("", "REPORT ON CONTENT CHANGE", "REPORT ON WINDOW CLOSE", "REPORT PERIODIC 2s"))
        width = f"RANGE {draw(st.integers(1, 9))}s STEP {step if draw(st.integers(0, 5)) else 2}s"
        start = pick(draw, ("STARTING AT 1", "ENTAILMENT NONE")) if often(draw, 12) else ""
        froms.append(f"FROM WINDOW ON {pick(draw, (':s', ':t'))} [{width} {reports} {start}]")
    line, modifiers = pick(draw, KEPT_LINES)
    register = f"REGISTER {pick(draw, ('RSTREAM', 'ISTREAM', 'DSTREAM'))} <One> AS {line}"
    text = f"{register} {' '.join(froms)} WHERE {{ {pick(draw, KEPT_BLOCKS * 2 + PARTLY_KEPT_BLOCKS)} }} {modifiers}"
    return replace(draw(kept_programs()), queries=text)


NUMBERS = ("1", "2", "0.2", "1.50", "1e0", "1e16", '"x"')


def measured(draw: st.DrawFn) -> str:
    subject = pick(draw, (":a", ":b", ":c", ":d"))
    kind = draw(st.integers(0, 5))
    if kind <= 2:
        return f"{subject} :v {pick(draw, NUMBERS)} ."
    if kind <= 4:
        return f"{subject} :{pick(draw, 'ppq')} {pick(draw, (':a', ':b', ':c', ':d'))} ."
    return pick(draw, (f"{subject} a :A .", f"[] :p {subject} ."))


def graph(draw: st.DrawFn) -> str:
    triples = draw(
        st.lists(
            st.sampled_from(
                [f":{s} :{p} :{o} ." for s in "abc" for p in "pq" for o in "abc"]
                + [f":{s} a :{c} ." for s in "abc" for c in "AB"]
                + ["[] :p :a .", "_:n :p _:m . _:m :q :b ."]
            ),
            max_size=4,
        )
    )
    return " ".join(triples)
