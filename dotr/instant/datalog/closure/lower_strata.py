"""Evaluation of NOT and AGGREGATE in the model of the lower strata.

Both are functions of a `LowerModel` and of the terms that the rule has bound before. Hidden
predicates are left out. A function is compiled once for each item and set of bound variables.

Cost: NOT ends at the first match. If the rule has bound its keys, a group costs its own members.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Final, NamedTuple, TypeAlias

from dotr.evaluation.codegen.tree import Return
from dotr.evaluation.expressions import aggregate, evaluator
from dotr.evaluation.joins.compile import JoinWriter, Row, compile_join
from dotr.evaluation.joins.order import Side, ordered
from dotr.evaluation.triples.index import TripleIndex
from dotr.model.algebra import AggregateCall, TriplePattern, Var
from dotr.model.datalog import Bind, FilterItem, GroupAggregate, Not
from dotr.model.terms import Term, Variable
from dotr.model.traverse import free_variables


class LowerModel(NamedTuple):
    """Model of the lower strata: the background, and the delta."""

    background: TripleIndex
    delta: TripleIndex


LowerLookup: TypeAlias = Callable[..., "list[Row]"]
"""(model, *bound terms) -> rows."""

_CACHED: Final = 4096


@lru_cache(_CACHED)
def exists(item: Not, bound: tuple[Variable, ...]) -> LowerLookup:
    """One empty row where the negated pattern has a match for the bound terms, else no row.

    >>> from dotr.model.algebra import Const
    >>> broken = exists(Not((TriplePattern(Var("s"), Const("<broken>"), Var("why")),)), ("s",))
    >>> index = TripleIndex([("<a>", "<broken>", "<x>"), ("<a>", "<broken>", "<y>")])
    >>> model = LowerModel(index, TripleIndex())
    >>> broken(model, "<a>"), broken(model, "<b>")
    ([()], [])
    >>> from inspect import getclosurevars, getsource
    >>> print(getsource(getclosurevars(broken).nonlocals["join"]))
        def join(background, delta, v_s):
            rows = []
            append = rows.append
            b0 = background.by_subject.get(k0, NO_ENDS)
            d1 = delta.by_subject.get(k0)
            for v_why in (b0.get(v_s, NO_TERMS) if d1 is None else b0.get(v_s, NO_TERMS) + d1.get(v_s, NO_TERMS)):
                append(())
                return rows
            return rows
    <BLANKLINE>
    """
    writer = JoinWriter("join", leave="return rows")
    writer.begin(["background", "delta", *map(writer.bind, bound)])
    writer.collect_rows()
    writer.write_steps(ordered(item.body, bound, Side.BOTH, None))
    writer.emit("append", "()")
    writer.add(Return("rows"))
    writer.end()
    join: Callable[..., list[Row]] = writer.function()
    return lambda model, *terms: join(*model, *terms)


@lru_cache(_CACHED)
def matches(
    items: tuple[TriplePattern | FilterItem | Bind, ...],
    bound: tuple[Variable, ...],
    projection: tuple[Variable, ...],
    skip: int | None = None,
) -> LowerLookup:
    """Rows of a conjunction, without the item at index `skip`.

    `bound`: the variables whose terms are arguments of the function; `projection`: the columns of a
    row.
    """
    body = [item for number, item in enumerate(items) if number != skip]
    join = compile_join(body, bound, Side.BOTH, projection)
    return lambda model, *terms: join(*model, *terms)


@lru_cache(_CACHED)
def groups(item: GroupAggregate, bound: tuple[Variable, ...]) -> LowerLookup:
    """Groups with the bound keys; a row has the other keys, then the results.

    >>> from dotr.model.algebra import Const
    >>> inside = TriplePattern(Var("x"), Const("<in>"), Var("room"))
    >>> call = AggregateCall("COUNT", False, Var("x"))
    >>> count = GroupAggregate((inside,), ("room",), (("n", call),))
    >>> index = TripleIndex([("<a>", "<in>", "<hall>"), ("<b>", "<in>", "<hall>")])
    >>> model = LowerModel(index, TripleIndex([("<c>", "<in>", "<hall>")]))
    >>> every, one = groups(count, ()), groups(count, ("room",))
    >>> [(room, n[:3]) for room, n in every(model)], one(model, "<attic>")
    ([('<hall>', '"3"')], [])
    """
    others = tuple(key for key in item.keys if key not in bound)
    arguments = tuple(
        dict.fromkeys(name for _, call in item.results if call.argument is not None for name in free_variables(call.argument))
    )
    rows = matches(item.body, bound, (*others, *arguments))
    key_arity = len(others)
    results = [_group_result(call, arguments) for _, call in item.results]

    def grouped(model: LowerModel, *terms: Term) -> list[Row]:
        members: dict[Row, list[Row]] = {} if item.keys else {(): []}
        for row in rows(model, *terms):
            members.setdefault(row[:key_arity], []).append(row[key_arity:])
        answers = []
        for key, group in members.items():
            row = (*key, *(result(group) for result in results))
            if None not in row:
                answers.append(row)
        return answers

    return grouped


def _group_result(call: AggregateCall, arguments: Sequence[Variable]) -> Callable[[list[Row]], Term | None]:
    """Function from the members of a group (rows of all arguments) to an aggregate's result."""
    apply = aggregate(call)
    match call.argument:
        case None:
            # The rows of a group are distinct, so COUNT(DISTINCT *) equals COUNT(*).
            apply_to_all = aggregate(AggregateCall(call.function, False, None))
            return lambda members: apply_to_all(["*"] * len(members))
        case Var(name):
            index = arguments.index(name)
            return lambda members: apply([member[index] for member in members])
        case expression:
            names = free_variables(expression)
            indexes = [arguments.index(name) for name in names]
            value = evaluator(expression, [Var(name) for name in names])
            return lambda members: apply([value(*[member[index] for index in indexes]) for member in members])
