"""Passes over the tree of a generated function, in their order."""

from __future__ import annotations

from dotr.codegen.passes.counting import count_work
from dotr.codegen.passes.prefetching import prefetch
from dotr.codegen.passes.splitting import split
from dotr.codegen.tree import GeneratedFunction


def optimized(function: GeneratedFunction) -> GeneratedFunction:
    """The function after all passes: look-ups are moved, then work is counted, then deep loops
    are split."""
    for each in (prefetch, count_work, split):
        function = each(function)
    return function
