"""Random programs for property tests: rule files, Datalog files and graphs as text, over the small world of `strategies_streams`.

`Features` switches on what the engine cannot evaluate yet.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from hypothesis import strategies as st

from tests.strategies_streams import CLASSES, HEADER, NAMES, NAMESPACE, NUMBERS, PROPERTIES, VALUES, triples, turtle


@dataclass(frozen=True)
class Features:
    """What a generated program may hold beyond the core."""

    general: bool = False
    """MINUS, EXISTS and NOT EXISTS in queries."""
    counts: bool = False
    """`last n` and `first n`."""
    absent: bool = False
    aggregates: bool = False
    recursion: bool = False
    """A rule that reads its own event, strictly in the past."""
    timers: bool = False
    """Ticks and delayed anchors."""
    negation: bool = False
    """NOT in Datalog."""


CORE = Features()
GENERAL = Features(general=True)
ALL = Features(general=True, counts=True, absent=True, aggregates=True, recursion=True, timers=True, negation=True)


@dataclass(frozen=True)
class ProgramText:
    """A program as its author would write it."""

    rules: str
    datalog: str
    background: str
    entailment: str


@dataclass(frozen=True)
class Query:
    """A query under way: its text without the brackets, its attributes, and the variables that a constraint may use."""

    text: str
    projected: tuple[str, ...]
    usable: tuple[str, ...]


@dataclass
class Bound:
    """What a rule has bound so far: for every label its attributes; and its aggregate variables."""

    attributes: dict[str, tuple[str, ...]] = field(default_factory=dict)
    aggregates: list[str] = field(default_factory=list)

    def terms(self) -> list[str]:
        """`M.?v` for every attribute bound."""
        return [f"{label}.?{v}" for label, names in self.attributes.items() for v in names]


# --- expressions ---


@st.composite
def operands(draw: st.DrawFn, terms: Sequence[str]) -> str:
    """A term or a small computation."""
    simple = draw(st.sampled_from([*terms, *terms, draw(st.sampled_from([*VALUES, *NAMES]))]))
    match draw(st.integers(0, 9)):
        case 0:
            return f"({simple} {draw(st.sampled_from('+-*/'))} {draw(st.sampled_from([*terms, *NUMBERS]))})"
        case 1:
            return f"COALESCE({simple}, {draw(st.sampled_from([*VALUES, *NAMES]))})"
        case 2:
            return f"STR({simple})"
        case 3:
            return f"xsd:{draw(st.sampled_from(['integer', 'decimal', 'double', 'string', 'boolean']))}({simple})"
        case _:
            return simple


@st.composite
def conditions(draw: st.DrawFn, left: Sequence[str], right: Sequence[str], depth: int = 1) -> str:
    """A condition that compares the one with the other."""
    shape = draw(st.integers(0, 9))
    if depth and shape == 0:
        a, b = (draw(conditions(left, right, depth - 1)) for _ in range(2))
        return f"({a} {draw(st.sampled_from(['&&', '||']))} {b})"
    if depth and shape == 1:
        return f"!({draw(conditions(left, right, depth - 1))})"
    attributes = [term for term in left if "?" in term]
    if shape == 2 and attributes:
        return f"BOUND({draw(st.sampled_from(attributes))})"
    if shape == 3:
        listed = ", ".join(draw(st.lists(operands(right), min_size=1, max_size=2)))
        return f"{draw(operands(left))} {draw(st.sampled_from(['IN', 'NOT IN']))} ({listed})"
    operator = draw(st.sampled_from(["=", "=", "=", "!=", "<", "<=", ">", ">="]))
    a, b = draw(operands(left)), draw(operands(right))
    return f"{a} {operator} {b}" if draw(st.booleans()) else f"{b} {operator} {a}"


# --- queries ---


USUAL = (
    "?x a :A . ?x :p ?v .",
    "?x a :B .",
    "?x :q ?y .",
    "?x :p ?v .",
    "?x a ?c . ?x :q ?y . ?y :p ?v .",
    "?x a :A . ?x :q ?y .",
    "?x :r ?v .",
)


@st.composite
def patterns(draw: st.DrawFn) -> tuple[str, list[str]]:
    """Some triple patterns and their variables."""
    if draw(st.sampled_from([True, True, True, False])):
        text = draw(st.sampled_from(USUAL))
        return text, [word[1:] for word in text.split() if word.startswith("?")]
    parts, variables = [], []
    for _ in range(draw(st.integers(1, 2))):
        subject = draw(st.sampled_from(["?x", "?x", "?y", "?x", ":n0"]))
        predicate = draw(st.sampled_from(["a", *PROPERTIES, *PROPERTIES, "?e"]))
        if predicate == "a":
            value = draw(st.sampled_from([*CLASSES, *CLASSES, "?c"]))
        elif predicate in (":p", ":r"):
            value = draw(st.sampled_from(["?v", "?v", "?u", "?x", draw(st.sampled_from(VALUES))]))
        else:
            value = draw(st.sampled_from(["?y", "?y", "?z", "?x", draw(st.sampled_from(NAMES))]))
        parts.append(f"{subject} {predicate} {value} .")
        variables += [word[1:] for word in (subject, predicate, value) if word.startswith("?")]
    return " ".join(parts), variables


@st.composite
def queries(draw: st.DrawFn, features: Features, outer: Sequence[str] = ()) -> Query:
    """A SELECT query; `outer` are the `M.?v` that its temporal constraints may use."""
    text, variables = draw(patterns())
    for _ in range(draw(st.sampled_from([0, 1, 0, 0, 2]))):
        match draw(st.integers(0, 8 if features.general else 5)):
            case 0:
                inner, more = draw(patterns())
                condition = f" FILTER({draw(conditions([f'?{v}' for v in [*variables, *more]], VALUES))})" if draw(st.booleans()) else ""
                text += f" OPTIONAL {{ {inner}{condition} }}"
                variables += more
            case 1:
                (one, first), (two, second) = draw(patterns()), draw(patterns())
                text += f" {{ {one} }} UNION {{ {two} }}"
                variables += [*first, *second]
            case 2:
                v = draw(st.sampled_from(variables)) if variables else "x"
                listed = draw(st.lists(st.sampled_from([*NAMES, *VALUES, "UNDEF"]), min_size=1, max_size=3))
                text += f" VALUES ?{v} {{ {' '.join(listed)} }}"
                variables.append(v)
            case 3 if "w" not in variables:
                text += f" BIND({draw(operands([f'?{v}' for v in variables] or ['1']))} AS ?w)"
                variables.append("w")
            case 4 | 5:
                text += f" FILTER({draw(conditions([f'?{v}' for v in variables] or ['1'], VALUES))})"
            case 6:
                text += f" MINUS {{ {draw(patterns())[0]} }}"
            case 7 | 8:
                text += f" FILTER {draw(st.sampled_from(['EXISTS', 'NOT EXISTS']))} {{ {draw(patterns())[0]} }}"
            case _:
                pass
    known = sorted(set(variables)) or ["x"]
    if not variables:
        text += " ?x a :A ."
    projected = tuple(draw(st.permutations(known)))[: draw(st.sampled_from([3, 2, 1]))]
    distinct = draw(st.integers(0, 4)) == 0
    usable = projected if distinct else tuple(known)
    for _ in range(draw(st.sampled_from([0, 1, 1, 0, 2])) if outer else 0):
        text += f" FILTER({draw(constraints(usable, outer))})"
    columns = " ".join(f"?{v}" for v in projected)
    return Query(f"SELECT {'DISTINCT ' if distinct else ''}{columns} WHERE {{ {text} }}", projected, usable)


@st.composite
def constraints(draw: st.DrawFn, own: Sequence[str], outer: Sequence[str]) -> str:
    """A temporal constraint: most of them the equality that a key is made from."""
    v, other = draw(st.sampled_from(list(own))), draw(st.sampled_from(list(outer)))
    alike = [(mine, o) for mine in own for o in outer if o.endswith(f".?{mine}")]
    if alike and draw(st.integers(0, 2)) > 0:
        v, other = draw(st.sampled_from(alike))
    if draw(st.sampled_from([True, True, False])):
        return f"?{v} = {other}" if draw(st.booleans()) else f"{other} = ?{v}"
    return draw(conditions([f"?{v}" for v in own], [other]).filter(lambda c: other in c))


# --- rules ---

SHARED = {"Q0": 0, "Q1": 1}


@st.composite
def windows(draw: st.DrawFn, strict: bool = False) -> str:
    """A window's extent; `strict` ones leave out the present."""
    match draw(st.integers(0, 4)):
        case 0 | 1:
            return f"{draw(st.sampled_from([8, 5, 3, 2, 1]))} s"
        case 2 if not strict:
            return "[0, 0]"
        case 3 if not strict:
            return f"[0, {draw(st.integers(0, 5))} s]"
        case _:
            low = draw(st.integers(0, 3))
            high = low + draw(st.integers(1, 4))
            opening = "(" if strict and low == 0 else draw(st.sampled_from("[("))
            closing = draw(st.sampled_from("])"))
            return f"{opening}{low} s, {high} s{closing}"


