"""Pass 12: finds parts of rules without effect, in programs without errors.

Before: `?n = count(*) of …`, and no `?n` anywhere. After: the same rules, and a warning at `?n`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Final, TypeAlias

from dotr.errors.diagnostics import Diagnostic
from dotr.evaluation.expressions import condition
from dotr.languages.codes import RuleCode
from dotr.languages.rules.lints.unsatisfiable import Conjunct, implies, is_constant, split
from dotr.languages.rules.program import ProgramDraft, RoleDraft, RoleOrigin, RoleUse, RuleDraft, event_reads, warning
from dotr.languages.rules.syntax import AggregateSyntax, BetweenSyntax, TicksSyntax, WindowSyntax
from dotr.model.algebra import Attribute, Bgp, BgpItem, Call, Expression, Filter, PathPattern, Select, Slot, TimeOf, Var, slots_of
from dotr.model.graphs import least_fixpoint
from dotr.model.terms import Label, Variable
from dotr.model.traverse import conjuncts, transform
from dotr.syntax import scan


def check_pointless(program: ProgramDraft) -> ProgramDraft:
    """Report the warnings D220, D221, D315, D316, D318 and D403."""
    return program.with_problems(_all_warnings(program)) if program.is_error_free else program


def _all_warnings(program: ProgramDraft) -> Iterator[Diagnostic]:
    for rule in program.rules:
        yield from _unused_aggregates(rule)
        yield from _anchors_in_negations(rule)
        yield from _between_itself(rule)
        yield from _always_true(rule)
    yield from _unfounded(program)
    yield from _unused_queries(program)


def _unused_aggregates(rule: RuleDraft) -> Iterator[Diagnostic]:
    """Aggregates whose variable is not used again, and whose events are not consumed."""
    consumed = {word.text for word in rule.syntax.consuming}
    for clause in rule.syntax.clauses:
        if isinstance(clause, AggregateSyntax) and clause.event.label.text not in consumed:
            name = clause.variable.text
            if sum(token.lastgroup == "variable" and token[0][1:] == name for token in scan.tokens(rule.syntax.span)) == 1:
                hint = f"Use ?{name} in `if`, in `with` or in a later clause, or leave the clause out: it changes nothing."
                yield warning(RuleCode.UNUSED_AGGREGATE, f"?{name} is never used", clause.variable.span, hint)


def _unused_queries(program: ProgramDraft) -> Iterator[Diagnostic]:
    """Shared queries that no rule reads, in files that have rules."""
    labels_read = {role.source_label.text for rule in program.rules for role in rule.roles}
    with_rules = {id(rule.syntax.span.document) for rule in program.rules}
    for query in program.queries:
        label = query.syntax.label
        if label.text not in labels_read and id(label.span.document) in with_rules:
            yield warning(RuleCode.UNUSED_QUERY, f"no rule reads {label.text}", label.span, "Leave the query out, or let a rule read it.")


def _anchors_in_negations(rule: RuleDraft) -> Iterator[Diagnostic]:
    """Negations that never hold, since the anchor or a chosen event is a candidate in their window.

    - `from Temp as Now and not Temp as Other … within [0, …] from Now`
    - A delayed anchor is at the distance of its delay: `from Temp as Now delayed by 1 h and not
      Temp as Other … within 1 h from Now`.
    - A chosen event is in its own window: `last Temp as Before within 5 min from Now and not Temp
      as Other within 1 h from Now`.
    """
    bound = [role for role in rule.roles if role.use.binds_label and not isinstance(role.syntax, TicksSyntax)]
    for position, role in enumerate(rule.roles):
        for other in bound:
            if role.use is RoleUse.ABSENT and other in rule.roles[:position] and _is_in_window(other, role) and is_candidate(other, role):
                yield _negated_warning(role, other)
                break


def _is_in_window(bound: RoleDraft, role: RoleDraft) -> bool:
    """True if the event bound to a label is always in the window of a clause."""
    if not isinstance(role.scope, WindowSyntax) or role.interval is None:
        return False
    least, greatest = role.interval.bounds
    if role.scope.reference.text == bound.label.text:
        return least <= bound.delay <= greatest
    if not isinstance(bound.scope, WindowSyntax) or bound.interval is None or bound.scope.reference.text != role.scope.reference.text:
        return False
    nearest, farthest = bound.interval.bounds
    return least <= nearest and farthest <= greatest


def _negated_warning(role: RoleDraft, other: RoleDraft) -> Diagnostic:
    subject = "the anchor" if other.use is RoleUse.ANCHOR else "the event"
    if isinstance(role.scope, WindowSyntax) and role.scope.reference.text == other.label.text:
        distance = "the distance by which it is delayed" if other.delay else "distance 0"
        remedy = f"Leave it out by a window that is open there: {'within [0, …) of that length' if other.delay else '(0, …]'}."
    else:
        distance, remedy = "a distance within it", f"Leave it out by a condition, or write `between {other.label.text} and …`."
    hint = f"It is an event of {other.source_label.text} at {distance}, and a negation covers every event, so it never holds. {remedy}"
    return warning(RuleCode.ANCHOR_NEGATED, f"{subject} {other.label.text} is itself in this window", role.label.span, hint)


def _unfounded(program: ProgramDraft) -> Iterator[Diagnostic]:
    """Roles that read an underivable event, as every rule that defines it reads an earlier one.

    The derivable events are a least fixpoint: an event is derivable if all positive roles of a rule
    that defines it read queries or derivable events.
    """
    rules = program.rules_by_event
    start = dict.fromkeys(rules, False) | {unit.label: True for unit in program.units}
    derivable = least_fixpoint(
        start,
        event_reads(rules),
        lambda label, found: start[label] or any(not _underivable_roles(rule, found) for rule in rules[label]),
    )
    for rule in program.rules:
        for role in _underivable_roles(rule, derivable):
            hint = "Let a rule define the first one, without reading another: its clause may be `and not`."
            yield warning(RuleCode.UNFOUNDED, f"no {role.source_label.text} can ever be the first", role.source_label.span, hint)


def _underivable_roles(rule: RuleDraft, derivable: Mapping[Label, bool]) -> list[RoleDraft]:
    """The positive roles of a rule that read an event which is not derivable."""
    return [
        role for role in rule.roles if role.use.binds_label and role.origin is RoleOrigin.EVENT and not derivable[role.source_label.text]
    ]


def _between_itself(rule: RuleDraft) -> Iterator[Diagnostic]:
    """Negations and aggregates over the empty interval `between A and A`."""
    for role in rule.roles:
        if isinstance(role.scope, BetweenSyntax) and role.scope.first.text == role.scope.second.text:
            hint = "`between` is the time strictly between two events: name two."
            yield warning(RuleCode.NOTHING_BETWEEN, "nothing lies between an event and itself", role.scope.second.span, hint)


def _always_true(rule: RuleDraft) -> Iterator[Diagnostic]:
    """Constant true conjuncts of `if`. Constant false ones are reported by pass 10."""
    if rule.condition is None or rule.syntax.condition is None:
        return
    conjunction = Conjunct(rule.condition, rule.syntax.condition)
    if any(is_constant(part.expression) and condition(part.expression, ())() for part in split(conjunction)):
        yield warning(RuleCode.ALWAYS_HOLDS, "this condition, or a part of it, always holds", conjunction.text, "Leave it out.")


# Query containment: proof that the event bound to one label is a candidate of another clause too.
#
# Idea: a containment mapping (homomorphism) from the clause's query to that of the bound event. Every
# answer of `?o :opens ?door ; a :MainDoor` is an answer of `?x :opens ?d`, by ?x -> ?o, ?d -> ?door.
# A condition of the clause is satisfied if it is a condition of the bound event, is implied by one,
# or compares a term with itself under the mapping, as `?d = Open.?door`.
# Invariant: sound, except for an attribute that is unbound or has no order.
# Cost: exponential in the patterns at worst; at most 1,000 mappings are tried.
# Source: Chandra, Merlin 1977.

_MAX_MAPPINGS: Final = 1_000
"""Maximal number of containment mappings tried for two queries."""

_Mapping: TypeAlias = Mapping[Variable, Slot]
"""A containment mapping: the image of each variable of one query in another query."""


def is_candidate(bound: RoleDraft, role: RoleDraft) -> bool:
    """True if every event bound to a label satisfies the query and the constraints of a clause."""
    premises = {_image(part, bound.label.text, bound.label.text, {}) for part in _conditions(bound)}
    return any(
        all(_follows(_image(part, bound.label.text, role.label.text, mapping), premises) for part in _conditions(role))
        for mapping in islice(_mappings(role, bound), _MAX_MAPPINGS)
    )


def _follows(conclusion: Expression, premises: set[Expression]) -> bool:
    match conclusion:
        case Call("=" | "<=" | ">=", (left, right)) if left == right:
            return True
        case Call("=", (left, right)) if Call("=", (right, left)) in premises:
            return True
        case _:
            return conclusion in premises or any(implies(each, conclusion) for each in premises)


def _conditions(role: RoleDraft) -> list[Expression]:
    """The conjuncts of a role's top-level query conditions and of its constraints."""
    of_query = [*_basic(role.query.select)[1], *role.query.constraints] if role.query else []
    return [part for condition in (*of_query, *role.filters) for part in conjuncts(condition)]


