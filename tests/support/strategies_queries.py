"""Random SELECT queries: every form of SPARQL 1.1 that a rule may hold, with and without temporal constraints."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from hypothesis import strategies as st

from dotr.model.terms import RDF
from tests.support.strategies_expressions import condition, conditions, one_of, operand
from tests.support.strategies_streams import CLASSES, MOST_VALUES, NAMES, NAMESPACE, PROPERTIES, VALUES, pick

USUAL = (
    "?x a :A . ?x :p ?v .",
    "?x a :B .",
    "?x :q ?y .",
    "?x :p ?v .",
    "?x a ?c . ?x :q ?y . ?y :p ?v .",
    "?x a :A . ?x :q ?y .",
    "?x :r ?v .",
)
REIFIES = f"<{RDF}reifies>"
QUOTED = (
    f"?x {REIFIES} <<( ?y :p ?v )>> .",
    f"?x {REIFIES} ?v .",
    f"?x {REIFIES} <<( ?y ?e <<( ?z :q ?v )>> )>> .",
    f"?x {REIFIES} <<( ?x :q ?y )>> . ?y :p ?v .",
    f"?x :p ?v . ?y {REIFIES} <<( ?x :p ?v )>> .",
    f"?x {REIFIES} <<( :n0 ?e ?v )>> .",
    f"?x {REIFIES} <<( _:b :q ?y )>> . _:b :p ?v .",
    f"?x {REIFIES} <<( ?y :p 1 )>> .",
    f"?x {REIFIES} ?v . ?v ^{REIFIES} ?y .",
    f"?x ({REIFIES}|:q) <<( ?y :q ?z )>> .",
    "<< ?y :p ?v ~ ?x >> .",
    "<< ?x :p ?v >> :q ?y .",
    "?x :q ?y ~ ?z .",
    "?x :p ?v {| :q ?y |} .",
    "?x ?e ?v ~ ?y ; :q ?z .",
)
AGGREGATES = ("COUNT", "SUM", "AVG", "MIN", "MAX", "SAMPLE", "GROUP_CONCAT")


@dataclass(frozen=True)
class Query:
    """A query under construction: its text without brackets, its attributes, and the variables that a constraint may use."""

    text: str
    projected: tuple[str, ...]
    usable: tuple[str, ...]


@dataclass
class Group:
    """A group graph pattern under construction: text, variables, and the query's number of own names."""

    names: list[int] = field(default_factory=lambda: [0])
    text: str = ""
    variables: list[str] = field(default_factory=list)

    def fresh(self) -> str:
        """A name that occurs nowhere else in the query; every other begins with an underscore."""
        self.names[0] += 1
        return f"{'' if self.names[0] % 2 else '_'}w{self.names[0]}"

    def terms(self) -> list[str]:
        return [f"?{v}" for v in dict.fromkeys(self.variables)] or ["1"]

    def add(self, text: str, variables: Sequence[str] = ()) -> None:
        self.text = f"{self.text} {text}".strip()
        self.variables += variables


def words(text: str) -> list[str]:
    """The variables of a text of triples."""
    return [word[1:] for word in text.split() if word.startswith("?")]


# --- triples and paths ---


def path(draw: st.DrawFn, depth: int = 1) -> str:
    """A property path in parentheses, or a property."""
    if not depth:
        return pick(draw, PROPERTIES)
    return one_of(
        draw,
        lambda: f"({path(draw, 0)}{pick(draw, '+*?')})",
        lambda: f"({path(draw, depth - 1)}/{path(draw, 0)})",
        lambda: f"({path(draw, 0)}|{path(draw, depth - 1)})",
        lambda: f"^{path(draw, 0)}",
        lambda: f"({path(draw, 0)}/({path(draw, 0)}|^{path(draw, 0)})+)",
        lambda: f"!({pick(draw, PROPERTIES)}|^{pick(draw, PROPERTIES)})",
        lambda: f"!{pick(draw, PROPERTIES)}",
    )


def triples(draw: st.DrawFn) -> str:
    """Some triple patterns, as text whose variables are words of their own."""
    if draw(st.integers(0, 5)):
        return pick(draw, USUAL if draw(st.integers(0, 7)) else QUOTED)
    parts = []
    for _ in range(draw(st.integers(1, 2))):
        subject = pick(draw, ("?x", "?x", "?y", "?x", ":n0", "_:b"))
        predicate = pick(draw, ("a", *PROPERTIES, *PROPERTIES, "?e", "path"))
        if predicate == "path":
            predicate, value = path(draw), pick(draw, ("?y", "?v", "?x", *NAMES))
        elif predicate == "a":
            value = pick(draw, (*CLASSES, *CLASSES, "?c"))
        elif predicate in (":p", ":r"):
            value = pick(draw, ("?v", "?v", "?u", "?x", pick(draw, MOST_VALUES)))
        else:
            value = pick(draw, ("?y", "?y", "?z", "?x", "[ :p ?v ]", "_:b", pick(draw, NAMES)))
        parts.append(f"{subject} {predicate} {value} .")
    return " ".join(parts)


