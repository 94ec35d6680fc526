"""When two queries ask the same: equal up to the names of their variables.

Their answers are then the same rows, since values stand in the order of the projection; where their names sort otherwise, the same rows
with the columns in another order (`canonical_columns`). Names matter where a tie is broken by them (LIMIT and OFFSET, semantics.md, section 4), so
that such queries are compared as they stand.
"""

from __future__ import annotations

from dataclasses import replace

from dotr.model.algebra import Select
from dotr.model.terms import Variable
from dotr.model.traverse import rename, walk


def canonical(select: Select) -> Select:
    """The query with its variables numbered in the order in which they are met: equal for queries that ask the same.

    >>> from dotr.model.algebra import Bgp, Const, TriplePattern, Var
    >>> def asked(subject: str, object: str) -> Select:
    ...     return canonical(Select((object,), Bgp((TriplePattern(Var(subject), Const("<p>"), Var(object)),))))
    >>> asked("x", "y") == asked("y", "z"), asked("x", "y") == asked("x", "x")
    (True, False)
    """
    return select if _is_sliced(select) else rename(select, _Numbering().name)


def canonical_columns(select: Select) -> tuple[Select, tuple[Variable, ...]]:
    """The query as `canonical` has it, whatever the order of its columns; and what its columns are called there, in their order.

    >>> from dotr.model.algebra import Bgp, Const, TriplePattern, Var
    >>> def asked(subject: str, object: str) -> tuple[Select, tuple[Variable, ...]]:
    ...     names = tuple(sorted([subject, object]))
    ...     return canonical_columns(Select(names, Bgp((TriplePattern(Var(subject), Const("<p>"), Var(object)),))))
    >>> asked("x", "y")[0] == asked("y", "x")[0], asked("x", "y")[1], asked("y", "x")[1]
    (True, ('v0', 'v1'), ('v1', 'v0'))
    """
    if _is_sliced(select):
        return select, select.projection
    numbering = _Numbering()
    pattern = rename(select.pattern, numbering.name)
    names = tuple(map(numbering.name, select.projection))
    return replace(select, projection=tuple(sorted(names)), pattern=pattern, order=()), names


def same_query(a: Select, b: Select) -> bool:
    """Whether two queries have the same answers in the same columns, as far as their text shows."""
    return a == b or canonical(a) == canonical(b)


def _is_sliced(select: Select) -> bool:
    return any(isinstance(node, Select) and (node.offset or node.limit is not None) for node in walk(select))


class _Numbering:
    """New names for variables, by the order in which they are met."""

    def __init__(self) -> None:
        self._names: dict[Variable, Variable] = {}

    def name(self, variable: Variable) -> Variable:
        """A name of the same sort: a blank node's, a hidden one, or one that a query can write."""
        if variable not in self._names:
            sort = "_:" if variable.startswith("_:") else "." if variable.startswith(".") else "v"
            self._names[variable] = f"{sort}{len(self._names)}"
        return self._names[variable]
