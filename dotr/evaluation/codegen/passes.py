"""Passes over the tree of a generated function, in their order."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import replace
from itertools import count
from typing import Final

from dotr.evaluation.codegen.tree import (
    AddWork,
    Assign,
    Block,
    CodeNode,
    ForEach,
    Fork,
    GeneratedFunction,
    IfElse,
    Outlined,
    Require,
    SkipIf,
)


def optimized(function: GeneratedFunction) -> GeneratedFunction:
    """The function after all passes: look-ups are moved, then work is counted, then deep loops
    are split."""
    for each in (prefetch, count_work, split):
        function = each(function)
    return function


# Counting of work: each loop adds its length to the work, and the limit is checked when the work
# passes a bound.
#
# Idea: the outermost loops have at most as many turns as there are triples, so they are counted only
# in a function that is called for each solution of another (`is_repeated`). An inner loop adds its
# length plus one (for the look-up) when it is entered; without a known length it adds one per turn. A
# loop is not counted if every turn of it enters a counted loop.
#
#     for x in n0:                        for x in n0:
#         for y in b1.get(x, ()):             w0 = b1.get(x, ())
#             append(y)                       work += len(w0) + 1
#                                             if work > most: most = passed(work, rows)
#                                             for y in w0:
#                                                 append(y)


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
            is_counted = inner and each.counted and each.items not in outermost and not _counts_every_turn(each.body)
            name = next(names) if is_counted and each.sized else ""
            body = _count_block(each.body, names, inner=True, outermost=() if inner else each.targets.split(", "))
            if name:
                statements += [Assign(name, each.items), AddWork(f"len({name}) + 1"), replace(each, items=name, body=body)]
            else:
                statements.append(replace(each, body=[AddWork("1"), *body] if is_counted else body))
        elif isinstance(each, Fork):
            statements.append(Fork([_count_block(branch, names, inner=inner) for branch in each.branches]))
        elif isinstance(each, IfElse):
            statements.append(_in_cases(each, lambda case: _count_block(case, names, inner=inner)))
        else:
            statements.append(each)
    return statements


def _in_cases(choice: IfElse, change: Callable[[Block], Block]) -> IfElse:
    """The choice with each of its blocks changed."""
    return IfElse([(condition, change(block)) for condition, block in choice.cases], change(choice.otherwise))


def _counts_every_turn(body: Block) -> bool:
    """True if each turn of a loop with this body reaches a counting loop.

    Of three nested loops the innermost and the outermost count: the middle one may have no turn.
    """
    for each in body:
        if isinstance(each, SkipIf | Require | Fork | IfElse):
            return False
        if isinstance(each, ForEach):
            return each.counted and not _counts_every_turn(each.body)
    return False


# Prefetching: look-ups of the branches of a fork move before its first branch.
#
# Idea: consecutive look-ups wait for memory together (most of them miss the processor's caches). A
# function that counts its work is unchanged: each of its look-ups is counted when its loop is
# entered.
#
#     for x in n0:                        for x in n0:
#         for y in b1.get(x, ()):             early0 = b1.get(x, ())
#             append(y)                       early1 = b2.get(x, ())
#         for z in b2.get(x, ()):             for y in early0:
#             extend(z)                           append(y)
#                                             for z in early1:
#                                                 extend(z)


def prefetch(function: GeneratedFunction) -> GeneratedFunction:
    """Moves the first look-up of each branch before the fork, except outside all loops.

    >>> inner = [[ForEach(name, f"{table}.get(x, ())", (), looked_up=True)] for name, table in (("y", "b1"), ("z", "b2"))]
    >>> from dotr.evaluation.codegen.printer import printed
    >>> print(printed(prefetch(GeneratedFunction("join", "n0, b1, b2", [ForEach("x", "n0", [Fork(inner)])], has_fork=True))))
    def join(n0, b1, b2):
        for x in n0:
            early0 = b1.get(x, ())
            early1 = b2.get(x, ())
            for y in early0:
                pass
            for z in early1:
                pass
    <BLANKLINE>
    """
    if not function.has_fork or function.counter is not None:
        return function
    return replace(function, body=_prefetch_block(function.body, (f"early{n}" for n in count()), inside_loop=False))


def _prefetch_block(block: Block, names: Iterator[str], *, inside_loop: bool) -> Block:
    """The block after the pass; `inside_loop` is true within a loop."""
    statements: list[CodeNode] = []
    for each in block:
        if isinstance(each, ForEach):
            statements.append(replace(each, body=_prefetch_block(each.body, names, inside_loop=True)))
        elif isinstance(each, Fork):
            branches = []
            for branch in each.branches:
                first = branch[0] if branch else None
                if inside_loop and isinstance(first, ForEach) and first.looked_up:
                    name = next(names)
                    statements.append(Assign(name, first.items))
                    branch = [replace(first, items=name), *branch[1:]]
                branches.append(_prefetch_block(branch, names, inside_loop=inside_loop))
            statements.append(Fork(branches))
        else:
            statements.append(each)
    return statements


# Splitting of deep functions: CPython compiles at most 20 nested blocks, so deeper loops become
# an inner function.

LOOPS_OF_A_FUNCTION: Final = 18


def split(function: GeneratedFunction, most: int = LOOPS_OF_A_FUNCTION) -> GeneratedFunction:
    """Moves loops below `most` others into an inner function.

    >>> from dotr.evaluation.codegen.printer import printed
    >>> loops = ForEach("x", "n0", [ForEach("y", "n1", [ForEach("z", "n2", ())])])
    >>> print(printed(split(GeneratedFunction("join", "n0, n1, n2", [loops], depth=3), most=2)))
    def join(n0, n1, n2):
        for x in n0:
            for y in n1:
                def rest():
                    for z in n2:
                        pass
                rest()
    <BLANKLINE>
    """
    if function.depth <= most:
        return function
    assigned = "work, most" if function.counter is not None else ""
    return replace(function, body=_split(function.body, 0, most, assigned))


def _split(block: Block, depth: int, most: int, assigned: str) -> Block:
    """The block after the pass; `depth` loops of its function are around it."""
    statements: list[CodeNode] = []
    for each in block:
        if isinstance(each, ForEach):
            inside = 0 if depth == most else depth
            loop = replace(each, body=_split(each.body, inside + 1, most, assigned))
            statements.append(Outlined("rest", [loop], assigned) if depth == most else loop)
        elif isinstance(each, Fork):
            statements.append(Fork([_split(branch, depth, most, assigned) for branch in each.branches]))
        elif isinstance(each, IfElse):
            statements.append(_in_cases(each, lambda case: _split(case, depth, most, assigned)))
        else:
            statements.append(each)
    return statements
