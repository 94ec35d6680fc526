"""How a program will run, as data that a text and a drawing show: its queries, and its rules with what they read, keep and make."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final, TypeAlias, assert_never

from dotr.engine.program import Program
from dotr.languages.datalog import parse_datalog
from dotr.model.algebra import (
    Alternative,
    Bgp,
    Const,
    Exists,
    Inverse,
    Link,
    Negated,
    Path,
    PathPattern,
    Pattern,
    Repeat,
    Select,
    Sequence,
    Slot,
    TriplePattern,
)
from dotr.model.datalog import DatalogRule, Not
from dotr.model.rules import Absent, Aggregate, Between, Choose, Clause, EventSource, FactSource, Role, Rule, Window
from dotr.model.terms import Label, Prefixes, Term
from dotr.patterns.layout import Layer, Placed
from dotr.patterns.partition import Anywhere, Keyed, Partitioning, Single
from dotr.queries import Plan, plan, question
from dotr.queries.scope import children, expressions_in, parameters_of
from dotr.workbench.written import duration_text, expression_text, scope_text, term_text

_PREFIX: Final = re.compile(r"^\s*@?prefix\s+([\w.-]*):\s*<([^>]*)>", re.IGNORECASE | re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Asked:
    """A query as it will be asked: under which labels, in which rules, and how; `wakes` are the kinds of triples that make it be asked,
    `datalog` the rules that derive such triples."""

    number: int
    labels: tuple[Label, ...]
    rules: tuple[str, ...]
    how: str
    wakes: tuple[str, ...]
    datalog: tuple[str, ...]
    static: int


@dataclass(frozen=True, slots=True)
class Step:
    """One role of a rule: what is bound, from where (a query's number, or an event), in which window, under which constraints."""

    selection: str
    label: Label
    source: int | Label
    scope: str
    constraints: tuple[str, ...]
    state: str


@dataclass(frozen=True, slots=True)
class Explained:
    """A rule: its roles in order, and what it does with a match."""

    name: str
    documentation: str
    event: Label
    layer: int
    steps: tuple[Step, ...]
    condition: str
    assignments: tuple[str, ...]
    consuming: tuple[Label, ...]
    partition: str


@dataclass(frozen=True, slots=True)
class Explanation:
    """A program: its background, its queries, its rules layer by layer, and the shared queries that no rule reads."""

    title: str
    knowledge: str
    queries: tuple[Asked, ...]
    rules: tuple[Explained, ...]
    unread: tuple[Label, ...]


def explanation(title: str, program: Program) -> Explanation:
    """The explanation of a compiled program."""
    return _Explainer(program).explanation(title)


class _Explainer:
    def __init__(self, program: Program) -> None:
        self.program = program
        self.prefixes: Prefixes = {**program.spec.prefixes}
        for document in (*program.spec.rules, *program.spec.datalog):
            self.prefixes = {**dict(_PREFIX.findall(document.text)), **self.prefixes}
        self.datalog = [rule for document in program.spec.datalog for rule in parse_datalog(document, program.spec.prefixes)]
        self.numbers: dict[Select, int] = {}
        for source in program.layout.streams:
            self.numbers.setdefault(question(source.query), len(self.numbers) + 1)

    def explanation(self, title: str) -> Explanation:
        knowledge = self.program.knowledge
        text = (
            f"{knowledge.loaded:,} triples, and {knowledge.derived:,} derived from them once; "
            f"entailment {self.program.spec.entailment.value}; {len(self.datalog)} Datalog rule{'' if len(self.datalog) == 1 else 's'}"
        )
        rules = [self.rule(number, layer, placed) for number, layer in enumerate(self.program.layout.layers) for placed in layer.rules]
        queries = tuple(self.queries())
        read = {label for asked in queries for label in asked.labels}
        unread = tuple(shared.label for shared in self.program.rules.queries if shared.label not in read)
        return Explanation(title, text, queries, tuple(rules), unread)

    def queries(self) -> Iterable[Asked]:
        users: dict[int, list[tuple[str, Label]]] = {}
        first: dict[int, Select] = {}
        placed = sorted((p.rule for layer in self.program.layout.layers for p in layer.rules), key=lambda rule: rule.name)
        for rule in placed:
            for role in _roles(rule):
                if isinstance(role.source, FactSource):
                    number = self.number(role.source)
                    users.setdefault(number, []).append((rule.name, role.origin))
                    first.setdefault(number, role.source.query)
        for number, select in sorted(first.items()):
            planned = plan(select, self.program.knowledge.background)
            labels = tuple(dict.fromkeys(label for _, label in users[number]))
            rules = tuple(dict.fromkeys(name for name, _ in users[number]))
            wakes = ("any triple",) if planned.kinds is None else tuple(sorted(map(self.kind, planned.kinds)))
            yield Asked(number, labels, rules, _how(planned), wakes, self.touched(select), len(planned.static))

    def number(self, source: FactSource) -> int:
        return self.numbers[question(source.query)]

    def kind(self, kind: tuple[Term, Term | None]) -> str:
        predicate, value = kind
        return " ".join(term_text(term, self.prefixes) for term in (predicate, value) if term is not None)

    def touched(self, select: Select) -> tuple[str, ...]:
        """The Datalog rules that can derive what a query reads, or what one of them reads."""
        read = {kind for pattern in _patterns(select) for kind in _reads(pattern)}
        found: dict[str, None] = {}
        while True:
            new = [rule for rule in self.datalog if rule.name not in found and any(_derives(head, read) for head in rule.head)]
            if not new:
                return tuple(rule.name for rule in self.datalog if rule.name in found)
            for rule in new:
                found[rule.name] = None
                read |= {kind for pattern in _body(rule) for kind in _reads(pattern)}

    def rule(self, number: int, layer: Layer, placed: Placed) -> Explained:
        rule = placed.rule
        retention = [layer.retention[port] for port in placed.ports]
        steps = [
            self.step(_selection(clause), role, kept, scope_text(_scope(clause)) if clause else "")
            for clause, role, kept in zip((None, *rule.clauses), _roles(rule), retention, strict=True)
        ]
        return Explained(
            rule.name,
            rule.documentation,
            rule.event,
            number,
            tuple(steps),
            "" if rule.condition is None else expression_text(rule.condition, self.prefixes),
            tuple(f"{rule.event}.?{a.variable} = {expression_text(a.expression, self.prefixes)}" for a in rule.assignments),
            rule.consuming,
            _partition(placed.split, _roles(rule)),
        )

    def step(self, selection: str, role: Role, kept: int | None, scope: str) -> Step:
        match role.source:
            case FactSource() as source:
                origin: int | Label = self.number(source)
            case EventSource(event):
                origin = event
            case _:
                assert_never(role.source)
        constraints = tuple(expression_text(constraint, self.prefixes) for constraint in role.constraints)
        attributes = ", ".join(f"?{name}" for name in role.source.attributes) or "no attributes"
        state = "nothing is kept" if kept is None else f"{attributes}: kept {duration_text(kept)}"
        return Step(selection, role.label, origin, scope, constraints, state)


def _roles(rule: Rule) -> tuple[Role, ...]:
    return (rule.anchor, *(clause.role for clause in rule.clauses))


def _how(planned: Plan) -> str:
    return "from what the instant brings" if planned.planned else f"in full, at the cost of the background: {planned.reason}"


def _selection(clause: Clause | None) -> str:
    match clause:
        case None:
            return "from"
        case Choose(_, mode, _, count):
            return mode.value if count is None else f"{mode.value} {count}"
        case Absent():
            return "not"
        case Aggregate(variable, function, distinct, attribute):
            return f"?{variable} = {function}({'distinct ' if distinct else ''}{'*' if attribute is None else f'?{attribute}'}) of"
        case _:
            assert_never(clause)


def _scope(clause: Clause) -> Window | Between:
    return clause.window if isinstance(clause, Choose) else clause.scope


def _partition(split: Partitioning, roles: tuple[Role, ...]) -> str:
    match split:
        case Keyed(attribute):
            return "by the value of " + " = ".join(f"{role.label}.?{attribute[role.label]}" for role in roles)
        case Single(why):
            return f"one partition, on one core: {why}"
        case Anywhere():
            return "any: each anchor is on its own"
        case _:
            assert_never(split)


_Kind: TypeAlias = tuple[Term | None, Term | None]
"""Triples of a predicate and an object; None: of any."""


def _derives(head: TriplePattern, read: set[_Kind]) -> bool:
    made = _constant(head.predicate), _constant(head.object)
    return any(all(a is None or b is None or a == b for a, b in zip(made, kind, strict=True)) for kind in read)


def _constant(slot: Slot) -> Term | None:
    return slot.term if isinstance(slot, Const) else None


def _patterns(pattern: Pattern) -> Iterator[TriplePattern | PathPattern]:
    """Every triple and path pattern of a query, those of EXISTS too."""
    if isinstance(pattern, Bgp):
        yield from pattern.patterns
    for inside in children(pattern):
        yield from _patterns(inside)
    for expression in expressions_in(pattern):
        for parameter in parameters_of(expression):
            if isinstance(parameter, Exists):
                yield from _patterns(parameter.pattern)


def _reads(pattern: TriplePattern | PathPattern) -> Iterator[_Kind]:
    match pattern:
        case TriplePattern():
            yield _constant(pattern.predicate), _constant(pattern.object)
        case PathPattern():
            for predicate in _links(pattern.path):
                yield predicate, None


def _links(path: Path) -> Iterator[Term | None]:
    match path:
        case Link(predicate):
            yield predicate
        case Inverse(inside) | Repeat(inside):
            yield from _links(inside)
        case Sequence(left, right) | Alternative(left, right):
            yield from _links(left)
            yield from _links(right)
        case Negated():
            yield None
        case _:
            assert_never(path)


def _body(rule: DatalogRule) -> Iterator[TriplePattern]:
    for item in rule.body:
        match item:
            case TriplePattern():
                yield item
            case Not(body):
                yield from body
            case _:
                pass
