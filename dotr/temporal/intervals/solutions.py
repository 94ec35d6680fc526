"""Solutions with intervals, and the source text of their joins.

Idea: the variables of each node are known when it is compiled, so a solution is a row, and a pair
is compared and combined by position. A variable that both sides always bind is part of the key by
which one side is indexed; any other common variable is compared if both sides bind it.
Source: ep-sparql.md, section 2.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple, TypeAlias

from dotr.model import dataclass
from dotr.model.event_order import AttributeValues, tie_key
from dotr.model.terms import Variable
from dotr.model.time import Micros


class LeafSolution(NamedTuple):
    """A solution of a leaf, as a part of a combination: the number of the operand, its interval in
    µs, and its values.
    """

    leaf: int
    start: Micros
    end: Micros
    values: AttributeValues


IntervalSolution: TypeAlias = tuple[Micros, Micros, AttributeValues, tuple[LeafSolution, ...]]
"""A solution (µ, s, e) as (e, s, values, parts), times in µs. The values follow the sorted
variables of its node. The parts are its leaf solutions in the order of the operands if the tree is
traced, else empty.
"""


@dataclass(frozen=True, slots=True)
class Shape:
    """The variables of a node's solutions: all, sorted, and those that every solution binds."""

    names: tuple[Variable, ...]
    certain: frozenset[Variable]

    def place(self, name: Variable) -> int:
        """The position of a variable in a row."""
        return self.names.index(name)

    def joined(self, other: Shape) -> Shape:
        """The shape of joins with another node's solutions.

        >>> Shape(("a", "b"), frozenset("a")).joined(Shape(("b", "c"), frozenset("bc"))).names
        ('a', 'b', 'c')
        """
        return Shape(tuple(sorted({*self.names, *other.names})), self.certain | other.certain)

    def optionally(self, other: Shape) -> Shape:
        """The shape of left joins with another node's solutions."""
        return Shape(self.joined(other).names, self.certain)

    def extended(self, names: Sequence[Variable]) -> Shape:
        """The shape with further variables, which may be unbound.

        >>> Shape(("b",), frozenset("b")).extended(["a"])
        Shape(names=('a', 'b'), certain=frozenset({'b'}))
        """
        return Shape(tuple(sorted({*self.names, *names})), self.certain)


def united(shapes: Sequence[Shape]) -> Shape:
    """The shape of a UNION.

    >>> united([Shape(("a", "b"), frozenset("ab")), Shape(("b",), frozenset("b"))])
    Shape(names=('a', 'b'), certain=frozenset({'b'}))
    """
    names = {name for shape in shapes for name in shape.names}
    return Shape(tuple(sorted(names)), frozenset.intersection(*(shape.certain for shape in shapes)))


def in_order(names: Sequence[Variable], solutions: list[IntervalSolution]) -> list[IntervalSolution]:
    """Solutions of one moment ascending in ≺: by end, start, then ties over all variables.

    >>> in_order(("a",), [(5, 3, ('"1"',), ()), (5, 2, ('"9"',), ())])[0]
    (5, 2, ('"9"',), ())
    """
    return sorted(solutions, key=partial(_order, names)) if len(solutions) > 1 else solutions


def _order(names: Sequence[Variable], solution: IntervalSolution) -> tuple[Micros, Micros, object]:
    return solution[0], solution[1], tie_key(names, solution[2])


@dataclass(frozen=True, slots=True)
class Pairing:
    """The source text of the join of two nodes `x` and `y`.

    The rows are the Python names `vx` and `vy`; the names `kx` and `ky` are unused.
    `equated`: pairs of a variable of x and one of y that a test of the combination equates.

    >>> pairing = Pairing(Shape(("a", "b"), frozenset("ab")), Shape(("b", "c"), frozenset("bc")))
    >>> pairing.key("x"), pairing.conflicts(), pairing.values()
    ('vx[1]', [], '(vx[0], vx[1], vy[1],)')
    """

    x: Shape
    y: Shape
    equated: tuple[tuple[Variable, Variable], ...] = ()

    def key(self, side: str, *first: str) -> str:
        """The key of a row of a side ("x" or "y"); `first` are further parts before it.

        A common variable is compared as a term, so the term is part of the key. Equated variables
        are compared as values: `1` and `1.0` have one key.
        """
        shape = self.x if side == "x" else self.y
        parts = [*first, *[f"v{side}[{shape.place(name)}]" for name in sorted(self.x.certain & self.y.certain)]]
        for pair in self.equated:
            term = f"v{side}[{shape.place(pair[side == 'y'])}]"
            parts.append(f"({term} if {term} >= '<=' else equality_key({term}))")
        return "None" if not parts else parts[0] if len(parts) == 1 else f"({', '.join(parts)})"

    def conflicts(self) -> list[str]:
        """Conditions under which two rows of one key are not compatible."""
        found = []
        for name in sorted({*self.x.names} & {*self.y.names} - (self.x.certain & self.y.certain)):
            one, other = f"vx[{self.x.place(name)}]", f"vy[{self.y.place(name)}]"
            bound = [f"{term} is not None" for term, shape in ((one, self.x), (other, self.y)) if name not in shape.certain]
            found.append(" and ".join([f"{one} != {other}", *bound]))
        return found

    def term(self, name: Variable) -> str:
        """The term of a variable in the combination."""
        places = [f"v{side}[{shape.place(name)}]" for side, shape in (("x", self.x), ("y", self.y)) if name in shape.names]
        if not places:
            return "None"
        if len(places) == 1 or name in self.x.certain:
            return places[0]
        return places[1] if name in self.y.certain else f"({places[0]} if {places[0]} is not None else {places[1]})"

    def values(self) -> str:
        """The row of the combination."""
        return _row([self.term(name) for name in self.x.joined(self.y).names])

    def alone(self) -> str:
        """The row of an x without a partner."""
        return _row([f"vx[{self.x.place(name)}]" if name in self.x.names else "None" for name in self.x.joined(self.y).names])


def _row(terms: Sequence[str]) -> str:
    return f"({', '.join(terms)},)" if terms else "()"
