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
    """Edge of the dependency graph: `event`, derived by `rule`, reads `source` in `role`.

    `same_instant` is True if the two may be of one instant.
    """

    event: Label
    source: Label
    same_instant: bool
    rule: RuleDraft
    role: RoleDraft


def check_cycles(program: ProgramDraft) -> ProgramDraft:
    """Report D401 and D402."""
    return program.with_problems(_cycle_problems([need for need in dependencies(program) if need.same_instant]))


def dependencies(program: ProgramDraft) -> Iterator[EventDependency]:
    """The dependencies of events on events, one for each role that reads one."""
    for rule in program.rules:
        for role, nearest in zip(rule.roles, _least_distances(rule), strict=True):
            if role.origin is RoleOrigin.EVENT:
                yield EventDependency(rule.syntax.event.text, role.source_label.text, nearest == 0, rule, role)


def _least_distances(rule: RuleDraft) -> list[Micros]:
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
        if role.use.binds_label:
            found.setdefault(role.label.text, 0 if role is rule.roles[0] else distance)
    return distances


def _cycle_problems(edges: list[EventDependency]) -> Iterator[Diagnostic]:
    of = components((need.event, need.source) for need in edges)
    reported: set[int] = set()
    for need in edges:
        component = of[need.event]
        if component != of[need.source] or component in reported:
            continue
        reported.add(component)
        if need.event == need.source:
            hint = "An event may depend on itself only in the past: choose it by a clause, within (0, …] from the anchor."
            message = f"{need.event} needs {need.event} of the same instant"
            yield Diagnostic(RuleCode.SAME_INSTANT_RECURSION, message, need.role.source_label.span, hint)
        else:
            way = _shortest_path(need.source, need.event, [e for e in edges if of[e.event] == of[e.source] == component])
            path = " needs ".join([need.event, *way])
            hint = "Let one of them look strictly into the past: within (0, …] from its anchor."
            yield Diagnostic(RuleCode.SAME_INSTANT_CYCLE, f"a cycle at one instant: {path}", need.role.source_label.span, hint)


def _shortest_path(start: Label, end: Label, edges: list[EventDependency]) -> list[Label]:
    """The shortest path between two events along the dependencies."""
    return shortest_path(start, end, lambda event: [edge.source for edge in edges if edge.event == event])
