"""Splitting of deep functions: CPython compiles at most 20 nested blocks, so deeper loops become
an inner function."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from dotr.evaluation.codegen.tree import Block, CodeNode, ForEach, Fork, GeneratedFunction, Outlined

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
        else:
            statements.append(each)
    return statements
