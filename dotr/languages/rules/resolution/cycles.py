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
from dotr.languages.codes import RuleCode
from dotr.languages.rules.program import ProgramDraft, RoleDraft, RoleOrigin, RuleDraft
from dotr.languages.rules.syntax import BetweenSyntax, WindowSyntax
from dotr.model.graphs import components, shortest_path
from dotr.model.terms import Label
from dotr.model.time import Micros


@dataclass(frozen=True, slots=True)
class EventDependency:
    """Edge of the dependency graph: `event`, derived by `rule`, reads `source` in `role`.

    `same_instant`: the two events may have the same time.
    """

    event: Label
    source: Label
    same_instant: bool
    rule: RuleDraft
    role: RoleDraft


def check_cycles(program: ProgramDraft) -> ProgramDraft:
    """Report D401 and D402."""
    return program.with_problems(_cycle_problems([edge for edge in dependencies(program) if edge.same_instant]))


def dependencies(program: ProgramDraft) -> Iterator[EventDependency]:
    """The dependencies between events, one for each role that reads an event."""
    for rule in program.rules:
        for role, distance in zip(rule.roles, _least_distances(rule), strict=True):
            if role.origin is RoleOrigin.EVENT:
                yield EventDependency(rule.syntax.event.text, role.source_label.text, distance == 0, rule, role)


def _least_distances(rule: RuleDraft) -> list[Micros]:
    """For each role, the least distance in µs from its events to the time of the match.

    It is 1 for an unknown window, whose error is already reported, and the delay for the event of
    a delayed anchor.
    """
    by_label: dict[Label, Micros] = {}
    distances: list[Micros] = []
    for role in rule.roles:
        match role.scope:
            case None:
                distance = (role.delay if role.delayed_by is None else 0) if role is rule.roles[0] else 1
            case WindowSyntax(_, reference):
                distance = by_label.get(reference.text, 0) + (role.interval.bounds[0] if role.interval else 1)
            case BetweenSyntax():
                distance = 1
        distances.append(distance)
        if role.use.binds_label:
            by_label.setdefault(role.label.text, 0 if role is rule.roles[0] else distance)
    return distances


def _cycle_problems(edges: list[EventDependency]) -> Iterator[Diagnostic]:
    component_of = components((edge.event, edge.source) for edge in edges)
    reported: set[int] = set()
    for edge in edges:
        component = component_of[edge.event]
        if component != component_of[edge.source] or component in reported:
            continue
        reported.add(component)
        inner = [other for other in edges if component_of[other.event] == component_of[other.source] == component]
        is_delayed = any(other.role.delayed_by is not None for other in inner)
        delays = " A delay by value may be 0: one of constant length is in the past, too." if is_delayed else ""
        if edge.event == edge.source:
            hint = f"An event may depend on itself only in the past: choose it by a clause, within (0, …] from the anchor.{delays}"
            message = f"{edge.event} needs {edge.event} of the same instant"
            yield Diagnostic(RuleCode.SAME_INSTANT_RECURSION, message, edge.role.source_label.span, hint)
        else:
            path = " needs ".join([edge.event, *_shortest_path(edge.source, edge.event, inner)])
            hint = f"Let one of them look strictly into the past: within (0, …] from its anchor.{delays}"
            yield Diagnostic(RuleCode.SAME_INSTANT_CYCLE, f"a cycle at one instant: {path}", edge.role.source_label.span, hint)


def _shortest_path(start: Label, end: Label, edges: list[EventDependency]) -> list[Label]:
    """The shortest path between two events along the dependencies."""
    sources: dict[Label, list[Label]] = {}
    for edge in edges:
        sources.setdefault(edge.event, []).append(edge.source)
    return shortest_path(start, end, lambda event: sources.get(event, []))
