"""Queries that begin with the same joins, evaluated together: what they have in common is joined once.

Idea: a query's delta is a list of steps, in the order in which it joins them. Deltas that begin with the same step, up to the names of
variables, become one function in which every further common step stands once and what differs stands in branches below it (a trie).
Invariant: each query has the rows that its deltas have one by one. Cost: what the steps of the trie cost; compiled when first needed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Final, TypeAlias

from dotr.knowledge.joins import JoinWriter
from dotr.knowledge.limits import Limits
from dotr.knowledge.loops import Count
from dotr.knowledge.ordering import Step as JoinStep
from dotr.knowledge.ordering import ordered, variables
from dotr.knowledge.triples import TripleIndex
from dotr.model.datalog import Test
from dotr.model.terms import Term, Variable
from dotr.queries.branches import UNBOUND, Branch, renamed
from dotr.queries.conjunction import Delta
from dotr.queries.costs import Reaches
from dotr.queries.loops import Loops, Row, early_steps, loops, write_rest
from dotr.queries.plan import Plan
from dotr.queries.scope import mentioned_in

Answers: TypeAlias = Callable[[TripleIndex, TripleIndex], Sequence[list[Row]]]
"""Background and new triples to the rows of each member."""

MOST: Final = 32
"""Not more deltas than this become one function."""


class Unit:
    """Deltas that are evaluated in one call. `plans` numbers the plan of each member; `trigger` is the predicate of which a new triple is
    needed (None: of any). `answers` keeps to the limits; `few` gives the same and counts nothing, for so few new triples that no limit can
    be met (`safe`)."""

    __slots__ = ("answers", "few", "plans", "safe", "trigger")
    answers: Answers
    few: Answers

    def __init__(
        self, trigger: Term | None, members: Sequence[tuple[int, Delta]], background: TripleIndex, limits: Limits | None, reaches: Reaches
    ) -> None:
        self.trigger = trigger
        self.plans = tuple(number for number, _ in members)
        deltas = [delta for _, delta in members]
        self.safe = -1  # not known before it is first asked

        def bounded(old: TripleIndex, new: TripleIndex) -> Sequence[list[Row]]:
            self.answers = compiled(deltas, background, limits) if len(deltas) > 1 else _alone(deltas[0].join)
            return self.answers(old, new)

        def few(old: TripleIndex, new: TripleIndex) -> Sequence[list[Row]]:
            if len(deltas) > 1:
                self.few = compiled(deltas, background, None)
            else:
                (delta,) = deltas
                self.few = _alone(loops(delta.branch, delta.sides, delta.wanted, background, None))
            return self.few(old, new)

        def first(old: TripleIndex, new: TripleIndex) -> Sequence[list[Row]]:
            if limits is not None:
                self.safe = min([_safe_size(delta, background, limits.least // len(deltas), reaches) for delta in deltas])
            self.answers = bounded
            return few(old, new) if len(new.triples) <= self.safe else bounded(old, new)

        self.answers, self.few = first, few


def _alone(join: Loops) -> Answers:
    return lambda old, new: (join(old, new),)


def _safe_size(delta: Delta, background: TripleIndex, most: int, reaches: Reaches) -> int:
    """Up to how many new triples a delta does no more work than that."""
    branch = delta.branch
    if not branch.monotone:
        return 0
    early = [Test(each.expression) for each in early_steps(branch)]
    steps = ordered([*branch.patterns, *early], (), delta.sides, background)
    return reaches.safe_size(steps, prod(len(table.rows) for table in branch.tables), most)


def units(plans: Sequence[Plan], background: TripleIndex, limits: Limits | None = None) -> list[Unit]:
    """The deltas of all plans that have any, those together that begin alike."""
    reaches = Reaches(background)
    groups: dict[tuple[Term | None, object], list[list[tuple[int, Delta]]]] = {}
    for number, each in enumerate(plans):
        for place, delta in enumerate(each.deltas or ()):
            steps = _steps(_canonical(delta, background), delta, background) if delta.branch.monotone else []
            begin: object = steps[0] if steps else (number, place)
            parts = groups.setdefault((delta.trigger, begin), [[]])
            if len(parts[-1]) == MOST:
                parts.append([])
            parts[-1].append((number, delta))
    return [Unit(trigger, part, background, limits, reaches) for (trigger, _), parts in groups.items() for part in parts]


@dataclass(frozen=True, slots=True)
class _Canonical:
    """A delta's branch and what is wanted of it, with variables numbered in the order in which its joins meet them."""

    branch: Branch
    wanted: tuple[Variable, ...]


