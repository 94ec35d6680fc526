"""Generated functions of single solutions: the end of a chain (BIND, FILTER, WITHIN), and the
common row form of the branches of a UNION.

Source: ep-sparql.md, section 2.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from dotr.evaluation.codegen import define
from dotr.model.algebra import Expression
from dotr.model.terms import Variable
from dotr.model.time import Clock, Micros
from dotr.temporal.intervals.conditions import IntervalExpressions
from dotr.temporal.intervals.solutions import IntervalSolution, Shape

FinishSolutions: TypeAlias = Callable[[list[IntervalSolution]], list[IntervalSolution]]


def compile_end(
    shape: Shape,
    bindings: Sequence[tuple[Variable, Expression]],
    filters: Sequence[Expression],
    within: Micros | None,
    clock: Clock,
) -> FinishSolutions:
    """Generates BIND, FILTER and WITHIN of a chain over a pattern of the shape `shape`.

    For `BIND(?k AS ?m) FILTER(BOUND(?m)) WITHIN 5 s`:

    >>> from inspect import getsource
    >>> from dotr.model.algebra import Call, Var
    >>> chain = [("m", Var("k"))], [Call("BOUND", (Var("m"),))], 5_000_000
    >>> print(getsource(compile_end(Shape(("k",), frozenset("k")), *chain, Clock())))
    def finish(solutions):
        found = []
        for z in solutions:
            e, s, v, p = z
            if e - s > 5000000: continue
            b0 = bind0(v[0])
            if not holds(b0): continue
            found.append((e, s, (v[0], b0,), p))
        return found
    <BLANKLINE>
    >>> finish = compile_end(Shape(("k",), frozenset("k")), [], [], 5, Clock())
    >>> finish([(9, 4, ('"1"',), ()), (9, 3, ('"2"',), ())])
    [(9, 4, ('"1"',), ())]
    """
    lines = ["e, s, v, p = z"]
    known: dict[str, object] = {}
    if within is not None:
        lines.append(f"if e - s > {within}: continue")
    bound: dict[Variable, str] = {}

    def term(name: Variable) -> str:
        return bound[name] if name in bound else f"v[{shape.place(name)}]" if name in shape.names else "None"

    for number, (name, expression) in enumerate(bindings):
        value = IntervalExpressions((expression,), clock, f"bind{number}")
        known |= value.as_value()
        lines.append(f"b{number} = {value.call(term, 's', 'e')}")
        bound[name] = f"b{number}"
    if filters:
        conditions = IntervalExpressions(tuple(filters), clock)
        known |= conditions.as_conditions()
        lines.append(f"if not {conditions.call(term, 's', 'e')}: continue")
    names = shape.extended([name for name, _ in bindings]).names
    result = f"(e, s, ({', '.join(map(term, names))},), p)" if bindings else "z"
    return _define([*lines, f"found.append({result})"], known)


def compile_rows(shape: Shape, common: Shape) -> FinishSolutions:
    """Generates the conversion of a branch's rows to the common shape of a UNION.

    >>> rows = compile_rows(Shape(("b",), frozenset("b")), Shape(("a", "b"), frozenset("b")))
    >>> rows([(9, 4, ('"1"',), ())])
    [(9, 4, (None, '"1"'), ())]
    """
    if shape.names == common.names:
        return list
    terms = [f"v[{shape.place(name)}]" if name in shape.names else "None" for name in common.names]
    return _define(["e, s, v, p = z", f"found.append((e, s, ({', '.join(terms)},), p))"], {})


def _define(lines: Sequence[str], known: dict[str, object]) -> FinishSolutions:
    body = "".join(f"        {line}\n" for line in lines)
    return define(
        f"def finish(solutions):\n    found = []\n    for z in solutions:\n{body}    return found\n", "interval chain", "finish", known
    )
