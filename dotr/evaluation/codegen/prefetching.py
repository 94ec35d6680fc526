"""Prefetching: look-ups of the branches of a fork move before its first branch.

Idea: consecutive look-ups wait for memory together (most of them miss the processor's caches). A
function that counts its work is unchanged: each of its look-ups is counted when its loop is
entered.

    for x in n0:                        for x in n0:
        for y in b1.get(x, ()):             early0 = b1.get(x, ())
            append(y)                       early1 = b2.get(x, ())
        for z in b2.get(x, ()):             for y in early0:
            extend(z)                           append(y)
                                            for z in early1:
                                                extend(z)
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import count

from dotr.evaluation.codegen.tree import Assign, Block, CodeNode, ForEach, Fork, GeneratedFunction


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
