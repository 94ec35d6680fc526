"""Rules alike up to their constants, seen as one shape and a table (ten thresholds: one shape, ten rows).

Idea: in a rule's normal form a label is the number of its place, a source the number of its port, and a constant the number of a
column: rules with one normal form differ in the table alone, and one compiled matcher serves them all. A column whose rows agree goes
back into the shape. Which rows an event satisfies is found by search (`search`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, TypeAlias, assert_never

from dotr.expressions.ordered_domains import OrderedDomain
from dotr.layout.retention import roles, scope_of
from dotr.model.algebra import Attribute, Call, Const, Exists, Expression, TimeOf, Var
from dotr.model.rules import Absent, Aggregate, Between, Choose, Clause, Mode, Role, Rule, Window
from dotr.model.terms import Label, Term, Variable
from dotr.model.time import Micros
from dotr.model.traverse import conjuncts, parameters_of, transform
from dotr.patterns.rule_search import fold_constants, searchable_comparison

ROW: Final[Label] = "row"
"""`Attribute(ROW, "2")`: the rule's own constant in column 2 of its shape's table."""

RESULT: Final[Variable] = "result"
"""`Attribute("3", RESULT)`: the value of the aggregate at place 3."""

AttributeExpressions: TypeAlias = tuple[Expression | None, ...]


@dataclass(frozen=True, slots=True)
class PositionalRole:
    """A role in normal form: `port` numbers where its events come from, `same` the first place that reads the same events. With a
    `delay` (an anchor's), its event stands in the match at that much after its time."""

    port: int
    first_of_source: int
    attributes: tuple[Variable, ...]
    constraints: tuple[Expression, ...]
    delay: Micros = 0


@dataclass(frozen=True, slots=True)
class PositionalWindow:
    """`within I from R`: the distances from the event at the place `reference`, both closed."""

    near: Micros
    far: Micros
    reference: int


@dataclass(frozen=True, slots=True)
class PositionalBetween:
    """`between R1 and R2`, by their places."""

    first: int
    second: int


@dataclass(frozen=True, slots=True)
class PositionalSelection:
    """`each`, or `last` or `first` of a number."""

    mode: Mode
    count: int


@dataclass(frozen=True, slots=True)
class PositionalNegation:
    """`not`."""


@dataclass(frozen=True, slots=True)
class PositionalAggregate:
    """An aggregate; `function` in capitals, `attribute` None for `count(*)`."""

    function: str
    distinct: bool
    attribute: Variable | None


@dataclass(frozen=True, slots=True)
class PositionalClause:
    """A clause in normal form."""

    role: PositionalRole
    operation: PositionalSelection | PositionalNegation | PositionalAggregate
    scope: PositionalWindow | PositionalBetween


def may_branch(step: PositionalClause) -> bool:
    """Whether a clause may choose several events."""
    return isinstance(step.operation, PositionalSelection) and (step.operation.mode is Mode.EACH or step.operation.count > 1)


@dataclass(frozen=True, slots=True)
class RuleTemplate:
    """A rule in normal form; `values` make the attributes of the composite event, None where the rule assigns none."""

    anchor: PositionalRole
    clauses: tuple[PositionalClause, ...]
    condition: Expression | None
    values: AttributeExpressions
    consuming: tuple[int, ...]
    domains: tuple[OrderedDomain | None, ...] = ()
    """On which scale each constant stands that an attribute is compared with: those of a column are compared alike."""

    @property
    def roles(self) -> tuple[PositionalRole, ...]:
        """The anchor's, then the clauses', by place."""
        return (self.anchor, *(step.role for step in self.clauses))

    @property
    def may_branch(self) -> bool:
        """Whether a rule may have several matches of one anchor."""
        return any(may_branch(step) for step in self.clauses)

    def is_positive(self, place: int) -> bool:
        """Whether a match binds an event to the place."""
        return not place or isinstance(self.clauses[place - 1].operation, PositionalSelection)


@dataclass(frozen=True, slots=True)
class RuleGroup:
    """Rules of one shape: their numbers in the layer, and for each of them its constants, by column."""

    template: RuleTemplate
    numbers: tuple[int, ...]
    table: tuple[tuple[Term, ...], ...]


def group_rules(numbered: Sequence[tuple[int, Rule, tuple[int, ...], tuple[Variable, ...]]]) -> list[RuleGroup]:
    """Rules by shape, in order of their first; each comes with its number, its roles' ports and its event's attributes."""
    found: dict[RuleTemplate, list[tuple[int, tuple[Term, ...]]]] = {}
    for number, rule, ports, attributes in numbered:
        template, constants = normal_form(rule, ports, attributes)
        found.setdefault(template, []).append((number, constants))
    return [_group(shape, rows) for shape, rows in found.items()]


def _group(template: RuleTemplate, rows: Sequence[tuple[int, tuple[Term, ...]]]) -> RuleGroup:
    columns: dict[tuple[Term, ...], int] = {}
    back: dict[Expression, Expression] = {}
    for place, column in enumerate(zip(*(constants for _, constants in rows), strict=True)):
        if len(set(column)) == 1:
            back[_constant(place)] = Const(column[0])
        else:
            back[_constant(place)] = _constant(columns.setdefault(column, len(columns)))
    table = tuple(zip(*columns, strict=True)) if columns else tuple(() for _ in rows)
    return RuleGroup(_substitute(template, back), tuple(number for number, _ in rows), table)


def _constant(column: int) -> Attribute:
    return Attribute(ROW, str(column))


def normal_form(rule: Rule, ports: tuple[int, ...], attributes: tuple[Variable, ...]) -> tuple[RuleTemplate, tuple[Term, ...]]:
    """A rule's shape and its constants."""
    everyone = roles(rule)
    places = {role.label: str(place) for place, role in enumerate(everyone)}
    results = {c.variable: Attribute(str(place), RESULT) for place, c in enumerate(rule.clauses, 1) if isinstance(c, Aggregate)}
    aggregates = {clause.role.label for clause in rule.clauses if isinstance(clause, Aggregate)}
    constants: list[Term] = []
    domains: list[OrderedDomain | None] = []

    def normal(expression: Expression, plain: Mapping[Variable, Expression], free: bool = True) -> Expression:
        return transform(expression, lambda part: normal_part(part, plain, free))

    def normal_part(part: Expression, plain: Mapping[Variable, Expression], free: bool) -> Expression:
        match part:
            case Const(term):
                if not free:
                    return part
                constants.append(term)
                domains.append(None)
                return _constant(len(constants) - 1)
            case Var(name):
                return plain.get(name, part)
            case Attribute(label, name):
                return Attribute(places[label], RESULT if label in aggregates else name)
            case TimeOf(label):
                return TimeOf(places[label])
            case Call():
                return part
            case Exists():
                raise AssertionError("EXISTS belongs to stage one")
            case _:
                assert_never(part)

    def part(place: int, role: Role) -> PositionalRole:
        same = next(n for n, other in enumerate(everyone) if (other.origin, other.source) == (role.origin, role.source))
        free = not place or _takes_all_constants(rule, rule.clauses[place - 1])
        constraints: list[Expression] = []
        for constraint in (fold_constants(c) for written in role.constraints for c in conjuncts(written)):
            compared = searchable_comparison(constraint)
            taken = not place or compared is not None or (free and reads_other_events(constraint, role.label))
            constraints.append(normal(constraint, {}, taken))
            if compared is not None:
                domains[-1] = compared.domain
        return PositionalRole(ports[place], same, role.source.attributes, tuple(constraints), role.delay)

    def step(place: int, clause: Clause) -> PositionalClause:
        match scope_of(clause):
            case Window(interval, reference):
                scope: PositionalWindow | PositionalBetween = PositionalWindow(*interval.bounds, int(places[reference]))
            case Between(first, second):
                scope = PositionalBetween(int(places[first]), int(places[second]))
            case other:
                assert_never(other)
        match clause:
            case Choose(role, mode, _, count):
                return PositionalClause(part(place, role), PositionalSelection(mode, count or 1), scope)
            case Absent(role, _):
                return PositionalClause(part(place, role), PositionalNegation(), scope)
            case Aggregate(_, function, distinct, attribute, role, _):
                return PositionalClause(part(place, role), PositionalAggregate(function.upper(), distinct, attribute), scope)
            case _:
                assert_never(clause)

    anchor = part(0, rule.anchor)
    steps = tuple(step(place, clause) for place, clause in enumerate(rule.clauses, 1))
    condition = None if rule.condition is None else normal(rule.condition, results)
    assigned = {assignment.variable: assignment.expression for assignment in rule.assignments}
    values = tuple([normal(assigned[name], results) if name in assigned else None for name in attributes])
    consuming = tuple(sorted({place for label in rule.consuming if (place := int(places[label]))}))
    return RuleTemplate(anchor, steps, condition, values, consuming, tuple(domains)), tuple(constants)


def _takes_all_constants(rule: Rule, clause: Clause) -> bool:
    """Whether all constants in a clause's constraints may be the rows' own, and not those alone by which an index finds the rows. Where
    each row would go through the candidates for itself they stay in the shape: then an index has the candidates of that shape alone."""
    return isinstance(clause, Absent | Choose) and not rule.consuming and (isinstance(clause, Absent) or clause.count in (None, 1))


def reads_other_events(constraint: Expression, own: Label) -> bool:
    """Whether a constraint on the event of a label reads another event."""
    return any(isinstance(each, Attribute) or (isinstance(each, TimeOf) and each.label != own) for each in parameters_of([constraint]))


def _substitute(template: RuleTemplate, back: Mapping[Expression, Expression]) -> RuleTemplate:
    def expression(old: Expression) -> Expression:
        return transform(old, lambda part: part if isinstance(part, Call) else back.get(part, part))

    def part(old: PositionalRole) -> PositionalRole:
        return replace(old, constraints=tuple([expression(constraint) for constraint in old.constraints]))

    return RuleTemplate(
        part(template.anchor),
        tuple([replace(step, role=part(step.role)) for step in template.clauses]),
        None if template.condition is None else expression(template.condition),
        tuple([None if value is None else expression(value) for value in template.values]),
        template.consuming,
        template.domains,
    )
