"""Shared evaluation of delta queries with common join prefixes.

Idea: a delta query is a list of join steps. Queries with the same first step, up to variable names,
become one function: a trie of steps, in which common steps occur once and the rest are branches.
For a delta without triples of the background's predicates, a second version reads the background
alone where the first reads both sides.
Invariant: each query has exactly the rows of its delta queries evaluated one by one.
Cost: that of the steps of the trie; compiled on first use.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import field
from functools import cache
from math import prod
from typing import Final, TypeAlias

from dotr.evaluation.codegen import WorkCount
from dotr.evaluation.codegen.tree import Assign, IfElse, Return
from dotr.evaluation.joins.bounds import FanoutBounds
from dotr.evaluation.joins.branch_loops import AnswerRow, BranchFunction, compile_branch, early_filters, join_items, write_later_steps
from dotr.evaluation.joins.branches import UNBOUND, Branch, rename_variables
from dotr.evaluation.joins.compile import JoinWriter
from dotr.evaluation.joins.deltas import DeltaQuery
from dotr.evaluation.joins.order import JoinStep as JoinStep
from dotr.evaluation.joins.order import Side, ordered
from dotr.evaluation.joins.scope import mentioned_in
from dotr.evaluation.limits import Limits
from dotr.evaluation.triples.index import TripleIndex
from dotr.instant.queries.plan import QueryPlan
from dotr.model import dataclass
from dotr.model.algebra import Const, PathPattern, TriplePattern
from dotr.model.terms import Term, Variable
from dotr.model.traverse import free_variables

RowsByKey: TypeAlias = dict[int, list[AnswerRow]]
"""The rows of plans that have any, by the key of the plan."""

GroupFunction: TypeAlias = Callable[[TripleIndex, TripleIndex, RowsByKey], None]
"""A function of background, delta and the rows so far, which adds the rows of its group."""

MAX_MEMBERS: Final = 32
"""The largest number of delta queries in one function."""


@dataclass(frozen=True, slots=True)
class GroupMember:
    """A delta query of a plan. `key`: the key of its rows. `is_key_shared`: other members add rows
    to the key.
    """

    key: int
    is_key_shared: bool
    delta_query: DeltaQuery


class JoinGroup:
    """Delta queries that are evaluated in one call.

    `plans`: the number of each member's plan. `trigger`: the predicate of which the delta needs a
    triple (None: of any). `evaluate`: adds the members' rows, within the limits.
    `evaluate_uncounted`: the same without counting, for at most `safe_size` delta triples. Both add
    all rows or, on an error, none.
    """

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
        fanouts: FanoutBounds,
    ) -> None:
        self.trigger = trigger
        self.plans = tuple(plans)
        self.safe_size = -1  # computed by the first call

        def counted(base: TripleIndex, delta: TripleIndex, rows: RowsByKey) -> None:
            self.evaluate = (
                compile_counted(members, background, limits) if len(members) > 1 else _single(members[0], members[0].delta_query.join)
            )
            self.evaluate(base, delta, rows)

        def uncounted(base: TripleIndex, delta: TripleIndex, rows: RowsByKey) -> None:
            if members[0].delta_query.branch.is_monotone:
                self.evaluate_uncounted = compile_uncounted(members, background)
            else:
                (member,) = members
                query = member.delta_query
                self.evaluate_uncounted = _single(member, compile_branch(query.branch, query.sides, query.projection, background, None))
            self.evaluate_uncounted(base, delta, rows)

        def on_first_call(base: TripleIndex, delta: TripleIndex, rows: RowsByKey) -> None:
            if limits is not None:
                self.safe_size = min(
                    [_safe_size(each.delta_query, background, limits.uncounted_work // len(members), fanouts) for each in members]
                )
            self.evaluate = counted
            (uncounted if len(delta.triples) <= self.safe_size else counted)(base, delta, rows)

        self.evaluate, self.evaluate_uncounted = on_first_call, uncounted


def _single(member: GroupMember, join: BranchFunction) -> GroupFunction:
    def evaluate(background: TripleIndex, delta: TripleIndex, rows_by_key: RowsByKey) -> None:
        rows = join(background, delta)
        if rows:
            rows_by_key[member.key] = rows_by_key[member.key] + rows if member.key in rows_by_key else rows

    return evaluate


def _safe_size(query: DeltaQuery, background: TripleIndex, max_work: int, fanouts: FanoutBounds) -> int:
    """The largest delta size for which a delta query does at most this work."""
    branch = query.branch
    if not branch.is_monotone or any(isinstance(each, PathPattern) for each in branch.patterns):
        return 0
    steps = ordered(join_items(branch, early_filters(branch)), (), query.sides, background)
    return fanouts.safe_size(steps, prod(len(table.rows) for table in branch.tables), max_work)


def join_groups(
    plans: Sequence[QueryPlan], background: TripleIndex, limits: Limits | None = None, keys: Sequence[int] | None = None
) -> list[JoinGroup]:
    """Groups the delta queries of plans by their first step.

    `keys`: the key of each plan's rows, by default its number. Plans without delta queries are
    omitted.
    """
    fanouts = FanoutBounds(background)
    groups: dict[tuple[Term | None, object], list[list[tuple[int, GroupMember]]]] = {}
    for number, each in enumerate(plans):
        shares = len(each.delta_queries or ()) > 1
        for index, query in enumerate(each.delta_queries or ()):
            steps = _steps(_canonical(query, background), query, background) if query.branch.is_monotone else []
            first_step: object = steps[0] if steps else (number, index)
            parts = groups.setdefault((query.trigger, first_step), [[]])
            if len(parts[-1]) == MAX_MEMBERS:
                parts.append([])
            parts[-1].append((number, GroupMember(number if keys is None else keys[number], shares, query)))
    return [
        JoinGroup(trigger, [number for number, _ in part], [member for _, member in part], background, limits, fanouts)
        for (trigger, _), parts in groups.items()
        for part in parts
    ]


@dataclass(frozen=True, slots=True)
class _Canonical:
    """A delta query's branch and projection, with variables numbered in join order."""

    branch: Branch
    projection: tuple[Variable, ...]


