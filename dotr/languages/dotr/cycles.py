"""Pass 11: rules over rules. An event may need another at the same instant only without a cycle; itself only strictly in the past.

A clause reaches the anchor's own instant if the lower bounds of the windows that tie it to the anchor sum to zero; `between` is strict.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from dotr.diagnostics import Diagnostic
from dotr.languages.dotr.codes import Code
from dotr.languages.dotr.program import Origin, Program, RoleDraft, RuleDraft
from dotr.languages.dotr.syntax import BetweenSyntax, WindowSyntax
from dotr.model.terms import Label
from dotr.model.time import Micros


@dataclass(frozen=True, slots=True)
class Need:
    """A rule's event needs another event; `same_instant` if it may need one of its own instant."""

    event: Label
    needs: Label
    same_instant: bool
    rule: RuleDraft
    role: RoleDraft


def check_cycles(program: Program) -> Program:
    return program.reporting(_cycles([need for need in needs(program) if need.same_instant]))


def needs(program: Program) -> Iterator[Need]:
    for rule in program.rules:
        for role, nearest in zip(rule.roles, _nearest(rule), strict=True):
            if role.origin is Origin.EVENT:
                yield Need(rule.syntax.event.text, role.read.text, nearest == 0, rule, role)


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


def _cycles(edges: list[Need]) -> Iterator[Diagnostic]:
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
            yield Diagnostic(Code.SAME_INSTANT_RECURSION, message, need.role.read.span, hint)
        else:
            path = " needs ".join(_path(need, [e for e in edges if of[e.event] == of[e.needs] == component]))
            hint = "Let one of them look strictly into the past: within (0, …] from its anchor."
            yield Diagnostic(Code.SAME_INSTANT_CYCLE, f"a cycle at one instant: {path}", need.role.read.span, hint)


def _path(first: Need, edges: list[Need]) -> list[Label]:
    """The shortest way round: the events from `first.event` back to it, through `first`."""
    ways: dict[Label, list[Label]] = {first.needs: [first.event, first.needs]}
    waiting = [first.needs]
    for label in waiting:
        for edge in edges:
            if edge.event == label and edge.needs not in ways:
                ways[edge.needs] = [*ways[label], edge.needs]
                waiting.append(edge.needs)
    return ways[first.event]


def components(edges: Iterable[tuple[Label, Label]]) -> Mapping[Label, int]:
    """Each label's strongly connected component, as a number (Tarjan 1972, without recursion).

    >>> of = components([("A", "B"), ("B", "A"), ("B", "C")])
    >>> of["A"] == of["B"], of["B"] == of["C"]
    (True, False)
    """
    following: dict[Label, list[Label]] = {}
    for start, end in edges:
        following.setdefault(start, []).append(end)
        following.setdefault(end, [])
    index: dict[Label, int] = {}
    low: dict[Label, int] = {}
    component: dict[Label, int] = {}
    open_: list[Label] = []
    for root in following:
        if root in index:
            continue
        index[root] = low[root] = len(index)
        open_.append(root)
        path = [(root, iter(following[root]))]
        while path:
            label, rest = path[-1]
            if (after := next(rest, None)) is not None:
                if after not in index:
                    index[after] = low[after] = len(index)
                    open_.append(after)
                    path.append((after, iter(following[after])))
                elif after not in component:
                    low[label] = min(low[label], index[after])
                continue
            path.pop()
            if path:
                low[path[-1][0]] = min(low[path[-1][0]], low[label])
            if low[label] == index[label]:
                number = index[label]
                while label not in component:
                    component[open_.pop()] = number
    return component
