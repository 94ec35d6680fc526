"""Queries that begin with the same joins, evaluated together: what they have in common is joined once.

Idea: a query's delta is a list of steps, in the order in which it joins them. Deltas that begin with the same step, up to the names of
variables, become one function in which every further common step stands once and what differs stands in branches below it (a trie).
Where an instant is small, and brings nothing of what the background has, a step reads the background alone: most instants only bring
what the background has not.
Invariant: each query has the rows that its deltas have one by one. Cost: what the steps of the trie cost; compiled when first needed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from math import prod
from typing import Final, TypeAlias

from dotr.codegen import WorkCount
from dotr.codegen.tree import Assign, IfElse, Return
from dotr.joins.bounds import FanoutBounds
from dotr.joins.branch_loops import AnswerRow, BranchFunction, early_filters, join_items, compile_branch, write_later_steps
from dotr.joins.branches import UNBOUND, Branch, rename_variables
from dotr.joins.compile import JoinWriter
from dotr.joins.deltas import DeltaQuery
from dotr.joins.limits import Limits
from dotr.joins.order import JoinStep as JoinStep
from dotr.joins.order import Side, ordered
from dotr.joins.scope import mentioned_in
from dotr.model.algebra import Const
from dotr.model.terms import Term, Variable
from dotr.model.traverse import free_variables
from dotr.queries.plan import QueryPlan
from dotr.store.triples import TripleIndex

RowsByKey: TypeAlias = dict[int, list[AnswerRow]]
"""The rows of those plans that have any, by the key of the plan."""

GroupFunction: TypeAlias = Callable[[TripleIndex, TripleIndex, RowsByKey], None]
"""Adds to what is found so far the rows of background and new triples."""

MAX_MEMBERS: Final = 32
"""Not more deltas than this become one function."""


@dataclass(frozen=True, slots=True)
class GroupMember:
    """A delta of a plan, whose rows go under a key; `shares`: other deltas' rows may be there already."""

    key: int
    is_key_shared: bool
    delta_query: DeltaQuery