# --- groups ---


def add_triples(draw: st.DrawFn, group: Group) -> None:
    # A blank node's label belongs to one basic graph pattern.
    text = triples(draw)
    if "_:b" in text:
        text = text.replace("_:b", f"_:b{group.fresh()}")
    group.add(text, words(text))


def group_of(draw: st.DrawFn, outer: Group, depth: int, seen: Sequence[str] = ()) -> Group:
    """A further group of the same query; `seen` are the outer variables that its filters may read."""
    group = Group(outer.names)
    add_triples(draw, group)
    if depth and draw(st.integers(0, 2)) == 0:
        element(draw, group, depth - 1)
    if draw(st.integers(0, 3)) == 0:
        group.add(f"FILTER({condition(draw, [*group.terms(), *(f'?{v}' for v in seen)], VALUES)})")
    return group


def element(draw: st.DrawFn, group: Group, depth: int = 1) -> None:
    """One more element of a group."""

    def optional() -> None:
        inner = group_of(draw, group, depth, group.variables)
        group.add(f"OPTIONAL {{ {inner.text} }}", inner.variables)

    def union() -> None:
        one, two = group_of(draw, group, depth), group_of(draw, group, depth)
        group.add(f"{{ {one.text} }} UNION {{ {two.text} }}", [*one.variables, *two.variables])

    def nested() -> None:
        inner = group_of(draw, group, depth)
        group.add(f"{{ {inner.text} }}", inner.variables)

    def values() -> None:
        names = draw(st.permutations(sorted({*group.variables, "x"})))[: draw(st.integers(1, 2))]
        listed = (*NAMES, *MOST_VALUES, "UNDEF", "<<( :n0 :p 1 )>>")
        rows = [[pick(draw, listed) for _ in names] for _ in range(draw(st.integers(0, 3)))]
        if len(names) == 1:
            group.add(f"VALUES ?{names[0]} {{ {' '.join(row[0] for row in rows)} }}", names)
        else:
            group.add(f"VALUES (?{names[0]} ?{names[1]}) {{ {' '.join(f'({a} {b})' for a, b in rows)} }}", names)

    def bind() -> None:
        name = group.fresh()
        group.add(f"BIND({operand(draw, group.terms())} AS ?{name})", [name])

    def test() -> None:
        group.add(f"FILTER({condition(draw, group.terms(), VALUES)})")

    def minus() -> None:
        group.add(f"MINUS {{ {group_of(draw, group, depth).text} }}")

    def exists() -> None:
        inner = group_of(draw, group, depth, group.variables)
        kind = pick(draw, ("EXISTS", "NOT EXISTS"))
        if draw(st.integers(0, 3)):
            group.add(f"FILTER {kind} {{ {inner.text} }}")
        else:
            group.add(f"FILTER({condition(draw, group.terms(), VALUES, 1)} {pick(draw, ('||', '&&'))} {kind} {{ {inner.text} }})")

    def sub_query() -> None:
        inner = Group(group.names)
        add_triples(draw, inner)
        if depth and draw(st.booleans()):
            element(draw, inner, 0)
        found = selected(draw, inner)
        group.add(f"{{ {found.text} }}", found.projected)

    one_of(
        draw,
        optional,
        optional,
        union,
        values,
        bind,
        test,
        test,
        minus,
        exists,
        exists,
        nested,
        sub_query,
        lambda: add_triples(draw, group),
    )


# --- queries ---


def ordered(draw: st.DrawFn, terms: Sequence[str]) -> str:
    """ORDER BY with a slice; without a slice the order has no effect."""
    keys = []
    for _ in range(draw(st.integers(0, 2))):
        key = operand(draw, terms, 1)
        keys.append(f"{pick(draw, ('ASC', 'DESC'))}({key})")
    cut = pick(draw, ("", "LIMIT 1", "LIMIT 2", "LIMIT 1", "LIMIT 3", "LIMIT 1 OFFSET 1", "OFFSET 1", "LIMIT 0"))
    return f"{'ORDER BY ' if keys else ''}{' '.join(keys)} {cut}"


def aggregated(draw: st.DrawFn, terms: Sequence[str]) -> str:
    function = pick(draw, AGGREGATES)
    distinct = pick(draw, ("", "", "DISTINCT "))
    if function == "COUNT" and draw(st.booleans()):
        return f"COUNT({distinct}*)"
    separator = pick(draw, ("", '; SEPARATOR=","')) if function == "GROUP_CONCAT" else ""
    return f"{function}({distinct}{operand(draw, terms, 1)}{separator})"