@dataclass(slots=True)
class _Node:
    """A place in the trie: what goes on from there, and the members that end there."""

    children: dict[JoinStep, _Node] = field(default_factory=dict)
    ends: list[int] = field(default_factory=list)


def _canonical(delta: Delta, background: TripleIndex) -> _Canonical:
    branch = delta.branch
    met: dict[Variable, None] = {}
    for step in ordered([*branch.patterns, *(Test(each.expression) for each in early_steps(branch))], (), delta.sides, background):
        met.update(dict.fromkeys(variables(step[0] if isinstance(step, tuple) else step)))
    met.update(dict.fromkeys(sorted(branch.matched | branch.computed)))
    for other in branch.steps:
        assert not hasattr(other, "parts"), "a look-up"
        met.update(dict.fromkeys(sorted(mentioned_in(other.expression))))
    met.update(dict.fromkeys(delta.wanted))
    met.pop(UNBOUND, None)
    names = {name: f"s{number}" for number, name in enumerate(met)}
    return _Canonical(renamed(branch, names), tuple([names[name] for name in delta.wanted]))


def _steps(canonical: _Canonical, delta: Delta, background: TripleIndex) -> list[JoinStep]:
    branch = canonical.branch
    return ordered([*branch.patterns, *(Test(each.expression) for each in early_steps(branch))], (), delta.sides, background)


def compiled(deltas: Sequence[Delta], background: TripleIndex, limits: Limits | None) -> Answers:
    """One function for several deltas, which begin with the same step. It counts what they cost together: it may go over a limit that each
    of them keeps to."""
    members = [_canonical(delta, background) for delta in deltas]
    root = _Node()
    for number, (member, delta) in enumerate(zip(members, deltas, strict=True)):
        node = root
        for step in _steps(member, delta, background):
            node = node.children.setdefault(step, _Node())
        node.ends.append(number)
    count = None if limits is None else Count(limits.least, limits.passed_by_some)
    writer = JoinWriter("join", leave="return rows", index=background, count=count)
    writer.begin(["background", "new"])
    writer.line(f"rows = ({', '.join('[]' for _ in members)})")
    writer.line(f"{', '.join(f'rows{number}' for number in range(len(members)))} = rows")
    _write(writer, root, members, background)
    writer.end()
    function: Answers = writer.function()
    return function


def _write(writer: JoinWriter, node: _Node, members: Sequence[_Canonical], background: TripleIndex) -> None:
    if len(node.children) + len(node.ends) == 1:
        for step, child in node.children.items():
            writer.steps([step])
            _write(writer, child, members, background)
        for number in node.ends:
            _write_end(writer, number, members[number], background)
        return
    for number in node.ends:
        with writer.branch():
            _write_end(writer, number, members[number], background)
    for step, child in node.children.items():
        with writer.branch():
            writer.steps([step])
            _write(writer, child, members, background)


def _write_end(writer: JoinWriter, number: int, member: _Canonical, background: TripleIndex) -> None:
    write_rest(writer, member.branch, early_steps(member.branch), background, None)
    writer.line(f"rows{number}.append(({''.join(f'{writer.read(variable)}, ' for variable in member.wanted)}))")
