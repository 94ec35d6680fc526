"""Rule templates: rules that differ only in constants, as one template and a table of constants.

Idea: in normal form, a label is the number of its place, a source the number of its port, and a
constant a column of the table. `?v > 10` and `?v > 20` become `?v > column 0` with the rows 10 and
20. Rules with one normal form share one compiled matcher. A column with one distinct value is
substituted back into the template.
Invariant: substituting a row into the template gives the rule of that row.
Cost: linear in the size of the rules; `rule_search` finds the rows that an event satisfies.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Final, TypeAlias, assert_never

from dotr.evaluation.expressions.compile import ROW as ROW
from dotr.evaluation.expressions.ordered_domains import OrderedDomain
from dotr.model import dataclass
from dotr.model.algebra import Attribute, Call, Const, Exists, Expression, TimeOf, Var
from dotr.model.rules import Absent, Aggregate, Between, Choose, Clause, Mode, Role, Rule, Window
from dotr.model.terms import Label, Term, Variable
from dotr.model.time import Micros
from dotr.model.traverse import conjuncts, parameters_of, transform
from dotr.temporal.layout.retention import anchor_delay, roles, scope_of
from dotr.temporal.layout.stages import BindingStream
from dotr.temporal.matching.rule_search import fold_constants, searchable_comparison

RESULT: Final[Variable] = "result"
"""`Attribute("3", RESULT)`: the value of the aggregate at place 3."""

AttributeExpressions: TypeAlias = tuple[Expression | None, ...]


@dataclass(frozen=True, slots=True)
class PositionalRole:
    """A role in normal form.

    `port` numbers the source of its events; `first_of_source` is the first place with the same
    source. With a `delay` (µs, of an anchor), the match takes place that much after the event, or
    by the value of `delayed_by`, at most that much (`AnchorDelay`).
    """

    port: int
    first_of_source: int
    attributes: tuple[Variable, ...]
    constraints: tuple[Expression, ...]
    delay: Micros = 0
    delayed_by: Expression | None = None


@dataclass(frozen=True, slots=True)
class PositionalWindow:
    """`within I from R`: distances in µs from the event at the place `reference`, both closed."""

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
    """`each`, `last n` or `first n`; `also`: an event with a role may be selected."""

    mode: Mode
    count: int
    also: bool = False


@dataclass(frozen=True, slots=True)
class PositionalNegation:
    """`not`."""


@dataclass(frozen=True, slots=True)
class PositionalAggregate:
    """An aggregate; `function` is in capitals, `attribute` is None for `count(*)`, `fraction` is
    that of QUANTILE."""

    function: str
    distinct: bool
    attribute: Variable | None
    fraction: str | None = None


@dataclass(frozen=True, slots=True)
class PositionalClause:
    """A clause in normal form."""

    role: PositionalRole
    operation: PositionalSelection | PositionalNegation | PositionalAggregate
    scope: PositionalWindow | PositionalBetween


def may_branch(clause: PositionalClause) -> bool:
    """True if a clause may select several events."""
    return isinstance(clause.operation, PositionalSelection) and (clause.operation.mode is Mode.EACH or clause.operation.count > 1)


@dataclass(frozen=True, slots=True)
class PositionalStage:
    """A part of a rule that is evaluated by itself: the clauses at the places from `first` to
    `last`.

    `enters` are the bindings from which it starts, which arrive at `port`; None: it starts from
    anchors. `leaves` are the bindings that it yields; None: it yields matches. The stores of the
    places `replicated` are shared by several parts of a bucket and may have events later than the
    present.
    """

    first: int
    last: int
    port: int
    replicated: tuple[int, ...]
    enters: BindingStream | None
    leaves: BindingStream | None


@dataclass(frozen=True, slots=True)
class PositionalOnce:
    """`once in D per …`: D in µs, and the positions of the keys among the composite event's
    attributes."""

    pause: Micros
    keys: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class RuleTemplate:
    """A rule in normal form.

    `values` are the attributes of the composite event, None where the rule assigns none;
    `consuming` are the places of consumed labels other than the anchor. `stage`: the part of the
    rule that is evaluated, None for all of it; ports are those of the stage, and -1 elsewhere.
    """

    anchor: PositionalRole
    clauses: tuple[PositionalClause, ...]
    condition: Expression | None
    values: AttributeExpressions
    consuming: tuple[int, ...]
    domains: tuple[OrderedDomain | None, ...] = ()
    """The ordered domain of each constant compared with an attribute: a column holds constants
    of one domain."""
    stage: PositionalStage | None = None
    once: PositionalOnce | None = None

    @property
    def places(self) -> range:
        """The places of the clauses that are evaluated."""
        return range(1, len(self.clauses) + 1) if self.stage is None else range(self.stage.first, self.stage.last + 1)

    @property
    def own_clauses(self) -> tuple[PositionalClause, ...]:
        """The clauses that are evaluated."""
        return self.clauses if self.stage is None else self.clauses[self.stage.first - 1 : self.stage.last]

    @property
    def roles(self) -> tuple[PositionalRole, ...]:
        """The roles by place: the anchor's, then the clauses'."""
        return (self.anchor, *(step.role for step in self.clauses))

    @property
    def may_branch(self) -> bool:
        """True if a rule may have several matches of one anchor, or a stage of one binding."""
        return any(may_branch(step) for step in self.own_clauses)

    def is_positive(self, place: int) -> bool:
        """True if a match binds an event at the place."""
        return not place or isinstance(self.clauses[place - 1].operation, PositionalSelection)

    def is_aggregate(self, place: int) -> bool:
        """True if a match has a value at the place."""
        return bool(place) and isinstance(self.clauses[place - 1].operation, PositionalAggregate)


@dataclass(frozen=True, slots=True)
class RuleGroup:
    """Rules of one template: their numbers in the layer, the row of constants of each, and their
    names."""

    template: RuleTemplate
    numbers: tuple[int, ...]
    table: tuple[tuple[Term, ...], ...]
    names: tuple[str, ...] = ()


NumberedRule: TypeAlias = tuple[int, Rule, tuple[int, ...], tuple[Variable, ...]]
"""A rule with its number, its roles' ports and the attributes of its composite event."""


