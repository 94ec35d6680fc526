"""Tree of generated code: loops, look-ups, guards, bindings and emits, each a frozen node.

Idea: control flow is typed, so that passes can count, move and split it; the computation of a node
(`v_room != k1`) is Python text over generated names. A guard leaves the innermost turn, the branch
of a `Fork`, or the function; the printer chooses the statement.
Cost: frozen for the type checker, not at run time: a node takes 0.2 µs to construct instead of 0.7
µs, and a delta rule has ten.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias, TypeVar, dataclass_transform

from dotr.model import dataclass

T = TypeVar("T")


@dataclass_transform(frozen_default=True)
def node(cls: type[T]) -> type[T]:
    """A dataclass that is frozen for the type checker."""
    return dataclass(slots=True)(cls)


@node
class Assign:
    """`target = value`; the target may be several names."""

    target: str
    value: str


@node
class TableLookUp:
    """`name = value`, once a call and before the first loop. If it is `required` and None, the
    function returns."""

    name: str
    value: str
    required: bool = False


@node
class ForEach:
    """`for targets in items: body`.

    `sized`: the items have a length, known before the loop. `looked_up`: the items come from a
    dictionary. `counted`: the items are work of the function; those of a walk are counted by it.
    """

    targets: str
    items: str
    body: Block
    sized: bool = True
    looked_up: bool = False
    counted: bool = True


@node
class Require:
    """Continues if the condition holds."""

    condition: str


@node
class SkipIf:
    """Continues if the condition does not hold."""

    condition: str


@node
class Emit:
    """`sink(item)`."""

    sink: str
    item: str


@node
class IfElse:
    """The first block whose condition holds, or `otherwise`."""

    cases: Sequence[tuple[str, Block]]
    otherwise: Block = ()


@node
class Return:
    """Leaves the function with or without a value."""

    value: str = ""


@node
class Fork:
    """Blocks that share the loops around them; a skip in one does not affect the others."""

    branches: Sequence[Block]


@node
class AddWork:
    """Adds to the counted work and checks the limit when it passes the bound. Inserted by the
    counting pass."""

    amount: str


@node
class Outlined:
    """A block as a function inside the other, called in its place. Inserted by the splitting
    pass; `assigned` are names of the outer function that the block assigns."""

    name: str
    body: Block
    assigned: str = ""


CodeNode: TypeAlias = Assign | TableLookUp | ForEach | Require | SkipIf | Emit | IfElse | Return | Fork | AddWork | Outlined
Block: TypeAlias = Sequence[CodeNode]


@node
class WorkCounter:
    """The names or numbers that count work: from `start`, and beyond `least` with a call of
    `passed`.

    `is_repeated`: the function is called many times, so that its outermost loops count too.
    """

    start: str
    least: str
    passed: str
    is_repeated: bool = False


@node
class GeneratedFunction:
    """A function.

    `leave` is the statement that ends it; `last` are the statements before the end only. `depth`
    is the depth of its loops.
    """

    name: str
    arguments: str
    body: Block
    leave: str = "return"
    last: Block = ()
    counter: WorkCounter | None = None
    depth: int = 0
    has_fork: bool = False
