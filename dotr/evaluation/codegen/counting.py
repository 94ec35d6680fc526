"""Counting of work: each loop adds its length to the work, and the limit is checked when the work
passes a bound.

Idea: the outermost loops have at most as many turns as there are triples, so they are counted only
in a function that is called for each solution of another (`is_repeated`). An inner loop adds its
length plus one (for the look-up) when it is entered; without a known length it adds one per turn. A
loop is not counted if every turn of it enters a counted loop.

    for x in n0:                        for x in n0:
        for y in b1.get(x, ()):             w0 = b1.get(x, ())
            append(y)                       work += len(w0) + 1
                                            if work > most: most = passed(work, rows)
                                            for y in w0:
                                                append(y)
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace
from itertools import count

from dotr.evaluation.codegen.tree import AddWork, Assign, Block, CodeNode, ForEach, Fork, GeneratedFunction, Require, SkipIf


def count_work(function: GeneratedFunction) -> GeneratedFunction:
    """Adds counting to a function that has a counter.

    >>> from dotr.evaluation.codegen.printer import printed
    >>> from dotr.evaluation.codegen.tree import WorkCounter
    >>> loops = ForEach("x", "n0", [ForEach("y", "b1.items()", [SkipIf("x == y")], sized=False)])
    >>> print(printed(count_work(GeneratedFunction("join", "n0, b1, rows", [loops], counter=WorkCounter("0", "c2", "p3")))))
    def join(n0, b1, rows):
        work, most, passed = 0, c2, p3
        for x in n0:
            for y in b1.items():
                work += 1
                if work > most: most = passed(work, rows)
                if x == y: continue
    <BLANKLINE>
    """
    counter = function.counter
    if counter is None:
        return function
    start = Assign("work, most, passed", f"{counter.start}, {counter.least}, {counter.passed}")
    body = _count_block(function.body, (f"counted{n}" for n in count()), inner=counter.is_repeated)
    return replace(function, body=[start, *body])


def _count_block(block: Block, names: Iterator[str], *, inner: bool, outermost: Collection[str] = ()) -> Block:
    """The block after the pass.

    With `inner`, its loops are counted, except a loop over a variable of the outermost loop (the
    objects of a subject), which has at most as many turns as there are triples.
    """
    statements: list[CodeNode] = []
    for each in block:
        if isinstance(each, ForEach):
            is_counted = inner and each.items not in outermost and not _counts_every_turn(each.body)
            name = next(names) if is_counted and each.sized else ""
            body = _count_block(each.body, names, inner=True, outermost=() if inner else each.targets.split(", "))
            if name:
                statements += [Assign(name, each.items), AddWork(f"len({name}) + 1"), replace(each, items=name, body=body)]
            else:
                statements.append(replace(each, body=[AddWork("1"), *body] if is_counted else body))
        elif isinstance(each, Fork):
            statements.append(Fork([_count_block(branch, names, inner=inner) for branch in each.branches]))
        else:
            statements.append(each)
    return statements


def _counts_every_turn(body: Block) -> bool:
    """True if each turn of a loop with this body reaches a counting loop.

    Of three nested loops the innermost and the outermost count: the middle one may have no turn.
    """
    for each in body:
        if isinstance(each, SkipIf | Require | Fork):
            return False
        if isinstance(each, ForEach):
            return not _counts_every_turn(each.body)
    return False
