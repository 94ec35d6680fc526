"""Pass 11: rejects cycles of events that depend on each other within one instant.

Idea: a clause reaches the instant of the match if the lower bounds of the windows between it and
the anchor sum to zero; `between` is strict. A cycle in the graph of such dependencies is an error;
recursion in the past is allowed.
Cost: linear in the roles.
Source: Tarjan 1972 (strongly connected components).
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
    """Edge of the dependency graph: `event`, derived by `rule`, reads `needs` in `role`.

    `same_instant` is True if the two may be of one instant.
    """

    event: Label
    needs: Label
    same_instant: bool
    rule: RuleDraft
    role: RoleDraft


def check_cycles(program: ProgramDraft) -> ProgramDraft:
    """Report D401 and D402."""
    return program.reporting(_cycles([need for need in needs(program) if need.same_instant]))


def needs(program: ProgramDraft) -> Iterator[EventDependency]:
    """The dependencies of events on events, one for each role that reads one."""
    for rule in program.rules:
        for role, nearest in zip(rule.roles, _nearest(rule), strict=True):
            if role.origin is RoleOrigin.EVENT:
                yield EventDependency(rule.syntax.event.text, role.read.text, nearest == 0, rule, role)


def _nearest(rule: RuleDraft) -> list[Micros]:
    """For each role, the least distance in µs of its events to the time of the match.

    1 where the distance is unknown. The event of a delayed anchor lies before the time of the
    match, by the delay.
    """
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
    """The shortest path between two events along the dependencies."""
    return shortest_path(start, end, lambda event: [edge.needs for edge in edges if edge.event == event])