@dataclass(slots=True)
class TrieNode:
    """A node of a trie of join steps: the next steps, and the numbers of the members that end
    here."""

    children: dict[JoinStep, TrieNode] = field(default_factory=dict)
    ends: list[int] = field(default_factory=list)


def _canonical(query: DeltaQuery, background: TripleIndex) -> _Canonical:
    branch = query.branch
    appearance: dict[Variable, None] = {}
    for step in ordered(join_items(branch, early_filters(branch)), (), query.sides, background):
        appearance.update(dict.fromkeys(free_variables(step[0] if isinstance(step, tuple) else step)))
    appearance.update(dict.fromkeys(sorted(branch.matched | branch.computed)))
    for other in branch.steps:
        assert not hasattr(other, "parts"), "a look-up"
        appearance.update(dict.fromkeys(sorted(mentioned_in(other.expression))))
    appearance.update(dict.fromkeys(query.projection))
    appearance.pop(UNBOUND, None)
    names = {name: f"s{number}" for number, name in enumerate(appearance)}
    return _Canonical(rename_variables(branch, names), tuple([names[name] for name in query.projection]))


def _steps(canonical: _Canonical, query: DeltaQuery, background: TripleIndex) -> list[JoinStep]:
    branch = canonical.branch
    return ordered(join_items(branch, early_filters(branch)), (), query.sides, background)


def compile_counted(members: Sequence[GroupMember], background: TripleIndex, limits: Limits | None) -> GroupFunction:
    """Compiles delta queries with the same first step to one function that counts their total work.

    The total may exceed a limit that no single member exceeds.
    """
    trie = _Trie(members, background)
    count = None if limits is None else WorkCount(limits.uncounted_work, limits.next_check_of_several)
    return trie.function(count)


def compile_uncounted(members: Sequence[GroupMember], background: TripleIndex) -> GroupFunction:
    """Compiles delta queries to one function that counts no work and skips delta look-ups that
    cannot match.

    `?x <at> ?c` and `?x <at> ?c . ?c <in> ?b` over a delta without a triple of `<in>`:

    >>> from inspect import getsource
    >>> from dotr.instant.queries.plan import plan
    >>> from dotr.model.algebra import Bgp, Select, Var
    >>> at, inside = TriplePattern(Var("x"), Const("<at>"), Var("c")), TriplePattern(Var("c"), Const("<in>"), Var("b"))
    >>> background = TripleIndex([("<hall>", "<in>", "<house>")])
    >>> plans = [plan(Select(("x",), Bgp((at,))), background), plan(Select(("x", "b"), Bgp((at, inside))), background)]
    >>> members = [GroupMember(number, False, each.delta_queries[0]) for number, each in enumerate(plans)]
    >>> print(getsource(compile_uncounted(members, background)))
        def join(background, delta, rows_by_key):
            if not u0.isdisjoint(delta.by_subject):
                return o1(background, delta, rows_by_key)
            rows0 = []
            rows1 = []
            d0 = delta.by_subject.get(k2)
            if d0 is None: return
            for v_s0, w0 in d0.items():
                for v_s1 in w0:
                    early0 = b4.get(v_s1, NO_TERMS)
                    rows0.append((v_s0,))
                    for v_s2 in early0:
                        rows1.append((v_s0, v_s2))
            if rows0:
                rows_by_key[0] = rows0
            if rows1:
                rows_by_key[1] = rows1
    <BLANKLINE>
    """
    trie = _Trie(members, background)
    if not trie.watched:
        return trie.function(None)

    @cache
    def both_sides() -> GroupFunction:
        return trie.function(None)

    return trie.function(None, lambda base, delta, rows: both_sides()(base, delta, rows))


