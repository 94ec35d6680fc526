"""Passes over the tree of a generated function, in their order."""

from __future__ import annotations

from dotr.evaluation.codegen.counting import count_work
from dotr.evaluation.codegen.prefetching import prefetch
from dotr.evaluation.codegen.splitting import split
from dotr.evaluation.codegen.tree import GeneratedFunction


def optimized(function: GeneratedFunction) -> GeneratedFunction:
    """The function after all passes: look-ups are moved, then work is counted, then deep loops
    are split."""
    for each in (prefetch, count_work, split):
        function = each(function)
    return function