def group_rules(numbered: Sequence[NumberedRule], stages: Mapping[int, PositionalStage] = MappingProxyType({})) -> list[RuleGroup]:
    """Groups rules by template, in the order of the first rule of each.

    `stages` has, by number, the stages of rules that are not evaluated as a whole. The ports of
    roles outside a stage are -1.
    """
    rows_of_template: dict[RuleTemplate, list[tuple[int, tuple[Term, ...]]]] = {}
    for number, rule, ports, attributes in numbered:
        template, constants = normal_form(rule, ports, attributes, stages.get(number))
        rows_of_template.setdefault(template, []).append((number, constants))
    names = {number: rule.name for number, rule, *_ in numbered}
    return [_group(template, rows, names) for template, rows in rows_of_template.items()]


def _group(template: RuleTemplate, rows: Sequence[tuple[int, tuple[Term, ...]]], names: Mapping[int, str]) -> RuleGroup:
    """The group of a template, with the columns of one distinct value substituted."""
    columns: dict[tuple[Term, ...], int] = {}
    substitution: dict[Expression, Expression] = {}
    for place, column in enumerate(zip(*(constants for _, constants in rows), strict=True)):
        if len(set(column)) == 1:
            substitution[_constant(place)] = Const(column[0])
        else:
            substitution[_constant(place)] = _constant(columns.setdefault(column, len(columns)))
    table = tuple(zip(*columns, strict=True)) if columns else tuple(() for _ in rows)
    numbers = tuple(number for number, _ in rows)
    return RuleGroup(_substitute(template, substitution), numbers, table, tuple(names[number] for number in numbers))


def _constant(column: int) -> Attribute:
    return Attribute(ROW, str(column))