@st.composite
def events(
    draw: st.DrawFn, label: str, bound: Bound, readable: dict[str, tuple[str, ...]], features: Features
) -> tuple[str, tuple[str, ...], str]:
    """The text of an event, its attributes, and the label that it reads (itself for a query of the rule's own)."""
    outer = [*bound.terms(), *bound.aggregates]
    if not readable or draw(st.booleans()):
        query = draw(queries(features, outer))
        return f"{label} = [ {query.text} ]", query.projected, label
    origin = draw(st.sampled_from([*readable, *(r for r in readable if r.startswith("F"))]))
    names = readable[origin]
    text = f"{origin} as {label}"
    if len(names) > 0 and draw(st.booleans()):
        if outer:
            filters = [draw(constraints(names, outer)) for _ in range(draw(st.sampled_from([1, 1, 2])))]
        else:
            filters = [draw(conditions([f"?{v}" for v in names], VALUES))]
        text += f" [ {' '.join(f'FILTER({f})' for f in filters)} ]"
    return text, names, origin


@st.composite
def anchors(
    draw: st.DrawFn, event: str, readable: dict[str, tuple[str, ...]], own: tuple[str, ...], features: Features
) -> tuple[str, tuple[str, ...]]:
    """The text of an anchor labelled L0 and its attributes; of a rule's own event only a delayed one."""
    kind = draw(st.sampled_from(["plain", "every", "every for", "delayed", "delayed", "own"])) if features.timers else "plain"
    length = f"{draw(st.integers(1, 4))} s" if kind != "plain" else ""
    if kind == "every":
        return f"every {length} as L0", ()
    if kind == "every for":
        query = draw(queries(features))
        return f"every {length} for [ {query.text} ] as L0", query.projected
    text, names, _ = draw(events("L0", Bound(), {event: own} if kind == "own" else readable, features))
    return text + (f" delayed by {length}" if length else ""), names


