"""Pass 16: emits the rules and shared queries of `dotr.model.rules`; none if there was an error.

The facts of a role have the variables that its query projects, and hidden ones that the rule's
temporal constraints on the query need. All roles of a rule with the same query have the same
variables, so they read the same events.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from decimal import Decimal
from typing import TypeAlias, TypeVar, assert_never

from dotr.engine.spec import RolePlaces, RulePlaces
from dotr.evaluation.expressions.values.decimals import plain
from dotr.languages.rules.program import ProgramDraft, RoleDraft, RoleOrigin, RuleDraft
from dotr.languages.rules.syntax import AbsentSyntax, AggregateSyntax, BetweenSyntax, ChooseSyntax, ClauseSyntax, WindowSyntax
from dotr.model import dataclass
from dotr.model.algebra import Attribute, Expression, Var
from dotr.model.rules import (
    Absent,
    Aggregate,
    Assignment,
    Between,
    Choose,
    Clause,
    EventSource,
    FactSource,
    Once,
    Role,
    Rule,
    SharedQuery,
    Source,
    Window,
)
from dotr.model.terms import Label, Variable
from dotr.model.traverse import free_variables, transform

_Part = TypeVar("_Part")
_EventAttributes = Mapping[Label, tuple[Variable, ...]]


def emit(program: ProgramDraft) -> ProgramDraft:
    """Fill `emitted_rules` and `emitted_queries`; reports nothing."""
    if not program.is_error_free:
        return program
    events = program.event_attributes
    written: dict[Label, dict[Variable, None]] = {}
    for rule in program.rules:
        written.setdefault(rule.syntax.event.text, {}).update(dict.fromkeys(each.variable.text for each in rule.syntax.assignments))
    for unit in program.units:
        written.setdefault(unit.label, {}).update(dict.fromkeys(unit.attributes))
    return replace(
        program,
        emitted_rules=tuple(_rule(rule, events) for rule in program.rules),
        emitted_queries=tuple(SharedQuery(q.syntax.label.text, _present(q.query).select, q.syntax.label.span) for q in program.queries),
        emitted_places={rule.name.text: _places(rule, written) for rule in program.rules},
    )


_WrittenAttributes: TypeAlias = Mapping[Label, Mapping[Variable, None]]
"""The attributes of each event, in the order of the text."""


def _places(rule: RuleDraft, events: _WrittenAttributes) -> RulePlaces:
    return RulePlaces(tuple([_role_places(role, events) for role in rule.roles]), rule.condition_places)


def _role_places(role: RoleDraft, events: _WrittenAttributes) -> RolePlaces:
    conditions = {**role.query.places, **role.filter_places} if role.query else role.filter_places
    if role.origin is RoleOrigin.EVENT:
        return RolePlaces(tuple(events[role.source_label.text]), conditions)
    return RolePlaces(tuple(dict.fromkeys(_present(role.query).select.projection)), conditions)


def _present(part: _Part | None) -> _Part:
    """Assert that a part is present: it is missing only in programs with errors."""
    assert part is not None
    return part


def _rule(rule: RuleDraft, events: _EventAttributes) -> Rule:
    syntax = rule.syntax
    anchor, *roles = rule.roles
    hidden: dict[Label, set[Variable]] = {}
    for role in rule.roles:
        hidden.setdefault(role.source_label.text, set()).update(name for c in _constraints(role) for name in free_variables(c))
    emitter = _RoleEmitter(events, hidden)
    return Rule(
        name=rule.name.text,
        documentation=syntax.documentation,
        event=syntax.event.text,
        template=_present(rule.template),
        anchor=emitter.role(anchor),
        clauses=tuple(_clause(clause, role, emitter) for clause, role in zip(syntax.clauses, roles, strict=True)),
        condition=rule.condition,
        assignments=tuple(_assignments(rule)),
        consuming=tuple(dict.fromkeys(word.text for word in syntax.consuming)),
        span=syntax.span,
        internal=syntax.internal is not None,
        once=_once(rule),
    )


def _once(rule: RuleDraft) -> Once | None:
    if rule.syntax.once is None:
        return None
    return Once(_present(rule.pause), tuple(sorted(key.text for key in rule.syntax.once.keys)))


def _assignments(rule: RuleDraft) -> Iterator[Assignment]:
    for assignment, expression in zip(rule.syntax.assignments, rule.expressions, strict=True):
        assert expression is not None
        yield Assignment(assignment.variable.text, expression)


def _constraints(role: RoleDraft) -> tuple[Expression, ...]:
    return (role.query.constraints if role.query else ()) + role.filters


@dataclass(frozen=True, slots=True)
class _RoleEmitter:
    """Emitter of the roles of one rule.

    - `events`: the attributes of each event of the program.
    - `hidden`: the variables of the rule's constraints, by the label of the query or event read.
    """

    events: _EventAttributes
    hidden: Mapping[Label, set[Variable]]

    def role(self, role: RoleDraft) -> Role:
        label, by = role.label.text, role.delayed_by
        own = None if by is None else transform(by, lambda part: Var(part.name) if isinstance(part, Attribute) else part)
        return Role(label, role.source_label.text, self._source(role), _constraints(role), role.label.span, role.delay, own)

    def _source(self, role: RoleDraft) -> Source:
        match role.origin:
            case RoleOrigin.OWN | RoleOrigin.SHARED:
                select = _present(role.query).select
                projected = tuple(sorted(select.projection))
                attributes = tuple(sorted({*projected, *self.hidden[role.source_label.text]}))
                return FactSource(replace(select, projection=attributes), attributes, projected, role.period)
            case RoleOrigin.EVENT:
                return EventSource(role.source_label.text, self.events[role.source_label.text])
            case RoleOrigin.UNKNOWN:
                raise AssertionError(role.source_label)
            case _:
                assert_never(role.origin)


def _clause(clause: ClauseSyntax, role: RoleDraft, emitter: _RoleEmitter) -> Clause:
    emitted = emitter.role(role)
    match clause:
        case ChooseSyntax():
            scope = _scope(role)
            assert isinstance(scope, Window)
            count = int(clause.count.text) if clause.count is not None else None
            return Choose(emitted, clause.mode, scope, count, clause.also is not None)
        case AbsentSyntax():
            return Absent(emitted, _scope(role))
        case AggregateSyntax(variable, function, distinct, argument):
            attribute = argument[1].text if argument is not None else None
            fraction = plain(Decimal(clause.fraction.text)) if clause.fraction is not None else None
            return Aggregate(variable.text, function.text.lower(), distinct, attribute, emitted, _scope(role), fraction)
        case _:
            assert_never(clause)


def _scope(role: RoleDraft) -> Window | Between:
    match role.scope:
        case WindowSyntax(_, reference):
            return Window(_present(role.interval), reference.text)
        case BetweenSyntax(first, second):
            return Between(first.text, second.text)
        case None:
            raise AssertionError(role.label)
        case _:
            assert_never(role.scope)