def _image(condition: Expression, bound: Label, label: Label, mapping: _Mapping) -> Expression:
    """A condition of the clause `label` with the bound event as its candidate.

    With the mapping ?d -> ?door and the bound label Open, `?d` becomes `Open.?door`.
    """

    def change(part: Expression) -> Expression:
        match part:
            case Var(name):
                slot = mapping.get(name, part)
                return Attribute(bound, slot.name) if isinstance(slot, Var) else slot
            case TimeOf(each) if each == label:
                return TimeOf(bound)
            case _:
                return part

    return transform(condition, change)


def _mappings(role: RoleDraft, bound: RoleDraft) -> Iterator[_Mapping]:
    """The containment mappings from the source of `role` to that of `bound`.

    The mapping of equal sources is empty: each variable is its own image.
    """
    if role.source_label.text == bound.source_label.text and role.origin is bound.origin:
        yield {}
    elif role.query is not None and bound.query is not None:
        own, other = _basic(role.query.select)[0], _basic(bound.query.select)[0]
        if role.query.select == bound.query.select:
            yield {}
        elif own is not None and other is not None:
            yield from _extensions(own.patterns, other.patterns, {})


def _basic(select: Select) -> tuple[Bgp | None, tuple[Expression, ...]]:
    """The basic graph pattern of a query, and its top-level conditions.

    The pattern is None if the query has other patterns, OFFSET or LIMIT.
    """
    inner, conditions = (select.pattern.pattern, select.pattern.conditions) if isinstance(select.pattern, Filter) else (select.pattern, ())
    sliced = select.offset or select.limit is not None
    return inner if isinstance(inner, Bgp) and not sliced else None, conditions


def _extensions(patterns: tuple[BgpItem, ...], into: tuple[BgpItem, ...], mapping: _Mapping) -> Iterator[_Mapping]:
    """The extensions of a mapping under which the image of each pattern is one of `into`."""
    if not patterns:
        yield mapping
        return
    for other in into:
        extended = _extension(patterns[0], other, mapping)
        if extended is not None:
            yield from _extensions(patterns[1:], into, extended)


def _extension(pattern: BgpItem, other: BgpItem, mapping: _Mapping) -> _Mapping | None:
    """The extension of a mapping under which a pattern's image is `other`; None without one."""
    if type(pattern) is not type(other):
        return None
    if isinstance(pattern, PathPattern) and isinstance(other, PathPattern) and pattern.path != other.path:
        return None
    extended = dict(mapping)
    for slot, image in zip(slots_of(pattern), slots_of(other), strict=True):
        if isinstance(slot, Var):
            if extended.setdefault(slot.name, image) != image:
                return None
        elif slot != image:
            return None
    return extended
