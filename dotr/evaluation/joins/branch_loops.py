"""Branches as generated nested loops: first the join of the patterns, then tables, BIND, FILTER and
look-ups.

Invariant: the rows are the bag of the branch's solutions over the sides that its patterns read, for
the bound terms. A BIND that errs, an OPTIONAL without a partner and a variable that nothing binds
leave None in the row.
Cost: a look-up is one call a solution; the call reads background and delta both.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Final, TypeAlias, assert_never

from dotr.evaluation.codegen import WorkCount
from dotr.evaluation.codegen.tree import Assign, Block, Return
from dotr.evaluation.expressions import condition, evaluator
from dotr.evaluation.joins.branches import Branch, BranchStep, LookupKind, PartnerLookup, Unplannable, ValuesTable
from dotr.evaluation.joins.compile import JoinWriter
from dotr.evaluation.joins.order import JoinItem, Side, Sides, ordered
from dotr.evaluation.joins.paths import NOT_SPENT
from dotr.evaluation.joins.scope import Variables, query_parameters, variables_of
from dotr.evaluation.limits import Limits
from dotr.evaluation.triples.index import TripleIndex
from dotr.model.algebra import Const, PathPattern, Slot, TermPattern, TriplePattern, Var
from dotr.model.datalog import FilterItem
from dotr.model.terms import Term, Variable

AnswerRow: TypeAlias = tuple[Term | None, ...]
BranchFunction: TypeAlias = Callable[..., list[AnswerRow]]
"""A function of background, delta and the bound terms to rows."""

SPENT: Final = "spent"
"""The variable of a generated join with the work of its look-ups so far, and of their walks."""


def with_known_terms(branch: Branch) -> Branch:
    """The branch with the terms of one-row VALUES tables substituted into its patterns."""
    term_of = {
        name: term for table in branch.tables if len(table.rows) == 1 for name, term in zip(table.variables, table.rows[0], strict=True)
    }

    def slot(each: Slot) -> Slot:
        return Const(term_of[each.name]) if isinstance(each, Var) and each.name in term_of else each

    patterns = tuple(
        TriplePattern(slot(p.subject), slot(p.predicate), slot(p.object))
        if isinstance(p, TriplePattern)
        else PathPattern(slot(p.subject), p.path, slot(p.object))
        for p in branch.patterns
    )
    terms = tuple(TermPattern(t.term, slot(t.subject), slot(t.predicate), slot(t.object)) for t in branch.terms)
    return Branch(patterns, branch.tables, branch.steps, terms)


def compile_branch(
    branch: Branch,
    sides: Sides,
    projection: Sequence[Variable],
    background: TripleIndex | None,
    limits: Limits | None,
    bound: Sequence[Variable] = (),
) -> BranchFunction:
    """Compiles a branch to the function that returns its rows.

    `sides`: the index that each pattern reads, in the order of the branch's patterns. `projection`:
    the columns. `background`: the index that the function will be called with, if known; sizes and
    tables are then resolved at compile time. `limits`: None for a function that counts no work.
    `bound`: variables whose terms the caller passes after the two indexes.
    Raises `Unplannable` for loops nested deeper than Python's parser accepts.

    `?s <in> ?room FILTER(BOUND(?room))`, over the new triples alone:

    >>> from inspect import getsource
    >>> from dotr.model.algebra import Call
    >>> branch = Branch((TriplePattern(Var("s"), Const("<in>"), Var("room")),), steps=(BranchStep(None, Call("BOUND", (Var("room"),))),))
    >>> print(getsource(compile_branch(branch, [Side.DELTA], ["room"], None, None)))
        def join(background, delta):
            rows = []
            append = rows.append
            d0 = delta.by_subject.get(k0)
            if d0 is None: return rows
            for v_s, w0 in d0.items():
                for v_room in w0:
                    if not t1(v_room): continue
                    append((v_room,))
            return rows
    <BLANKLINE>
    """
    writer = JoinWriter("join", leave="return rows", index=background, count=work_count(limits))
    writer.begin(["background", "delta", *map(writer.bind, bound)])
    if limits and any(isinstance(step, PartnerLookup) for step in branch.steps):
        writer.assign(SPENT, NOT_SPENT)
    _write_branch(writer, branch, sides, projection, bound, background, limits)
    try:
        return writer.function()
    except IndentationError:
        raise Unplannable("very many patterns in a row") from None


def work_count(limits: Limits | None) -> WorkCount | None:
    """The counter of work of a join for one query; None without limits."""
    return None if limits is None else WorkCount(limits.uncounted_work, limits.next_check)


def _compile_lookup(
    branch: Branch, lookup: PartnerLookup, background: TripleIndex | None, bound: Sequence[Variable], limits: Limits | None
) -> BranchFunction:
    """Compiles the look-up of a solution's partners, which adds its work to that of the other
    look-ups. EXISTS and MINUS end at the first partner: for `FILTER EXISTS { ?s :in ?room }` and a
    sensor with 1,000 rooms, one is looked up.

    for v_room in b0.get(v_s, NO_TERMS):
        append(())
        spent[0] = work
        return rows
    """
    shared_count = None if limits is None else WorkCount(limits.uncounted_work, limits.next_check, f"{SPENT}[0]", is_repeated=True)
    writer = JoinWriter("join", leave="return rows", index=background, count=shared_count)
    writer.begin(["background", "delta", *([SPENT] if limits else []), *map(writer.bind, bound)])
    writer.spent = SPENT
    last = [Assign(f"{SPENT}[0]", "work")] if limits else []
    _write_branch(
        writer, branch, Side.BOTH, lookup.binds, bound, background, limits, last, ends_at_first=lookup.kind is not LookupKind.OPTIONAL
    )
    return writer.function()


def _write_branch(
    writer: JoinWriter,
    branch: Branch,
    sides: Sides,
    projection: Sequence[Variable],
    bound: Sequence[Variable],
    background: TripleIndex | None,
    limits: Limits | None,
    last: Block = (),
    *,
    ends_at_first: bool = False,
) -> None:
    early = early_filters(branch, bound)
    writer.collect_rows()
    writer.write_steps(ordered(join_items(branch, early), bound, sides, background))
    write_later_steps(writer, branch, early, background, limits)
    writer.emit("append", writer.row(projection))
    if ends_at_first:
        for each in (*last, Return("rows")):
            writer.add(each)
    writer.end(last)


def join_items(branch: Branch, early: Iterable[BranchStep]) -> list[JoinItem]:
    """The items of a branch's join, in any order: patterns, triple terms and early filters."""
    return [*branch.patterns, *branch.terms, *(FilterItem(step.expression) for step in early)]


