"""Random programs for property tests: rule files, Datalog files and graphs as text.

Names and values are those of `strategies_streams`. The programs cover the whole grammar; expressions,
queries and rules have modules of their own.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from hypothesis import strategies as st

from dotr.model.places import Document
from dotr.model.time import Clock, Unit
from dotr.syntax.datalog import parse_datalog
from tests.oracle.closure import stratified
from tests.support.strategies_expressions import condition, conditions, operand
from tests.support.strategies_queries import constraints, queries
from tests.support.strategies_rules import Readable, Shared, rules
from tests.support.strategies_streams import CLASSES, HEADER, NAMES, NAMESPACE, PROPERTIES, VALUES, pick, triples, turtle


@dataclass(frozen=True)
class Features:
    """Options of a generated program."""

    negation: bool = False
    """NOT and AGGREGATE in Datalog."""
    plain: bool = False
    """Queries of triple patterns alone, and no Datalog, so that more rules have matches."""
    instant: bool = False
    """Rules that read only their own instant."""


CORE = Features()
STRATIFIED = Features(negation=True)
PLAIN = Features(plain=True)


@dataclass(frozen=True)
class ProgramText:
    """The texts of a program, and the form of its stream's times. Empty lines separate the statements of its rules."""

    rules: str
    datalog: str
    background: str
    entailment: str
    clock: Clock = field(default_factory=Clock)


# --- rule files ---

EXPECTED = ("x", "v", "y", "a")
"""Attributes of a rule's anchor that the constraints of a shared query may read."""


@st.composite
def shared_queries(draw: st.DrawFn, label: str, plain: bool) -> tuple[str, Shared]:
    """A shared query, sometimes with temporal constraints, which are resolved in each rule that reads it."""
    expects: tuple[str, ...] = ()
    if draw(st.integers(0, 2)) == 0:
        expects = tuple(draw(st.permutations(EXPECTED)))[: draw(st.integers(1, 2))]
    query = draw(queries((), plain))
    text = query.text
    if expects and text.count("WHERE { ") == 1:
        outer = [*(f"L0.?{name}" for name in expects), "time(L0)"]
        made = draw(constraints([f"?{v}" for v in query.usable], outer))
        text = text.replace("WHERE { ", f"WHERE {{ FILTER({made}) ")
        return f"query {label} = [ {text} ]", Shared(query.projected, tuple(("L0", name) for name in expects))
    return f"query {label} = [ {text} ]", Shared(query.projected)


LEVELS = ([0], [0, 1], [0, 1, 1], [0, 1, 2], [0, 0, 1], [0, 0])


@st.composite
def rule_files(draw: st.DrawFn, features: Features) -> str:
    """Shared queries and one to three rules. A rule reads lower-numbered events at the same instant, and any event in the past; an event of
    several rules has the attributes of all."""
    shared: dict[str, Shared] = {}
    parts = []
    for label in pick(draw, [[], ["Q0"], ["Q0", "Q1"]]):
        text, found = draw(shared_queries(label, features.plain))
        parts.append(text)
        shared[label] = found
    levels = pick(draw, LEVELS)
    own = [pick(draw, [("a",), ("a", "b"), ("a", "x"), ()]) for _ in levels]
    of: dict[str, Shared] = {}
    for level, names in zip(levels, own, strict=True):
        known = of[f"F{level}"].attributes if f"F{level}" in of else ()
        of[f"F{level}"] = Shared(tuple(sorted({*known, *names})))
    named: set[str] = set()
    for number, level in enumerate(levels):
        event = f"F{level}"
        below = {name: each for name, each in of.items() if name < event}
        name = pick(draw, [f"R{number}", f"R{number}", f"R-{number}", ""])
        if name == "" and event in named:
            name = f"R{number}"
        named.add(name or event)
        readable = Readable(shared, below, below if features.instant else of, features.plain, features.instant)
        parts.append(draw(rules(name, event, readable, own[number])))
    if draw(st.booleans()):
        parts.reverse()
    parts = [re.sub(r"\?(?=[A-Za-z_])", "$", part) if draw(st.integers(0, 11)) == 11 else part for part in parts]
    header = HEADER
    if draw(st.integers(0, 5)) == 5:
        header += f"prefix e.x: <{NAMESPACE}>\n"
        parts = [re.sub(r"(?<=[ (|/^!]):(?=[pqrs]\b)", "e.x:", part) for part in parts]
    return "\n\n".join([header, *parts])