@st.composite
def rules(draw: st.DrawFn, name: str, event: str, readable: dict[str, tuple[str, ...]], own: tuple[str, ...], features: Features) -> str:
    """A rule that defines an event with the attributes `own`, over what it may read at the same instant."""
    bound = Bound()
    text, names = draw(anchors(event, readable, own, features))
    bound.attributes["L0"] = names
    lines = [f"from {text}"]
    chosen: list[str] = []
    for i in range(1, 1 + draw(st.sampled_from([1, 2, 0]))):
        label = f"L{i}"
        reference = draw(st.sampled_from(sorted(bound.attributes)))
        kind = draw(st.sampled_from(["choose", "choose", *["absent"] * features.absent, *["aggregate"] * features.aggregates]))
        recursive = features.recursion and draw(st.integers(0, 2)) == 0
        text, names, _ = draw(events(label, bound, {event: own} if recursive else readable, features))
        window = f"within {draw(windows(strict=recursive))} from {reference}"
        others = sorted(bound.attributes)
        if kind != "choose" and len(others) > 1 and draw(st.booleans()):
            window = f"between {others[0]} and {others[1]}"
        if kind == "choose":
            mode = draw(st.sampled_from(["each", "last", "first"]))
            count = f" {draw(st.integers(1, 3))}" if mode != "each" and features.counts and draw(st.booleans()) else ""
            lines.append(f"and {mode}{count} {text} {window}")
            bound.attributes[label] = names
            chosen.append(label)
        elif kind == "absent":
            lines.append(f"and not {text} {window}")
        else:
            function = draw(st.sampled_from(["count", "sum", "avg", "min", "max"]))
            distinct = draw(st.sampled_from(["", "distinct "]))
            argument = f"{distinct}{label}.?{draw(st.sampled_from(names))}" if names else "*"
            lines.append(f"and ?g{i} = {function if names else 'count'}({argument}) of {text} {window}")
            bound.aggregates.append(f"?g{i}")
            chosen.append(label)
    terms = [*bound.terms(), *bound.aggregates, *(f"time({label})" for label in bound.attributes)]
    if draw(st.sampled_from([False, False, False, True])):
        lines.append(f"if {draw(conditions(terms, [*terms, *VALUES]))}")
    lines.append("with " + ", ".join(f"{event}.?{v} = {draw(operands(terms))}" for v in own))
    consumed = [label for label in chosen if draw(st.integers(0, 2)) == 0]
    if consumed:
        lines.append("consuming " + ", ".join(consumed))
    template = draw(st.sampled_from(TEMPLATES)).format(event=event, **dict(zip("ab", [*own, *own], strict=False)))
    used = "".join(f" [] :has ?{v} ." for v in own)
    return f"rule {name}\ndefine {event} = [ {template}{used} ]\n" + "\n".join(lines) + "\n"


