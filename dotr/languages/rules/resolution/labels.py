"""Pass 4: checks that each label of a rule is bound once, and before it is used.

Checked are the labels behind `from`, `between` and `consuming`, and those of aggregates. Clauses
bind in the order written, so a clause can refer to the anchor and to the clauses before it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from dotr.errors.diagnostics import Diagnostic, did_you_mean
from dotr.languages.codes import RuleCode
from dotr.languages.rules.program import ProgramDraft, RoleDraft, RoleUse, RuleDraft, warning
from dotr.languages.rules.syntax import AggregateSyntax, BetweenSyntax, Inline, WindowSyntax, Word
from dotr.model.places import Span
from dotr.model.terms import Label


def check_labels(program: ProgramDraft) -> ProgramDraft:
    """Report D203, D204, D212 to D214, D308 and D311."""
    return program.with_problems(problem for rule in program.rules for problem in _problems(rule))


def unbound_label(label: Label, span: Span, roles: Sequence[RoleDraft], position: int) -> Diagnostic | None:
    """The error of a label that no role before `position` binds to one event; None if one does."""
    before = [role.label.text for role in roles[:position] if role.use.binds_label]
    if label in before:
        return None
    role = next((role for role in roles[: position + 1] if role.label.text == label), None)
    if role is not None and not role.use.binds_label:
        negated = role.use is RoleUse.ABSENT
        message = f"{label} is {'negated' if negated else 'aggregated'}: it is not one event"
        hint = "There is no such event in a match." if negated else "Use the aggregate's variable."
        return Diagnostic(RuleCode.NOT_ONE_EVENT, message, span, f"{hint} Bound are {_label_list(before)}.")
    all_bound = f"The rule binds {_label_list([role.label.text for role in roles if role.use.binds_label])}."
    if label in (role.label.text for role in roles[position:]):
        hint = (
            f"Before this clause: {_label_list(before)}. Clauses bind in the order written."
            if before
            else "Nothing is bound before the anchor."
        )
        return Diagnostic(RuleCode.UNBOUND_LABEL, f"{label} is not bound yet", span, hint)
    suggestion = did_you_mean(label, before)
    return Diagnostic(RuleCode.UNBOUND_LABEL, f"unbound label {label}", span, f"{all_bound} {suggestion}".rstrip())


def _label_list(labels: Sequence[str]) -> str:
    return ", ".join(labels) or "no label"


def _problems(rule: RuleDraft) -> Iterator[Diagnostic]:
    yield from _duplicate_labels(rule)
    for position, role in enumerate(rule.roles):
        match role.scope:
            case WindowSyntax(_, reference):
                words: tuple[Word, ...] = (reference,)
            case BetweenSyntax(first, second):
                words = (first, second)
            case None:
                words = ()
        for word in words:
            if problem := unbound_label(word.text, word.span, rule.roles, position):
                yield problem
    for clause in rule.syntax.clauses:
        if isinstance(clause, AggregateSyntax) and clause.argument is not None:
            label, variable = clause.argument
            if label.text != clause.event.label.text:
                hint = f"Write {clause.event.label.text}.?{variable.text}, or `of {label.text}`."
                message = f"the aggregate is over {clause.event.label.text}, not over {label.text}"
                yield Diagnostic(RuleCode.WRONG_AGGREGATED_LABEL, message, label.span, hint)
    yield from _consuming_problems(rule)


def _duplicate_labels(rule: RuleDraft) -> Iterator[Diagnostic]:
    labels: set[Label] = set()
    for role in rule.roles:
        label = role.label.text
        if label in labels:
            replacement = f"{label}2 = [ SELECT … ]" if isinstance(role.syntax, Inline) else f"{role.source_label.text} as {label}2"
            hint = f"Give it a label of its own: {replacement}."
            yield Diagnostic(RuleCode.LABEL_TWICE, f"two events of the rule are called {label}", role.label.span, hint)
        labels.add(label)
    variables: set[str] = set()
    for clause in rule.syntax.clauses:
        if isinstance(clause, AggregateSyntax):
            name = clause.variable
            if name.text in variables:
                hint = "Give each aggregate a variable of its own."
                yield Diagnostic(RuleCode.AGGREGATE_TWICE, f"two aggregates are called ?{name.text}", name.span, hint)
            variables.add(name.text)


def _consuming_problems(rule: RuleDraft) -> Iterator[Diagnostic]:
    positions = rule.positions
    for word in rule.syntax.consuming:
        position = positions.get(word.text)
        if position is None:
            labels = [role.label.text for role in rule.roles if role.use is not RoleUse.ABSENT]
            hint = f"The rule binds {_label_list(labels)}. {did_you_mean(word.text, labels)}".rstrip()
            yield Diagnostic(RuleCode.UNBOUND_LABEL, f"unbound label {word.text}", word.span, hint)
        elif rule.roles[position].use is RoleUse.ABSENT:
            hint = "No event has that place in a match, so there is nothing to consume."
            yield Diagnostic(RuleCode.NEGATED_CONSUMED, f"{word.text} is negated and cannot be consumed", word.span, hint)
        elif rule.roles[position].use is RoleUse.ANCHOR:
            hint = "An anchor is used once anyway. Leave it out."
            yield warning(RuleCode.ANCHOR_CONSUMED, f"consuming the anchor {word.text} has no effect", word.span, hint)