def early_filters(branch: Branch, bound: Sequence[Variable] = ()) -> list[BranchStep]:
    """The FILTERs whose variables the patterns bind; they are evaluated inside the join."""
    matched = variables_of((*branch.patterns, *branch.terms)).union(bound)
    return [step for step in branch.steps if isinstance(step, BranchStep) and is_early_filter(step, matched)]


def write_later_steps(
    writer: JoinWriter, branch: Branch, early: Collection[BranchStep], background: TripleIndex | None, limits: Limits | None
) -> None:
    """Writes the steps after the patterns and the early filters.

    `BIND(?v + 1 AS ?w) FILTER(?w > ?u)`, where `?u` may be unbound:

    v_w = e0(v_v)
    if not t1(v_w, v_u): continue
    """
    for table in branch.tables:
        _write_table(writer, table)
    for step in branch.steps:
        match step:
            case PartnerLookup():
                _write_lookup(writer, step, background, limits)
            case BranchStep(None, _):
                if step not in early:
                    test = writer.parameter("t", condition(step.expression, query_parameters(step.expression)))
                    writer.require(f"{test}({_arguments(writer, step)})")
            case BranchStep(variable, expression):
                assert variable is not None
                value = writer.parameter("e", evaluator(expression, query_parameters(expression)))
                arguments = _arguments(writer, step)
                writer.assign(writer.bind(variable), f"{value}({arguments})")
            case _:
                assert_never(step)


def is_early_filter(step: BranchStep, matched: Collection[Variable]) -> bool:
    """Tests for a FILTER all of whose variables the patterns bind."""
    return step.variable is None and all(name in matched for name in _variables_read(step))


def _variables_read(step: BranchStep) -> list[Variable]:
    return [parameter.name for parameter in query_parameters(step.expression) if isinstance(parameter, Var)]


def _arguments(writer: JoinWriter, step: BranchStep) -> str:
    return ", ".join(map(writer.read, _variables_read(step)))


def _write_table(writer: JoinWriter, table: ValuesTable) -> None:
    """Writes a look-up of a table's rows by its bound columns, which binds the others.

    `VALUES (?x ?y) { … }` with `?x` bound:

    for v_y, in m0((v_x, ), ()):
    """
    keys = [i for i, name in enumerate(table.variables) if name in writer.names]
    others = [i for i, name in enumerate(table.variables) if name not in writer.names]
    if not keys:
        writer.loop_over_rows(table.variables, table.rows)
        return
    rows_by_key: dict[AnswerRow, list[AnswerRow]] = {}
    for row in table.rows:
        rows_by_key.setdefault(tuple([row[i] for i in keys]), []).append(tuple([row[i] for i in others]))
    key = "".join(f"{writer.read(table.variables[i])}, " for i in keys)
    writer.loop(writer.targets([table.variables[i] for i in others]), f"{writer.parameter('m', rows_by_key.get)}(({key}), ())")


def _write_lookup(writer: JoinWriter, lookup: PartnerLookup, background: TripleIndex | None, limits: Limits | None) -> None:
    """Writes a call of another join for each solution.

    `OPTIONAL { ?x :name ?n }`, `FILTER EXISTS { … }` and `MINUS { … }`:

    for v_n, in (o0(background, delta, spent, v_x) or r1):
    if not (o2(background, delta, spent, v_x)): continue
    if (o3(background, delta, spent, v_x)): continue
    """
    calls = []
    for part in map(with_known_terms, lookup.parts):
        used: Variables = part.matched.union(*(_variables_read(step) for step in part.steps if isinstance(step, BranchStep)))
        bound = sorted(used & lookup.bound & writer.names.keys())
        function = _compile_lookup(part, lookup, background, bound, limits)
        arguments = ["background", "delta", *([SPENT] if limits else []), *map(writer.read, bound)]
        calls.append(f"{writer.parameter('o', function)}({', '.join(arguments)})")
    match lookup.kind:
        case LookupKind.OPTIONAL:
            none = writer.parameter("r", ((None,) * len(lookup.binds),))
            writer.loop(writer.targets(lookup.binds), f"({' + '.join(calls) or '()'} or {none})")
        case LookupKind.PRESENT:
            writer.require(f"({' or '.join(calls) or '()'})")
        case LookupKind.ABSENT:
            writer.skip_if(f"({' or '.join(calls) or '()'})")
        case _:
            assert_never(lookup.kind)