def grouped(draw: st.DrawFn, group: Group) -> Query:
    """A query with GROUP BY, or with one group of all."""
    terms = group.terms()
    named = [term for term in terms if term.startswith("?")]
    keys = list(draw(st.permutations(named)))[: pick(draw, [1, 2, 0])]
    columns, projected, by = list(keys), [key[1:] for key in keys], list(keys)
    if draw(st.integers(0, 4)) == 0:
        name = group.fresh()
        by.append(f"({operand(draw, terms, 1)} AS ?{name})")
        columns.append(f"?{name}")
        projected.append(name)
    for _ in range(draw(st.integers(1, 2))):
        name = group.fresh()
        value = aggregated(draw, terms)
        if draw(st.integers(0, 3)) == 0:
            value = f"({value} {pick(draw, '+*')} {aggregated(draw, terms)})"
        columns.append(f"({value} AS ?{name})")
        projected.append(name)
    having = (
        f"HAVING({aggregated(draw, terms)} {pick(draw, ('>', '=', '!='))} {pick(draw, ('1', '0', '2'))})" if draw(st.booleans()) else ""
    )
    tail = ordered(draw, [f"?{v}" for v in projected]) if draw(st.integers(0, 3)) == 0 else ""
    text = f"SELECT {' '.join(columns)} WHERE {{ {group.text} }} {'GROUP BY ' if by else ''}{' '.join(by)} {having} {tail}"
    return Query(text, tuple(projected), tuple(projected))


FORMS = ("plain", "plain", "plain", "plain", "plain", "distinct", "computed", "ordered", "grouped", "star", "reduced")


def selected(draw: st.DrawFn, group: Group, forms: Sequence[str] = FORMS) -> Query:
    """The group in a SELECT of some form."""
    known = sorted(set(group.variables))
    if not known:
        group.add("?x a :A .", ["x"])
        known = ["x"]
    form = pick(draw, forms)
    if form == "grouped":
        return grouped(draw, group)
    projected = list(draw(st.permutations(known)))[: pick(draw, [3, 2, 1])]
    columns = " ".join(f"?{v}" for v in projected)
    if form == "star":
        return Query(f"SELECT * WHERE {{ {group.text} }}", tuple(known), tuple(known))
    if form == "distinct":
        return Query(f"SELECT DISTINCT {columns} WHERE {{ {group.text} }}", tuple(projected), tuple(projected))
    if form == "ordered":
        text = f"SELECT {pick(draw, ('', 'DISTINCT '))}{columns} WHERE {{ {group.text} }} {ordered(draw, group.terms())}"
        return Query(text, tuple(projected), tuple(projected))
    if form == "computed":
        name = group.fresh()
        columns += f" ({operand(draw, group.terms())} AS ?{name})"
        projected.append(name)
        return Query(f"SELECT {columns} WHERE {{ {group.text} }}", tuple(projected), tuple(dict.fromkeys([*known, name])))
    reduced = "REDUCED " if form == "reduced" else ""
    return Query(f"SELECT {reduced}{columns} WHERE {{ {group.text} }}", tuple(projected), tuple(known))


@st.composite
def queries(draw: st.DrawFn, outer: Sequence[str] = (), plain: bool = False) -> Query:
    """A SELECT query; `outer` are the `M.?v` and `time(M)` that its temporal constraints may use; `plain`: of triple patterns alone."""
    group = Group()
    add_triples(draw, group)
    for _ in range(0 if plain else pick(draw, [0, 0, 0, 1, 0, 1, 0, 2])):
        element(draw, group)
    query = selected(draw, group, ("plain", "plain", "distinct") if plain else FORMS)
    own = [f"?{v}" for v in query.usable]
    temporal = pick(draw, [0, 1, 1, 0, 2]) if outer else 0
    filters = [f"FILTER({draw(constraints(own, outer))})" for _ in range(temporal)]
    before, inside, after = query.text.rpartition(group.text)
    # First or last in the group: the position of a FILTER has no meaning.
    inside = " ".join([*filters, inside] if filters and draw(st.integers(0, 3)) == 0 else [inside, *filters])
    return Query(dressed(draw, before + inside + after), query.projected, query.usable)


def dressed(draw: st.DrawFn, text: str) -> str:
    """The query, sometimes with its own prefix and a comment."""
    if draw(st.integers(0, 11)) < 11:
        return text
    return f"PREFIX own: <{NAMESPACE}> # a ] that ends nothing\n" + re.sub(r"(?<= ):(?=[pqrs]\b)", "own:", text)


@st.composite
def constraints(draw: st.DrawFn, own: Sequence[str], outer: Sequence[str]) -> str:
    """A temporal constraint, one conjunct or several; mostly the equality from which a key is made."""
    mine, other = pick(draw, own), pick(draw, outer)
    alike = [(a, o) for a in own for o in outer if o.endswith(f".{a}")]
    if alike and draw(st.integers(0, 4)) > 0:
        mine, other = alike[draw(st.integers(0, len(alike) - 1))]
    shape = draw(st.integers(0, 9))
    if shape < 4:
        return f"{mine} = {other}"
    if shape == 4:
        return f"{other} = {mine}"
    if shape == 5:
        return f"{mine} = {other} && {condition(draw, own, [other])}"
    if shape < 8:
        return f"{mine} {pick(draw, ('!=', '!=', '<', '<=', '>', '>='))} {other}"
    return draw(conditions(own, [other]).filter(lambda made: other in made))
