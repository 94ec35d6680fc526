"""Pass 12: finds parts of rules without effect, in programs without errors.

Before: `?n = count(*) of …`, and no `?n` anywhere. After: the same rules, and a warning at `?n`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TypeGuard

from dotr.errors.diagnostics import Diagnostic
from dotr.evaluation.expressions import condition
from dotr.languages.codes import RuleCode
from dotr.languages.rules.lints.unsatisfiable import Conjunct, exclusive_comparisons, implies, is_constant, split
from dotr.languages.rules.program import ProgramDraft, RoleDraft, RoleOrigin, RoleUse, RuleDraft, event_reads, warning
from dotr.languages.rules.syntax import AggregateSyntax, BetweenSyntax, ChooseSyntax, IntervalSyntax, TicksSyntax, WindowSyntax
from dotr.model.algebra import Attribute, Call, Expression, Extend, Filter, Group, Pattern, Select, TimeOf, Var
from dotr.model.event_order import equated_pair
from dotr.model.graphs import least_fixpoint
from dotr.model.places import Document, Span
from dotr.model.rules import Mode
from dotr.model.terms import Label, Variable
from dotr.model.traverse import conjuncts, parameters_of, transform
from dotr.syntax import scan
from dotr.syntax.scan import one_line


def check_pointless(program: ProgramDraft) -> ProgramDraft:
    """Report the warnings D220, D221, D315, D316, D318, D322, D324 and D403."""
    return program.with_problems(_all_warnings(program)) if program.is_error_free else program


def _all_warnings(program: ProgramDraft) -> Iterator[Diagnostic]:
    for rule in program.rules:
        yield from _unused_aggregates(rule)
        yield from _anchors_in_negations(rule)
        yield from _between_itself(rule)
        yield from _passed_over(rule)
        yield from _always_true(rule)
        yield from _fires_twice(rule, program.rules_by_event)
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
        return least <= bound.delay <= greatest and (bound.delayed_by is None or least == 0)
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


def _passed_over(rule: RuleDraft) -> Iterator[Diagnostic]:
    """Pairs of `last` (or `first`) of one label that could choose one event, neither with `also`.

    `last T as Now within 1 h from Ask and last T as Then within [10 s, 1 h] from Ask`: where the
    only T is 20 s old, Now has it, and Then is the one before.
    """
    single = [
        (role, clause)
        for role, clause in zip(rule.roles[1:], rule.syntax.clauses, strict=True)
        if isinstance(clause, ChooseSyntax) and clause.mode is not Mode.EACH and clause.count is None and clause.also is None
    ]
    for number, (role, clause) in enumerate(single):
        for other, _ in single[:number]:
            if role.source_label.text == other.source_label.text and role.origin is other.origin and _may_be_one_event(other, role, rule):
                side, word = ("before", "last") if clause.mode is Mode.LAST else ("after", "first")
                now, then = other.label.text, role.label.text
                hint = f"Write `also {word}` where it may be the same one. If it may not: # dotr: allow {RuleCode.NOT_ALSO} (the reason)"
                message = f"where nothing came in between, {then} is the event {side} {now}'s"
                yield warning(RuleCode.NOT_ALSO, message, role.label.span, hint)
                break


def _may_be_one_event(other: RoleDraft, role: RoleDraft, rule: RuleDraft) -> bool:
    """True if the windows of two clauses can hold one event that satisfies the conditions of both,
    and their equalities are with the same attributes."""
    reach, place = (role.label.text, 0), {each.label.text: each for each in rule.roles}
    windows: list[tuple[int, int]] = []
    for start in (other, role):
        near, far, each = 0, 0, start
        while isinstance(each.scope, WindowSyntax) and each.interval is not None:
            least, greatest = each.interval.bounds
            near, far, each = near + least, far + greatest, place[each.scope.reference.text]
            if start is role and each is other:
                reach = other.label.text, near
        windows.append((near, far))
    if (windows[0][0] > windows[1][1]) or (windows[1][0] > windows[0][1]) or (reach[0] == other.label.text and reach[1] > 0):
        return False
    conditions = [{_of_bound(part, "", each.label.text) for part in _conditions(each)} for each in (other, role)]
    ties = [{part for part in own if _is_equality(part)} for own in conditions]
    if not (ties[0] <= ties[1] or ties[1] <= ties[0]):
        return False
    nowhere = Span(Document("", ""), 0, 0)
    together = [Conjunct(part, nowhere) for own in conditions for part in own]
    excluded = any(Call("!=", part.arguments) in conditions[1 - n] for n in (0, 1) for part in conditions[n] if _is_call(part, "="))
    return not excluded and not any(exclusive_comparisons(together))


def _is_call(expression: Expression, function: str) -> TypeGuard[Call]:
    return isinstance(expression, Call) and expression.function == function


def _is_equality(expression: Expression) -> bool:
    """True for an equality of two attributes of different events."""
    return _is_call(expression, "=") and len({each.label for each in expression.arguments if isinstance(each, Attribute)}) == 2


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


def _fires_twice(rule: RuleDraft, rules_by_event: Mapping[Label, Sequence[RuleDraft]]) -> Iterator[Diagnostic]:
    """Negations that are to let a rule fire once, but pass two anchors of one moment: in a window
    that begins at `(0` they exclude the rule's own event, or the label of its anchor.

    `from Trouble and not Page as Before [ FILTER(?h = Trouble.?h) ] within (0, 5 min] from Trouble`
    """
    anchor, event = rule.roles[0], rule.syntax.event.text
    if rule.syntax.once is not None or (isinstance(anchor.syntax, TicksSyntax) and anchor.syntax.text is None):
        return
    for role in rule.roles[1:]:
        is_own = role.origin is RoleOrigin.EVENT and role.source_label.text == event
        if role.use is not RoleUse.ABSENT or not (_is_of_one_source(anchor, role) or (is_own and len(rules_by_event[event]) == 1)):
            continue
        if not _begins_behind(role, anchor) or (not is_own and anchor.delay and _is_in_window(anchor, role)):
            continue  # two delayed anchors of one moment exclude each other
        conditions = _conditions(role) if is_own else [part for part in _conditions(role) if part not in _conditions(anchor)]
        equated = {pair[1].name for pair in map(equated_pair, conditions) if pair is not None and pair[1].label == anchor.label.text}
        if _comes_once(anchor, equated, rules_by_event):
            continue
        copies = {a.variable.text: e for a, e in zip(rule.syntax.assignments, rule.expressions, strict=True)}
        keys = [
            name
            for name, value in copies.items()
            if isinstance(value, Attribute) and value.label == anchor.label.text and value.name in equated
        ]
        per = f" per {', '.join(f'?{key}' for key in keys)}" if keys else " per …" if equated else ""
        hint = f"Add `once in 0{per}`."
        if is_own and role.interval is not None and isinstance(role.scope, WindowSyntax) and all(map(equated_pair, conditions)):
            length = one_line(role.scope.extent.high.span if isinstance(role.scope.extent, IntervalSyntax) else role.scope.extent.span)
            exactly = ", which fires again at exactly that distance" if role.interval.high_closed else ""
            hint = f"Add `once in 0{per}`; or write `once in {length}{per}` in place of the clause{exactly}."
        yield warning(RuleCode.FIRES_TWICE, f"two {anchor.source_label.text} of one moment both fire", role.label.span, hint)


def _begins_behind(role: RoleDraft, anchor: RoleDraft) -> bool:
    """True if the window of a clause begins at `(0` from the anchor."""
    if not isinstance(role.scope, WindowSyntax) or role.interval is None or role.scope.reference.text != anchor.label.text:
        return False
    return role.interval.low == 0 and not role.interval.low_closed


def _comes_once(anchor: RoleDraft, equated: set[Variable], rules_by_event: Mapping[Label, Sequence[RuleDraft]]) -> bool:
    """True if two anchors of one moment differ in an attribute that an exclusion equates."""
    if anchor.origin is RoleOrigin.EVENT:
        rules = rules_by_event.get(anchor.source_label.text)
        if rules is None:
            return True  # of a unit of another language
        once = rules[0].syntax.once
        return len(rules) == 1 and once is not None and equated.issuperset(key.text for key in once.keys)
    if anchor.query is None:
        return False
    select = anchor.query.select
    if anchor.delayed_by is not None and any(isinstance(part, TimeOf) for part in parameters_of([anchor.delayed_by])):
        return False
    is_single = select.distinct or isinstance(_inner(select.pattern), Group)
    return is_single and equated.issuperset(select.projection)


def _inner(pattern: Pattern) -> Pattern:
    """The pattern below the filters and computed columns of a query."""
    while isinstance(pattern, Filter | Extend):
        pattern = pattern.pattern
    return pattern


def is_candidate(bound: RoleDraft, role: RoleDraft) -> bool:
    """True if both labels read one source, and every event bound to the one satisfies the constraints
    of the other's clause: each is a constraint of the bound event, is implied by one, or compares a
    term with itself, as `?d = Open.?d`.

    Sound, except for an attribute that is unbound or has no order.
    """
    if not _is_of_one_source(bound, role):
        return False
    premises = {_of_bound(part, bound.label.text, bound.label.text) for part in _conditions(bound)}
    return all(_follows(_of_bound(part, bound.label.text, role.label.text), premises) for part in _conditions(role))


def _is_of_one_source(bound: RoleDraft, role: RoleDraft) -> bool:
    if role.source_label.text == bound.source_label.text and role.origin is bound.origin:
        return True
    return role.query is not None and bound.query is not None and role.query.select == bound.query.select


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
    of_query = [*_top_conditions(role.query.select), *role.query.constraints] if role.query else []
    return [part for condition in (*of_query, *role.filters) for part in conjuncts(condition)]


def _of_bound(condition: Expression, bound: Label, label: Label) -> Expression:
    """A condition of the clause `label` with the bound event as its candidate.

    With the bound label Open, `?door` becomes `Open.?door`.
    """

    def change(part: Expression) -> Expression:
        match part:
            case Var(name):
                return Attribute(bound, name)
            case TimeOf(each) if each == label:
                return TimeOf(bound)
            case _:
                return part

    return transform(condition, change)


def _top_conditions(select: Select) -> tuple[Expression, ...]:
    return select.pattern.conditions if isinstance(select.pattern, Filter) else ()
