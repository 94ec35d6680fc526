"""Equality of queries up to the names of their variables.

Equal queries have the same rows, in the order of the projection; `canonical_columns` also
identifies queries whose columns differ in order. LIMIT and OFFSET break ties by variable names
(semantics.md, section 4), so that sliced queries are compared as written.
"""

from __future__ import annotations

from dataclasses import replace

from dotr.model.algebra import Select
from dotr.model.terms import Variable
from dotr.model.traverse import rename, walk


def canonical(select: Select) -> Select:
    """The query with its variables numbered in order of appearance; a sliced query is returned
    unchanged.

    >>> from dotr.model.algebra import Bgp, Const, TriplePattern, Var
    >>> def renamed(subject: str, object: str) -> Select:
    ...     return canonical(Select((object,), Bgp((TriplePattern(Var(subject), Const("<p>"), Var(object)),))))
    >>> renamed("x", "y") == renamed("y", "z"), renamed("x", "y") == renamed("x", "x")
    (True, False)
    """
    return select if _is_sliced(select) else rename(select, _Numbering().name)


def canonical_columns(select: Select) -> tuple[Select, tuple[Variable, ...]]:
    """The canonical query with sorted columns, and the canonical names of the query's own columns,
    in their order.

    >>> from dotr.model.algebra import Bgp, Const, TriplePattern, Var
    >>> def renamed(subject: str, object: str) -> tuple[Select, tuple[Variable, ...]]:
    ...     names = tuple(sorted([subject, object]))
    ...     return canonical_columns(Select(names, Bgp((TriplePattern(Var(subject), Const("<p>"), Var(object)),))))
    >>> renamed("x", "y")[0] == renamed("y", "x")[0], renamed("x", "y")[1], renamed("y", "x")[1]
    (True, ('v0', 'v1'), ('v1', 'v0'))
    """
    if _is_sliced(select):
        return select, select.projection
    numbering = _Numbering()
    pattern = rename(select.pattern, numbering.name)
    names = tuple(map(numbering.name, select.projection))
    return replace(select, projection=tuple(sorted(names)), pattern=pattern, order=()), names


def same_query(a: Select, b: Select) -> bool:
    """Tests whether two queries are equal up to variable names, hence have the same answers."""
    return a == b or canonical(a) == canonical(b)


def _is_sliced(select: Select) -> bool:
    return any(isinstance(node, Select) and (node.offset or node.limit is not None) for node in walk(select))


class _Numbering:
    """New names for variables, numbered in order of appearance."""

    def __init__(self) -> None:
        self._names: dict[Variable, Variable] = {}

    def name(self, variable: Variable) -> Variable:
        """A new name of the same kind: blank node (`_:`), hidden (`.`) or ordinary variable."""
        if variable not in self._names:
            prefix = "_:" if variable.startswith("_:") else "." if variable.startswith(".") else "v"
            self._names[variable] = f"{prefix}{len(self._names)}"
        return self._names[variable]