TEMPLATES = (
    "dotr_id a :{event} ; :v ?{a} .",
    "dotr_id1 :cause dotr_id2 . dotr_id2 :of ?{a} .",
    "[] :items (?{a} ?{b}) .",
    "_:x :knows [ :v ?{a} ] ; :self _:x .",
    "?{a} :seen ?{b} .",
)


@st.composite
def rule_files(draw: st.DrawFn, features: Features) -> str:
    """Shared queries and one to three rules; a rule's event may be read by the rules of events numbered higher."""
    readable: dict[str, tuple[str, ...]] = {}
    parts = [HEADER]
    for label in draw(st.sampled_from([[], ["Q0"], ["Q0", "Q1"]])):
        query = draw(queries(features))
        parts.append(f"query {label} = [ {query.text} ]")
        readable[label] = query.projected
    levels = draw(st.sampled_from([[0], [0, 1], [0, 1, 1], [0, 1, 2], [0, 0, 1]]))
    attributes = {f"F{level}": tuple(draw(st.sampled_from([["a"], ["a", "b"]]))) for level in sorted(set(levels))}
    for number, level in enumerate(levels):
        below = {event: names for event, names in attributes.items() if event < f"F{level}"}
        parts.append(draw(rules(f"R{number}", f"F{level}", {**readable, **below}, attributes[f"F{level}"], features)))
    if draw(st.booleans()):
        parts[1:] = reversed(parts[1:])
    return "\n".join(parts)


# --- Datalog and whole programs ---


@st.composite
def atoms(draw: st.DrawFn, bracket: bool) -> tuple[str, list[str]]:
    """An atom in one of the two notations, and its variables."""
    a, b = draw(st.sampled_from(["?a", "?b", "?c"])), draw(st.sampled_from(["?a", "?b", "?c", draw(st.sampled_from(NAMES))]))
    variables = [word for word in (a, b) if word.startswith("?")]
    if draw(st.integers(0, 3)) == 0:
        class_ = draw(st.sampled_from(CLASSES))
        return (f"[{a}, a, {class_}]" if bracket else f"{class_}({a})"), [a]
    name = draw(st.sampled_from(PROPERTIES))
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
    if features.negation and draw(st.integers(0, 2)) == 0:
        # What is negated is given, never derived: any such program is stratified.
        body.append(f"NOT :given[{draw(st.sampled_from(variables))}, ?d]")
    if draw(st.integers(0, 4)) == 0:
        # A computed value goes into a property that no body reads: recursion over new values would not end.
        body.append(f"BIND({draw(st.sampled_from(variables))} + 1 AS ?w)")
        head = f":computed[{draw(st.sampled_from(variables))}, ?w]"
    else:
        head = draw(atoms(bracket).filter(lambda made: set(made[1]) <= set(variables)))[0]
    return f"{head} :- {', '.join(draw(st.permutations(body)))} ."


@st.composite
def schemas(draw: st.DrawFn) -> str:
    """Some triples of RDFS and OWL."""
    lines = []
    for _ in range(draw(st.integers(1, 3))):
        c, d = draw(st.sampled_from(CLASSES)), draw(st.sampled_from(CLASSES))
        p, q = draw(st.sampled_from(PROPERTIES)), draw(st.sampled_from(PROPERTIES))
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


@st.composite
def programs(draw: st.DrawFn, features: Features = CORE, entailments: Sequence[str] = ("none",)) -> ProgramText:
    entailment = draw(st.sampled_from(list(entailments)))
    datalog = "\n".join(draw(st.lists(datalog_rules(features), max_size=3)))
    background = GRAPH_HEADER + turtle(draw(triples(blanks=1)))
    if entailment != "none":
        background += draw(schemas())
    return ProgramText(draw(rule_files(features)), HEADER + datalog, background, entailment)