# --- Datalog and whole programs ---


@st.composite
def atoms(draw: st.DrawFn, bracket: bool) -> tuple[str, list[str]]:
    """An atom in one of the two notations, and its variables."""
    a, b = pick(draw, ["?a", "?b", "?c"]), pick(draw, ["?a", "?b", "?c", pick(draw, NAMES)])
    variables = [word for word in (a, b) if word.startswith("?")]
    if draw(st.integers(0, 3)) == 0:
        class_ = pick(draw, CLASSES)
        return (f"[{a}, a, {class_}]" if bracket else f"{class_}({a})"), [a]
    name = pick(draw, PROPERTIES)
    return (f"{name}[{a}, {b}]" if bracket else f"{name}({a}, {b})"), variables


@st.composite
def datalog_rules(draw: st.DrawFn, features: Features) -> str:
    bracket = draw(st.booleans())
    body, variables = [], []
    for _ in range(draw(st.integers(1, 3))):
        atom, more = draw(atoms(bracket))
        body.append(atom)
        variables += more
    if draw(st.integers(0, 3)) == 0:
        body.append(f"FILTER({draw(conditions(variables, VALUES))})")
    if features.negation and draw(st.booleans()):
        negated = [f"{pick(draw, [*PROPERTIES, ':given'])}[{pick(draw, variables)}, ?d]", draw(atoms(bracket))[0]][: pick(draw, [1, 1, 2])]
        body.append(f"NOT({', '.join(negated)})" if len(negated) > 1 else f"NOT {negated[0]}")
    if features.negation and draw(st.integers(0, 2)) == 0:
        # A count is the object of a property that no other body reads, so that few programs are refused.
        key, function = pick(draw, variables), pick(draw, ["COUNT(?e)", "SUM(?e)", "MAX(DISTINCT ?e)", "COUNT(*)"])
        body.append(f"AGGREGATE({pick(draw, PROPERTIES)}[{key}, ?e] ON {key} BIND {function} AS ?n)")
        if draw(st.integers(0, 2)) == 0:
            body.append(f"AGGREGATE({pick(draw, PROPERTIES)}[?e, {key}] ON {key} BIND COUNT(?e) AS ?m), FILTER(?m >= ?n)")
        return f":counted[{key}, ?n] :- {', '.join(draw(st.permutations(body)))} ."
    if draw(st.integers(0, 4)) == 0:
        # A computed value is the object of a property that no body reads: recursion over new values would not end.
        body.append(f"BIND({pick(draw, variables)} + 1 AS ?w)")
        head = f":computed[{pick(draw, variables)}, ?w]"
    else:
        head = draw(atoms(bracket).filter(lambda made: set(made[1]) <= set(variables)))[0]
    return f"{head} :- {', '.join(draw(st.permutations(body)))} ."


@st.composite
def schemas(draw: st.DrawFn) -> str:
    """Some triples of RDFS and OWL."""
    lines = []
    for _ in range(draw(st.integers(1, 3))):
        c, d = pick(draw, CLASSES), pick(draw, CLASSES)
        p, q = pick(draw, PROPERTIES), pick(draw, PROPERTIES)
        lines.append(
            draw(
                st.sampled_from(
                    [
                        f"{c} rdfs:subClassOf {d} .",
                        f"{p} rdfs:subPropertyOf {q} .",
                        f"{p} rdfs:domain {c} .",
                        f"{p} rdfs:range {c} .",
                        f"{p} owl:inverseOf {q} .",
                        f"{p} a owl:TransitiveProperty .",
                        f"{p} a owl:SymmetricProperty .",
                        f"{c} owl:equivalentClass {d} .",
                        f"{c} owl:unionOf ({d} :B) .",
                        f"{p} owl:propertyChainAxiom ({q} {p}) .",
                        f"{c} owl:onProperty {p} ; owl:someValuesFrom {d} .",
                    ]
                )
            )
        )
    return "\n".join(lines) + "\n"


