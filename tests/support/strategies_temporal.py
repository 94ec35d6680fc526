"""Random programs of EP-SPARQL, rules, shared queries and Datalog over one stream, and their results by the oracle.

They cover the whole grammar: nested chains, UNION, optional operators with F, policies, WITHIN at several depths, BIND, functions of the
interval, EVENT of every language with attributes that events may lack, STREAMs that other units and themselves read, DISTINCT.
Programs that are refused (a cycle at one moment, an unsatisfiable bound) are skipped.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from hypothesis import assume
from hypothesis import strategies as st

from dotr.languages.epsparql.reading import compile_temporal
from dotr.languages.rules import compile_rules
from dotr.model.places import Document
from dotr.model.stream import Element
from dotr.model.time import Micros
from dotr.model.units import UnitEvents
from tests.oracle.cases import read_turtle, world
from tests.oracle.isomorphism import canonical
from tests.oracle.units import UnitsResult, run_units
from tests.support.strategies_continuous import SECOND, often, pick

PREFIXES: Final = {
    "": "http://example.org/",
    "xsd": "http://www.w3.org/2001/XMLSchema#",
    "rdfs": "http://www.w3.org/2000/01/rdf-schema#",
}
MOST: Final = 300
MOST_PAIRS: Final = 20_000

PLAIN: Final = (
    ("?x :p ?y", "xy"),
    ("?x :p ?y", "xy"),
    ("?y :q ?x", "xy"),
    ("?x :v ?n", "xn"),
    ("?x :v ?n", "xn"),
    ("?x :v ?m", "xm"),
    ("?x a :A", "x"),
    ("?y a :B", "y"),
    ("?x :p ?y . ?y :v ?n", "xyn"),
    ("[] :p ?x", "x"),
    (":a ?r ?y", "ry"),
    ("?x :p ?y FILTER(?y != :b)", "xy"),
    ("?x :v ?n FILTER(?n > 1)", "xn"),
    ("?x :p ?y OPTIONAL { ?y :v ?m }", "xym"),
    ("?x :p+ ?y", "xy"),
    ("?x a :A MINUS { ?x a :B }", "x"),
    ("?x :p ?y FILTER NOT EXISTS { ?y a :A }", "xy"),
    ("VALUES ?x { :a :b } ?x :v ?n", "xn"),
    ("?x :v ?n BIND(?n + 1 AS ?k)", "xnk"),
    ('?x :v ?n FILTER(getDURATION() < "PT2S"^^xsd:duration)', "xn"),
    ("?x :rose ?n BIND(getSTARTTIME() AS ?g)", "xng"),
    ("{ ?x :p ?y } UNION { ?y :q ?x }", "xy"),
    ("{ ?x :p ?y } UNION { ?x :v ?n } FILTER(?x != :c)", "xyn"),
)
CONSTRUCTED: Final = (
    ("?x :rose ?n", "xn"),
    ("?x :rose ?n", "xn"),
    ("?x :up ?y", "xy"),
    ("?z :rose ?n ; :of ?x", "zxn"),
    ("?x :dur ?d", "xd"),
)
CONDITIONS: Final = (
    ("?n < ?m", "nm"),
    ("?n <= ?m + 1", "nm"),
    ("?x != ?y", "xy"),
    ("BOUND(?n)", "n"),
    ("!BOUND(?m)", "m"),
    ("sameTerm(?x, ?y) || ?n > 0", "xyn"),
    ('getDURATION() <= "PT3S"^^xsd:duration', ""),
    ('getDURATION() > "PT1S"^^xsd:dayTimeDuration', ""),
    ('"PT4S"^^xsd:duration >= getDURATION() && ?x = ?x', "x"),
    ("getENDTIME() > 3", ""),
    ("getSTARTTIME() < 6", ""),
    ("?n = 1 || getENDTIME() - getSTARTTIME() < 3", "n"),
    ("?d > getDURATION()", "d"),
)
VALUES: Final = (
    ("getDURATION()", ""),
    ("?n + 1", "n"),
    ("?n + ?m", "nm"),
    ("getENDTIME()", ""),
    ("1 / ?n", "n"),
    ("IF(BOUND(?y), ?y, ?x)", "xy"),
)
TRIPLES: Final = (
    *[f":{s} :{p} :{o} ." for s in "abc" for p in "pq" for o in "abc"],
    *[f":{s} :v {n} ." for s in "abc" for n in ("0", "1", "2", "1.0", "3")],
    *[f":{s} a :{c} ." for s in "abc" for c in "AB"],
    ":a :rose 1 .",
    ":b :up :c .",
    "[] :p :a .",
    "_:n :p :b . _:n :v 2 .",
)
RULES: Final = (
    "",
    "",
    "define Fire = [ [] a :A ; :q ?x ] from Seen with Fire.?x = Seen.?x, Fire.?n = Seen.?y + 1",
    "define Fire = [ [] :p ?n ] from Valued = [ SELECT ?x ?n { ?x :v ?n } ] with Fire.?x = Valued.?x, Fire.?n = 1 / Valued.?n",
    "define Fire = [ [] :p ?x ] from One and last One as Before within 6 s from One with Fire.?x = time(Before), Fire.?n = time(One)",
    "define Fire = [ [] :p ?x ] from Two delayed by 2 s with Fire.?x = time(Two), Fire.?n = 1",
    "define Fire = [ [] :q ?x ] from Seen and not Two within [0, 3 s] from Seen with Fire.?x = Seen.?x, Fire.?n = 2",
)
DATALOG: Final = ("", "", "", ":p(?x, ?z) :- :p(?x, ?y), :p(?y, ?z) .", ":B(?x) :- :A(?x), NOT :p(?x, :a) .")
BACKGROUND: Final = ("", "", ":a a :A . :c :v 1 .", ":p rdfs:subPropertyOf :q . :b :q :c .")


@dataclass(frozen=True)
class TemporalProgram:
    """Texts of a program, and elements: second, Turtle."""

    units: str
    rules: str
    datalog: str
    background: str
    entailment: str
    elements: tuple[tuple[float, str], ...]


@dataclass
class Writer:
    """A generator of one unit. `readable`: labels that EVENT may read, with their attributes; `bound`: number of variables of BIND."""

    draw: st.DrawFn
    readable: Sequence[tuple[str, str]]
    bound: list[int] = field(default_factory=lambda: [0])

    def plain(self) -> tuple[str, frozenset[str]]:
        text, names = pick(self.draw, CONSTRUCTED if often(self.draw, 4) else PLAIN)
        return f"{{ {text} }}", frozenset(names)

    def event(self) -> tuple[str, frozenset[str]]:
        label, attributes = pick(self.draw, self.readable)
        names = {attribute: pick(self.draw, "xynm") for attribute in attributes if not often(self.draw, 3)}
        if len(set(names.values())) < len(names):
            names = {}
        inner = ", ".join(f"?{attribute}" if attribute == name else f"?{attribute} AS ?{name}" for attribute, name in names.items())
        return f"EVENT {label}({inner})" if inner or often(self.draw, 2) else f"EVENT {label}", frozenset(names.values())

    def operand(self, depth: int) -> tuple[str, frozenset[str]]:
        kind = self.draw(st.integers(0, 9))
        if depth and kind <= 3:
            text, names = self.chain(depth - 1)
            return f"{{ {text} }}", names
        if kind <= 5 and self.readable and often(self.draw, 2):
            return self.event()
        return self.plain()

    def united(self, depth: int) -> tuple[str, frozenset[str]]:
        text, names = self.operand(depth)
        if often(self.draw, 8):
            other, more = self.operand(max(depth - 1, 0))
            return f"{text} UNION {other}", names | more
        return text, names

    def condition(self, names: frozenset[str]) -> str:
        usable = [text for text, needed in CONDITIONS if set(needed) <= names]
        return f"FILTER({pick(self.draw, usable)})"

    def optional(self, depth: int) -> tuple[str, frozenset[str]]:
        """An optional operand, often with an F."""
        if often(self.draw, 2):
            text, names = pick(self.draw, [each for each in PLAIN if "{" not in each[0] and "BIND" not in each[0]])
            own = frozenset(names)
            return f"{{ {text} {self.condition(own | frozenset('nm'))} }}", own
        return self.operand(depth)

    def chain(self, depth: int) -> tuple[str, frozenset[str]]:
        left, names = self.united(depth)
        for number in range(self.draw(st.sampled_from((0, 1, 1, 1, 2)) if depth else st.sampled_from((1, 1, 2)))):
            operator = pick(self.draw, ("SEQ", "SEQ", "SEQ", "AND", "EQUALS", "OPTIONALSEQ", "EQUALSOPTIONAL"))
            if operator == "OPTIONALSEQ" and number == 0:
                left, names = self.optional(depth)
            right, more = self.optional(depth) if operator == "EQUALSOPTIONAL" else self.united(depth)
            left, names = f"{left} {operator} {right}", names | more
        end: list[str] = []
        if often(self.draw, 5):
            usable = [text for text, needed in VALUES if set(needed) <= names]
            self.bound[0] += 1
            name = f"b{self.bound[0]}"
            end.append(f"BIND({pick(self.draw, usable)} AS ?{name})")
            names |= {name}
        end += [self.condition(names) for _ in range(self.draw(st.sampled_from((0, 0, 1))))]
        if often(self.draw, 4):
            end.append(f"WITHIN {pick(self.draw, (1, 2, 3, 5))} s")
        return " ".join([left, *end]), names

    def where(self) -> tuple[str, frozenset[str]]:
        text, names = self.chain(self.draw(st.sampled_from((0, 1, 1, 2))))
        if "WITHIN" not in text.rpartition("}")[2]:
            text += (
                f" WITHIN {pick(self.draw, (1, 2, 3, 4, 6, 9))} s"
                if not often(self.draw, 6)
                else ' FILTER(getDURATION() < "PT5S"^^xsd:duration)'
            )
        policy = pick(self.draw, ("", "", "", "POLICY UNRESTRICTED", "POLICY CHRONOLOGICAL", "POLICY RECENT", "POLICY RECENT"))
        return f"{text} {policy}", names

    def stream(self, label: str) -> str:
        text, names = self.where()
        usable = sorted(names)
        x, y = (f"?{pick(self.draw, usable)}" if usable else ":none" for _ in range(2))
        template = pick(self.draw, ("{x} :rose {y}", "{x} :up {y} . {y} :up {x}", "[] :rose {y} ; :of {x}", "{x} :dur {y} . :a :rose {y}"))
        return f"REGISTER STREAM {label} AS CONSTRUCT {{ {template.format(x=x, y=y)} }} WHERE {text}"

    def query(self, label: str) -> tuple[str, frozenset[str]]:
        if often(self.draw, 12):
            return f"REGISTER QUERY {label} AS SELECT ?x (COUNT(*) AS ?n) WHERE {{ ?x :p ?y }} GROUP BY ?x", frozenset("xn")
        text, names = self.where()
        if often(self.draw, 5) or not names:
            return f"REGISTER QUERY {label} AS SELECT * WHERE {text}" if names else self.interval(label, text), names or frozenset("s")
        shown = [name for name in sorted(names) if not often(self.draw, 3)] or [min(names)]
        line = " ".join(f"?{name}" for name in shown)
        if often(self.draw, 2):
            value, _ = pick(self.draw, [each for each in VALUES if set(each[1]) <= names])
            line += f" ({value} AS ?e)"
            shown.append("e")
        return f"REGISTER QUERY {label} AS SELECT {pick(self.draw, ('', '', 'DISTINCT '))}{line} WHERE {text}", frozenset(shown)

    @staticmethod
    def interval(label: str, text: str) -> str:
        return f"REGISTER QUERY {label} AS SELECT (getSTARTTIME() AS ?s) WHERE {text}"


@st.composite
def temporal_programs(draw: st.DrawFn) -> TemporalProgram:
    rules = pick(draw, RULES)
    shared = "query Seen = [ SELECT ?x ?y { ?x :p ?y OPTIONAL { ?y :v ?z } } ]\n"
    readable = [("Seen", "xy"), *([("Fire", "xn")] if rules else [])]
    texts = [Writer(draw, readable).stream("One")]
    text, shown = Writer(draw, [*readable, *([("One", "")] * 2)]).query("Two")
    texts.append(text)
    if often(draw, 2):
        texts.append(
            Writer(draw, [*readable, ("Two", "".join(name for name in sorted(shown) if len(name) == 1)), ("One", "")]).query("Three")[0]
        )
    if often(draw, 4):
        texts.append(Writer(draw, [*readable, ("One", "")]).stream("Four"))
    times = sorted(draw(st.lists(st.sampled_from([0, 1, 1, 2, 2, 3, 3, 4, 5, 5, 6, 7, 7.5, 9]), min_size=2, max_size=9)))
    elements = tuple((time, " ".join(draw(st.lists(st.sampled_from(TRIPLES), min_size=1, max_size=3)))) for time in times)
    return TemporalProgram(
        "\n".join(draw(st.permutations(texts))),
        shared + rules,
        pick(draw, DATALOG),
        pick(draw, BACKGROUND),
        pick(draw, ("none", "none", "none", "rdfs")),
        elements,
    )


Row = tuple[Micros, str, object]
"""Time, label, and attributes and graph up to names."""


def brute_force(program: TemporalProgram) -> UnitsResult:
    """The result of the oracle. Programs that are refused, or whose answer depends on names, are skipped."""
    read = compile_temporal([Document("q.epsparql", program.units)], PREFIXES)
    assert all(each.code in ("E112", "E113", "E201", "E202") for each in read.errors), "\n".join(map(str, read.errors))
    assume(not read.errors)
    events = [UnitEvents(unit.label, unit.attributes, unit.label_span, unit.makes_graphs) for unit in read.units]
    rules = compile_rules([Document("r.dotr", program.rules)], PREFIXES, units=events)
    assume(not rules.errors)
    datalog = [("k.dlog", program.datalog)] if program.datalog else []
    known = world(rules, [program.background], datalog, program.entailment, PREFIXES)
    arrived = [("s", Element(int(at * SECOND), read_turtle(turtle, PREFIXES))) for at, turtle in program.elements]
    try:
        expected = run_units(known, (), arrived, 0, MOST, temporal=read.units, most_pairs=MOST_PAIRS)
    except ValueError as cycle:
        assume("a cycle" not in str(cycle))
        raise
    assume(not expected.decided_by_names and not expected.too_much)
    return expected


def rows_of(expected: UnitsResult) -> Counter[Row]:
    """The events of a result, comparable with those of another."""
    return Counter((each.time, each.event, canonical(each.graph, each.attributes)) for each in expected.outputs)
