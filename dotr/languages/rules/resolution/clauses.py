"""Pass 9: checks counts, aggregate functions, and that `with` assigns the template's variables."""

from __future__ import annotations

from collections.abc import Iterator

from dotr.errors.diagnostics import Diagnostic, did_you_mean
from dotr.languages.rules.codes import RuleCode
from dotr.languages.rules.program import ProgramDraft, RoleOrigin, RuleDraft, warning
from dotr.languages.rules.resolution.attributes import did_you_mean_variable
from dotr.languages.rules.syntax import AggregateSyntax, ChooseSyntax
from dotr.model.algebra import Var
from dotr.model.templates import Template, leaves
from dotr.model.terms import Label, Variable
from dotr.model.traverse import free_variables
from dotr.syntax import scan

FUNCTIONS = ("count", "sum", "avg", "min", "max")


def check_clauses(program: ProgramDraft) -> ProgramDraft:
    """Report D209 to D211, D217 and D305 to D307."""
    read = _attributes_read(program)
    problems: list[Diagnostic] = []
    for rule in program.rules:
        problems += _clause_problems(rule)
        problems += _assignment_problems(rule, read.get(rule.syntax.event.text, frozenset()))
    return program.with_problems(problems)


def _clause_problems(rule: RuleDraft) -> Iterator[Diagnostic]:
    for clause in rule.syntax.clauses:
        match clause:
            case ChooseSyntax(keyword, _, count) if count is not None and int(count.text) == 0:
                selection = keyword.text.lower()
                hint = f"Write {selection}, or {selection} with a number from 1."
                yield Diagnostic(RuleCode.NOTHING_SELECTED, f"{selection} 0 selects nothing", count.span, hint)
            case AggregateSyntax(_, function, _, argument):
                name = function.text.lower()
                if name not in FUNCTIONS:
                    hint = f"Aggregates are {', '.join(FUNCTIONS)}. {did_you_mean(name, FUNCTIONS)}".rstrip()
                    yield Diagnostic(RuleCode.UNKNOWN_AGGREGATE, f"there is no aggregate {function.text}", function.span, hint)
                elif argument is None and name != "count":
                    hint = f"Only count takes *. Write {name}({clause.event.label.text}.?v)."
                    yield Diagnostic(RuleCode.AGGREGATE_OF_EVERYTHING, f"{name} of * has no meaning", function.span, hint)
            case _:
                pass


def _assignment_problems(rule: RuleDraft, read: frozenset[Variable]) -> Iterator[Diagnostic]:
    event, assigned = rule.syntax.event.text, dict[Variable, int]()
    for assignment in rule.syntax.assignments:
        label, name = assignment.label, assignment.variable
        if label.text != event:
            hint = f"Write {event}.?{name.text}."
            yield Diagnostic(RuleCode.WRONG_ASSIGNED_LABEL, f"the rule defines {event}, not {label.text}", label.span, hint)
        if name.text in assigned:
            yield Diagnostic(RuleCode.ASSIGNED_TWICE, f"?{name.text} is assigned twice", name.span, "Keep one of the assignments.")
        assigned[name.text] = assigned.get(name.text, 0) + 1
    if rule.template is None:
        return
    required = _template_variables(rule.template)
    for missing in required:
        if missing not in assigned:
            hint = f"Add: with {event}.?{missing} = … {did_you_mean_variable(missing, [v for v in assigned if v not in required])}".rstrip()
            span = scan.plain_variable(rule.syntax.template, missing)
            yield Diagnostic(RuleCode.UNBOUND_IN_TEMPLATE, f"with never binds ?{missing}", span, hint)
    for assignment in rule.syntax.assignments:
        name = assignment.variable
        if name.text not in required and name.text not in read:
            hint = f"Use ?{name.text} in define, or leave the assignment out."
            yield warning(RuleCode.UNUSED_ASSIGNMENT, f"?{name.text} is never used by the template", name.span, hint)


def _template_variables(template: Template) -> dict[Variable, None]:
    return {slot.name: None for slot in leaves(template) if isinstance(slot, Var)}


def _attributes_read(program: ProgramDraft) -> dict[Label, frozenset[Variable]]:
    """For each event, its attributes that some rule reads."""
    read_by_event: dict[Label, set[Variable]] = {}
    for rule in program.rules:
        events = {role.label.text: role for role in rule.roles if role.origin is RoleOrigin.EVENT}
        for reference in rule.references:
            if reference.label in events and reference.variable is not None:
                read_by_event.setdefault(events[reference.label].source_label.text, set()).add(reference.variable)
        for role, clause in zip(rule.roles, (None, *rule.syntax.clauses), strict=True):
            if role.origin is RoleOrigin.EVENT:
                names = read_by_event.setdefault(role.source_label.text, set())
                names.update(name for condition in role.filters for name in free_variables(condition))
                if isinstance(clause, AggregateSyntax) and clause.argument is not None:
                    names.add(clause.argument[1].text)
    return {label: frozenset(names) for label, names in read_by_event.items()}