GRAPH_HEADER = (
    f"@prefix : <{NAMESPACE}> .\n@prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .\n@prefix owl: <http://www.w3.org/2002/07/owl#> .\n"
)


CLOCKS = (Clock(), Clock(), Clock(), Clock(Unit.SECOND, dated=True), Clock(Unit.MILLISECOND))


def stratified_of(rules: Sequence[str]) -> list[str]:
    """The rules without those that would close a cycle through NOT or AGGREGATE."""
    kept: list[str] = []
    for rule in rules:
        try:
            stratified(parse_datalog(Document("random.dlog", HEADER + "\n".join([*kept, rule])), {}))
        except ValueError:
            continue
        kept.append(rule)
    return kept


@st.composite
def programs(draw: st.DrawFn, features: Features = CORE, entailments: Sequence[str] = ("none",)) -> ProgramText:
    entailment = pick(draw, list(entailments))
    datalog = "\n".join(
        stratified_of(draw(st.lists(datalog_rules(features), max_size=0 if features.plain else 4 if features.negation else 2)))
    )
    background = GRAPH_HEADER + turtle(draw(triples(blanks=1)))
    if entailment != "none":
        background += draw(schemas())
    return ProgramText(draw(rule_files(features)), HEADER + datalog, background, entailment, pick(draw, CLOCKS))


# --- programs with many queries or expressions ---

FACT = "SELECT ?x ?v ?y WHERE { ?x :p ?v OPTIONAL { ?x :q ?y } }"


@st.composite
def programs_of_queries(draw: st.DrawFn) -> ProgramText:
    """Some shared queries, whose facts are compared, and an arbitrary rule."""
    found = [draw(queries()) for _ in range(5)]
    shared = [f"query Q{number} = [ {query.text} ]" for number, query in enumerate(found)]
    background = GRAPH_HEADER + turtle(draw(triples(blanks=1)))
    return ProgramText("\n\n".join([HEADER, *shared, "define F = [ [] a :F ] from Q0"]), HEADER, background, "none")


@st.composite
def programs_of_expressions(draw: st.DrawFn) -> ProgramText:
    """A rule with many assignments, over pairs of facts and aggregates of their values, including numbers of all types."""
    terms = [
        *(f"{label}.?{v}" for label in ("Now", "Then") for v in ("x", "v", "v", "y")),
        "time(Now)",
        "time(Then)",
        "?sum",
        "?least",
        "?mean",
    ]
    names = "abcdefgh"
    assigned = ", ".join(f"F.?{name} = {operand(draw, terms)}" for name in names[:-2])
    tested = ", ".join(f"F.?{name} = IF({condition(draw, terms, terms)}, 1, 0)" for name in names[-2:])
    mean = pick(draw, ("avg(", "median(", "quantile(0.3, ", "variance(", "stddev("))
    rule = f"""define F = [ {" . ".join(f"[] :{name} ?{name}" for name in names)} ]
from Fact as Now
and each Fact as Then within [0, {draw(st.integers(0, 3))} s] from Now
and ?sum = sum({pick(draw, ("", "distinct "))}S.?v) of Fact as S [ FILTER(isNumeric(?v)) ] within [0, 5 s] from Now
and ?mean = {mean}M.?v) of Fact as M [ FILTER(isNumeric(?v)) ] within [0, 2 s] from Now
and ?least = {pick(draw, ("min", "max"))}(L.?v) of Fact as L within [0, 5 s] from Now
with {assigned}, {tested}"""
    return ProgramText("\n\n".join([HEADER, f"query Fact = [ {FACT} ]", rule]), HEADER, GRAPH_HEADER, "none", pick(draw, CLOCKS))