class _Trie:
    """The steps of several delta queries. `watched`: the constant predicates that the steps read in
    both background and delta.
    """

    def __init__(self, members: Sequence[GroupMember], background: TripleIndex) -> None:
        self._members = members
        self._background = background
        self._canonical = [_canonical(member.delta_query, background) for member in members]
        self._steps = [_steps(each, member.delta_query, background) for each, member in zip(self._canonical, members, strict=True)]
        watched: set[Term] = set()
        for steps in self._steps:
            for step in steps:
                if (predicate := _predicate_on_both_sides(step)) is not None:
                    watched.add(predicate.term)
        self.watched: frozenset[Term] = frozenset(watched)

    def function(self, count: WorkCount | None, otherwise: GroupFunction | None = None) -> GroupFunction:
        """Compiles the trie.

        With `otherwise`, a function of the same rows, the compiled function reads the background
        alone and calls `otherwise` for a delta with a watched predicate.
        """
        root = TrieNode()
        for number, steps in enumerate(self._steps):
            node = root
            for step in steps:
                node = node.children.setdefault(_over_background(step) if otherwise is not None else step, TrieNode())
            node.ends.append(number)
        writer = JoinWriter("join", leave="return", index=self._background, count=count)
        writer.begin(["background", "delta", "rows_by_key"])
        if otherwise is not None:
            watched = writer.parameter("u", self.watched)
            other = Return(f"{writer.parameter('o', otherwise)}(background, delta, rows_by_key)")
            writer.add(IfElse([(f"not {watched}.isdisjoint(delta.by_subject)", [other])]))
        for number in range(len(self._members)):
            writer.assign(f"rows{number}", "[]")
        if count is not None:
            writer.assign("rows", f"({''.join(f'rows{number}, ' for number in range(len(self._members)))})")
        write_trie(writer, root, lambda number: _write_end(writer, number, self._canonical[number], self._background))
        writer.end([_store_rows(number, member) for number, member in enumerate(self._members)])
        function: GroupFunction = writer.function()
        return function


def _over_background(step: JoinStep) -> JoinStep:
    return (step[0], Side.BACKGROUND) if isinstance(step, tuple) and _predicate_on_both_sides(step) is not None else step


def _predicate_on_both_sides(step: JoinStep) -> Const | None:
    """The constant predicate of a triple pattern that is read on both sides."""
    if isinstance(step, tuple) and step[1] is Side.BOTH and isinstance(step[0], TriplePattern) and isinstance(step[0].predicate, Const):
        return step[0].predicate
    return None


def _store_rows(number: int, member: GroupMember) -> IfElse:
    """The code that stores a member's rows under its key."""
    stored = f"rows_by_key[{member.key}]"
    rows = f"{stored} + rows{number} if {member.key} in rows_by_key else rows{number}" if member.is_key_shared else f"rows{number}"
    return IfElse([(f"rows{number}", [Assign(stored, rows)])])


def write_trie(writer: JoinWriter, node: TrieNode, write_end: Callable[[int], None]) -> None:
    """Writes the loops of a node's steps, and a branch for each child; `write_end` writes what
    follows the last step of a member.

    `?x :at ?c . ?c :in ?b` alone, and with `?b :of ?o`:

    for v_s0, w0 in d0.items():
        for v_s1 in w0:
            for v_s2 in b1.get(v_s1, NO_TERMS):
                rows0.append((v_s0, v_s1, v_s2))
                for v_s3 in b2.get(v_s2, NO_TERMS):
                    rows1.append((v_s0, v_s1, v_s2, v_s3))
    """
    while len(node.children) == 1 and not node.ends:  # iterative, since a chain may be longer than Python's stack
        ((step, node),) = node.children.items()
        writer.write_steps([step])
    if len(node.children) + len(node.ends) == 1:
        for number in node.ends:
            write_end(number)
        return
    with writer.forked() as fork:
        for number in node.ends:
            with writer.branch(fork):
                write_end(number)
        for step, child in node.children.items():
            with writer.branch(fork):
                writer.write_steps([step])
                write_trie(writer, child, write_end)


def _write_end(writer: JoinWriter, number: int, member: _Canonical, background: TripleIndex) -> None:
    write_later_steps(writer, member.branch, early_filters(member.branch), background, None)
    writer.emit(f"rows{number}.append", writer.row(member.projection))