def normal_form(
    rule: Rule, ports: tuple[int, ...], attributes: tuple[Variable, ...], stage: PositionalStage | None = None
) -> tuple[RuleTemplate, tuple[Term, ...]]:
    """A rule's template and its constants."""
    all_roles = roles(rule)
    places = {role.label: str(place) for place, role in enumerate(all_roles)}
    results = {c.variable: Attribute(str(place), RESULT) for place, c in enumerate(rule.clauses, 1) if isinstance(c, Aggregate)}
    aggregates = {clause.role.label for clause in rule.clauses if isinstance(clause, Aggregate)}
    constants: list[Term] = []
    domains: list[OrderedDomain | None] = []

    def normal(expression: Expression, plain: Mapping[Variable, Expression], free: bool = True) -> Expression:
        return transform(expression, lambda normal_role: normal_part(normal_role, plain, free))

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
        same = next(n for n, other in enumerate(all_roles) if (other.origin, other.source) == (role.origin, role.source))
        free = not place or _takes_all_constants(rule, rule.clauses[place - 1])
        constraints: list[Expression] = []
        for constraint in (fold_constants(c) for written in role.constraints for c in conjuncts(written)):
            compared = searchable_comparison(constraint)
            is_column = not place or compared is not None or (free and reads_other_events(constraint, role.label))
            constraints.append(normal(constraint, {}, is_column))
            if compared is not None:
                domains[-1] = compared.domain
        return PositionalRole(ports[place], same, role.source.attributes, tuple(constraints), *anchor_delay(role))

    def normal_clause(place: int, clause: Clause) -> PositionalClause:
        match scope_of(clause):
            case Window(interval, reference):
                scope: PositionalWindow | PositionalBetween = PositionalWindow(*interval.bounds, int(places[reference]))
            case Between(first, second):
                scope = PositionalBetween(int(places[first]), int(places[second]))
            case other:
                assert_never(other)
        match clause:
            case Choose(role, mode, _, count, also):
                return PositionalClause(part(place, role), PositionalSelection(mode, count or 1, also), scope)
            case Absent(role, _):
                return PositionalClause(part(place, role), PositionalNegation(), scope)
            case Aggregate(_, function, distinct, attribute, role, _, fraction):
                return PositionalClause(part(place, role), PositionalAggregate(function.upper(), distinct, attribute, fraction), scope)
            case _:
                assert_never(clause)

    anchor = part(0, rule.anchor)
    steps = tuple(normal_clause(place, clause) for place, clause in enumerate(rule.clauses, 1))
    condition = None if rule.condition is None else normal(rule.condition, results)
    assigned = {assignment.variable: assignment.expression for assignment in rule.assignments}
    values = tuple([normal(assigned[name], results) if name in assigned else None for name in attributes])
    consuming = tuple(sorted({place for label in rule.consuming if (place := int(places[label]))}))
    once = None if rule.once is None else PositionalOnce(rule.once.pause, tuple([attributes.index(key) for key in rule.once.keys]))
    return RuleTemplate(anchor, steps, condition, values, consuming, tuple(domains), stage, once), tuple(constants)


def _takes_all_constants(rule: Rule, clause: Clause) -> bool:
    """True if all constants of a clause's constraints may be columns, not only those that a search
    supports.

    In any other clause each row would scan the candidates by itself; constants that stay in the
    template let an index filter the candidates.
    """
    return isinstance(clause, Absent | Choose) and not rule.consuming and (isinstance(clause, Absent) or clause.count in (None, 1))


def reads_other_events(constraint: Expression, own: Label) -> bool:
    """True if a constraint on the event of the label `own` reads another event."""
    return any(isinstance(each, Attribute) or (isinstance(each, TimeOf) and each.label != own) for each in parameters_of([constraint]))


def _substitute(template: RuleTemplate, substitution: Mapping[Expression, Expression]) -> RuleTemplate:
    """The template with the expressions of `back` replaced."""

    def expression(old: Expression) -> Expression:
        return transform(old, lambda role: role if isinstance(role, Call) else substitution.get(role, role))

    def part(old: PositionalRole) -> PositionalRole:
        return replace(old, constraints=tuple([expression(constraint) for constraint in old.constraints]))

    return RuleTemplate(
        part(template.anchor),
        tuple([replace(step, role=part(step.role)) for step in template.clauses]),
        None if template.condition is None else expression(template.condition),
        tuple([None if value is None else expression(value) for value in template.values]),
        template.consuming,
        template.domains,
        template.stage,
        template.once,
    )


def stage_alone(template: RuleTemplate) -> RuleTemplate:
    """The template of a stage without the constraints, condition and values that other stages
    evaluate."""
    stage = template.stage
    if stage is None:
        return template

    def part(place: int, role: PositionalRole) -> PositionalRole:
        is_own = place in template.places if place else stage.enters is None
        return role if is_own else replace(role, constraints=())

    clauses = tuple([replace(step, role=part(place, step.role)) for place, step in enumerate(template.clauses, 1)])
    is_last = stage.leaves is None
    return replace(
        template,
        anchor=part(0, template.anchor),
        clauses=clauses,
        condition=template.condition if is_last else None,
        values=template.values if is_last else (),
    )