class JoinGroup:
    """Deltas that are evaluated in one call. `plans` numbers the plan of each member; `trigger` is the predicate of which a new triple is
    needed (None: of any). `answers` keeps to the limits; `few` gives the same and counts nothing, for so few new triples that no limit can
    be met (`safe`). Either adds to the rows all or, where it fails, nothing."""

    __slots__ = ("evaluate", "evaluate_uncounted", "plans", "safe_size", "trigger")
    evaluate: GroupFunction
    evaluate_uncounted: GroupFunction

    def __init__(
        self,
        trigger: Term | None,
        plans: Sequence[int],
        members: Sequence[GroupMember],
        background: TripleIndex,
        limits: Limits | None,
        reaches: FanoutBounds,
    ) -> None:
        self.trigger = trigger
        self.plans = tuple(plans)
        self.safe_size = -1  # not known before it is first asked

        def bounded(old: TripleIndex, new: TripleIndex, found: RowsByKey) -> None:
            self.evaluate = compile_counted(members, background, limits) if len(members) > 1 else _single(members[0], members[0].delta_query.join)
            self.evaluate(old, new, found)

        def few(old: TripleIndex, new: TripleIndex, found: RowsByKey) -> None:
            if members[0].delta_query.branch.is_monotone:
                self.evaluate_uncounted = compile_uncounted(members, background)
            else:
                (member,) = members
                delta = member.delta_query
                self.evaluate_uncounted = _single(member, compile_branch(delta.branch, delta.sides, delta.projection, background, None))
            self.evaluate_uncounted(old, new, found)

        def first(old: TripleIndex, new: TripleIndex, found: RowsByKey) -> None:
            if limits is not None:
                self.safe_size = min([_safe_size(each.delta_query, background, limits.uncounted_work // len(members), reaches) for each in members])
            self.evaluate = bounded
            (few if len(new.triples) <= self.safe_size else bounded)(old, new, found)

        self.evaluate, self.evaluate_uncounted = first, few


def _single(member: GroupMember, join: BranchFunction) -> GroupFunction:
    def answers(old: TripleIndex, new: TripleIndex, found: RowsByKey) -> None:
        rows = join(old, new)
        if rows:
            found[member.key] = found[member.key] + rows if member.key in found else rows

    return answers


def _safe_size(delta: DeltaQuery, background: TripleIndex, most: int, reaches: FanoutBounds) -> int:
    """Up to how many new triples a delta does no more work than that."""
    branch = delta.branch
    if not branch.is_monotone:
        return 0
    steps = ordered(join_items(branch, early_filters(branch)), (), delta.sides, background)
    return reaches.safe_size(steps, prod(len(table.rows) for table in branch.tables), most)


def join_groups(
    plans: Sequence[QueryPlan], background: TripleIndex, limits: Limits | None = None, keys: Sequence[int] | None = None
) -> list[JoinGroup]:
    """The deltas of all plans that have any, those together that begin alike. The rows of a plan are found under its key, by default its
    number."""
    reaches = FanoutBounds(background)
    groups: dict[tuple[Term | None, object], list[list[tuple[int, GroupMember]]]] = {}
    for number, each in enumerate(plans):
        shares = len(each.delta_queries or ()) > 1
        for place, delta in enumerate(each.delta_queries or ()):
            steps = _steps(_canonical(delta, background), delta, background) if delta.branch.is_monotone else []
            begin: object = steps[0] if steps else (number, place)
            parts = groups.setdefault((delta.trigger, begin), [[]])
            if len(parts[-1]) == MAX_MEMBERS:
                parts.append([])
            parts[-1].append((number, GroupMember(number if keys is None else keys[number], shares, delta)))
    return [
        JoinGroup(trigger, [number for number, _ in part], [member for _, member in part], background, limits, reaches)
        for (trigger, _), parts in groups.items()
        for part in parts
    ]


@dataclass(frozen=True, slots=True)
class _Canonical:
    """A delta's branch and what is wanted of it, with variables numbered in the order in which its joins meet them."""

    branch: Branch
    wanted: tuple[Variable, ...]


@dataclass(slots=True)
class _TrieNode:
    """A place in the trie: what goes on from there, and the members that end there."""

    children: dict[JoinStep, _TrieNode] = field(default_factory=dict)
    ends: list[int] = field(default_factory=list)


def _canonical(delta: DeltaQuery, background: TripleIndex) -> _Canonical:
    branch = delta.branch
    met: dict[Variable, None] = {}
    for step in ordered(join_items(branch, early_filters(branch)), (), delta.sides, background):
        met.update(dict.fromkeys(free_variables(step[0] if isinstance(step, tuple) else step)))
    met.update(dict.fromkeys(sorted(branch.matched | branch.computed)))
    for other in branch.steps:
        assert not hasattr(other, "parts"), "a look-up"
        met.update(dict.fromkeys(sorted(mentioned_in(other.expression))))
    met.update(dict.fromkeys(delta.projection))
    met.pop(UNBOUND, None)
    names = {name: f"s{number}" for number, name in enumerate(met)}
    return _Canonical(rename_variables(branch, names), tuple([names[name] for name in delta.projection]))


def _steps(canonical: _Canonical, delta: DeltaQuery, background: TripleIndex) -> list[JoinStep]:
    branch = canonical.branch
    return ordered(join_items(branch, early_filters(branch)), (), delta.sides, background)


def compile_counted(members: Sequence[GroupMember], background: TripleIndex, limits: Limits | None) -> GroupFunction:
    """One function for several deltas, which begin with the same step. It counts what they cost together: it may go over a limit that each
    of them keeps to."""
    trie = _Trie(members, background)
    count = None if limits is None else WorkCount(limits.uncounted_work, limits.next_check_of_several)
    return trie.function(count)


def compile_uncounted(members: Sequence[GroupMember], background: TripleIndex) -> GroupFunction:
    """One function for several deltas, which counts nothing, and reads the background alone where the instant brings nothing else."""
    trie = _Trie(members, background)
    if not trie.watched:
        return trie.function(None)

    @cache
    def both() -> GroupFunction:
        return trie.function(None)

    return trie.function(None, lambda old, new, found: both()(old, new, found))


class _Trie:
    """The steps of several deltas. `watched` are the predicates of which they read background and new triples both."""

    def __init__(self, members: Sequence[GroupMember], background: TripleIndex) -> None:
        self._members = members
        self._background = background
        self._canonical = [_canonical(member.delta_query, background) for member in members]
        self._steps = [_steps(each, member.delta_query, background) for each, member in zip(self._canonical, members, strict=True)]
        watched: set[Term] = set()
        for steps in self._steps:
            for step in steps:
                if isinstance(step, tuple) and step[1] is Side.BOTH and isinstance(step[0].predicate, Const):
                    watched.add(step[0].predicate.term)
        self.watched: frozenset[Term] = frozenset(watched)

    def function(self, count: WorkCount | None, otherwise: GroupFunction | None = None) -> GroupFunction:
        """The function. With `otherwise`, which gives the same, it calls that where the instant brings what is watched."""
        root = _TrieNode()
        for number, steps in enumerate(self._steps):
            node = root
            for step in steps:
                node = node.children.setdefault(_over_background(step) if otherwise is not None else step, _TrieNode())
            node.ends.append(number)
        writer = JoinWriter("join", leave="return", index=self._background, count=count)
        writer.begin(["background", "new", "found"])
        if otherwise is not None:
            watched = writer.parameter("u", self.watched)
            other = Return(f"{writer.parameter('o', otherwise)}(background, new, found)")
            writer.add(IfElse([(f"not {watched}.isdisjoint(new.by_subject)", [other])]))
        for number in range(len(self._members)):
            writer.assign(f"rows{number}", "[]")
        if count is not None:
            writer.assign("rows", f"({''.join(f'rows{number}, ' for number in range(len(self._members)))})")
        _write(writer, root, self._canonical, self._background)
        writer.end([_store_rows(number, member) for number, member in enumerate(self._members)])
        function: GroupFunction = writer.function()
        return function


def _over_background(step: JoinStep) -> JoinStep:
    if isinstance(step, tuple) and step[1] is Side.BOTH and isinstance(step[0].predicate, Const):
        return step[0], Side.BACKGROUND
    return step


def _store_rows(number: int, member: GroupMember) -> IfElse:
    """Puts a member's rows where they are wanted."""
    place = f"found[{member.key}]"
    rows = f"{place} + rows{number} if {member.key} in found else rows{number}" if member.is_key_shared else f"rows{number}"
    return IfElse([(f"rows{number}", [Assign(place, rows)])])


def _write(writer: JoinWriter, node: _TrieNode, members: Sequence[_Canonical], background: TripleIndex) -> None:
    """The loops of a node's steps, and a branch for each way on. `?x :at ?c . ?c :in ?b` alone, and with `?b :of ?o`:

    for v_s0, w0 in n0.items():
        for v_s1 in w0:
            for v_s2 in b1.get(v_s1, NO_TERMS):
                rows0.append((v_s0, v_s1, v_s2))
                for v_s3 in b2.get(v_s2, NO_TERMS):
                    rows1.append((v_s0, v_s1, v_s2, v_s3))
    """
    while len(node.children) == 1 and not node.ends:  # a chain may be longer than Python's stack
        ((step, node),) = node.children.items()
        writer.write_steps([step])
    if len(node.children) + len(node.ends) == 1:
        for number in node.ends:
            _write_end(writer, number, members[number], background)
        return
    with writer.forked() as fork:
        for number in node.ends:
            with writer.branch(fork):
                _write_end(writer, number, members[number], background)
        for step, child in node.children.items():
            with writer.branch(fork):
                writer.write_steps([step])
                _write(writer, child, members, background)


def _write_end(writer: JoinWriter, number: int, member: _Canonical, background: TripleIndex) -> None:
    write_later_steps(writer, member.branch, early_filters(member.branch), background, None)
    writer.emit(f"rows{number}.append", writer.row(member.wanted))
