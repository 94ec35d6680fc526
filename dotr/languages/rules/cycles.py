"""Pass 11: rules over rules. An event may need another at the same instant only without a cycle; itself only strictly in the past.

A clause reaches the anchor's own instant if the lower bounds of the windows that tie it to the anchor sum to zero; `between` is strict.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from dotr.errors.diagnostics import Diagnostic
from dotr.languages.rules.codes import RuleCode
from dotr.languages.rules.program import ProgramDraft, RoleDraft, RoleOrigin, RuleDraft
from dotr.languages.rules.syntax import BetweenSyntax, WindowSyntax
from dotr.model.graphs import components, shortest_path
from dotr.model.terms import Label
from dotr.model.time import Micros


@dataclass(frozen=True, slots=True)
class EventDependency:
    """A rule's event needs another event; `same_instant` if it may need one of its own instant."""

    event: Label
    needs: Label
    same_instant: bool
    rule: RuleDraft
    role: RoleDraft


def check_cycles(program: ProgramDraft) -> ProgramDraft:
    return program.reporting(_cycles([need for need in needs(program) if need.same_instant]))


def needs(program: ProgramDraft) -> Iterator[EventDependency]:
    for rule in program.rules:
        for role, nearest in zip(rule.roles, _nearest(rule), strict=True):
            if role.origin is RoleOrigin.EVENT:
                yield EventDependency(rule.syntax.event.text, role.read.text, nearest == 0, rule, role)


def _nearest(rule: RuleDraft) -> list[Micros]:
    """For each role, how near to the match's own time its events may be; what is not known counts as the past. A delayed anchor stands
    at that time, but its event lies before it."""
    found: dict[Label, Micros] = {}
    distances: list[Micros] = []
    for role in rule.roles:
        match role.scope:
            case None:
                distance = role.delay if role is rule.roles[0] else 1
            case WindowSyntax(_, reference):
                distance = found.get(reference.text, 0) + (role.interval.bounds[0] if role.interval else 1)
            case BetweenSyntax():
                distance = 1
        distances.append(distance)
        if role.part.bound:
            found.setdefault(role.label.text, 0 if role is rule.roles[0] else distance)
    return distances


def _cycles(edges: list[EventDependency]) -> Iterator[Diagnostic]:
    of = components((need.event, need.needs) for need in edges)
    reported: set[int] = set()
    for need in edges:
        component = of[need.event]
        if component != of[need.needs] or component in reported:
            continue
        reported.add(component)
        if need.event == need.needs:
            hint = "An event may depend on itself only in the past: choose it by a clause, within (0, …] from the anchor."
            message = f"{need.event} needs {need.event} of the same instant"
            yield Diagnostic(RuleCode.SAME_INSTANT_RECURSION, message, need.role.read.span, hint)
        else:
            way = _way(need.needs, need.event, [e for e in edges if of[e.event] == of[e.needs] == component])
            path = " needs ".join([need.event, *way])
            hint = "Let one of them look strictly into the past: within (0, …] from its anchor."
            yield Diagnostic(RuleCode.SAME_INSTANT_CYCLE, f"a cycle at one instant: {path}", need.role.read.span, hint)


def _way(start: Label, end: Label, edges: list[EventDependency]) -> list[Label]:
    """The shortest way from an event to another along what they need."""
    return shortest_path(start, end, lambda event: [edge.needs for edge in edges if edge.event == event])
