"""Questions after the class of a unit outside of the folder of its language: `isinstance`, `case`, `type(…) is`.

A unit is asked by methods; whoever asks for its class knows its language.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from typing import Final

from tests.support.modules import nodes

UNITS: Final[Mapping[str, str]] = {
    "StreamQuery": "continuous",
    "QueryUnit": "continuous",
    "ConstructSolutions": "continuous",
    "MergedGraphs": "continuous",
    "LarsUnit": "lars",
    "IntervalUnit": "epsparql",
    "IntervalComponent": "epsparql",
}
"""The classes of units, each with the folder of its language."""


def _names(node: ast.expr) -> Iterator[str]:
    """The classes that an expression names."""
    match node:
        case ast.Name(name) | ast.Attribute(attr=name):
            yield name
        case ast.BinOp(left, ast.BitOr(), right):
            yield from _names(left)
            yield from _names(right)
        case ast.Tuple(parts):
            for part in parts:
                yield from _names(part)
        case _:
            pass


def asked(texts: Iterable[ast.AST]) -> Counter[str]:
    """The classes after which the nodes of a text ask, with the number of questions: `isinstance`, `case`, `type(…) is`."""
    found: Counter[str] = Counter()
    for node in texts:
        match node:
            case ast.Call(func=ast.Name("isinstance"), args=[_, kinds]):
                found.update(_names(kinds))
            case ast.MatchClass(cls=kind):
                found.update(_names(kind))
            case ast.Compare(ast.Call(func=ast.Name("type")), [ast.Is() | ast.IsNot()], [kind]):
                found.update(_names(kind))
            case _:
                pass
    return found


@cache
def unit_questions() -> frozenset[str]:
    """A line for each file and class of a unit after which it asks from outside of the language's folder."""
    return frozenset(
        f"{path.as_posix()} asks for {name}"
        for path, found in nodes().items()
        for name in asked(found).keys() & UNITS.keys()
        if not path.as_posix().startswith(f"dotr/languages/{UNITS[name]}/")
    )
