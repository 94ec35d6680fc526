"""The tree that generators build: loops, look-ups, guards, bindings and what is emitted, each a frozen node.

Idea: control flow is typed, so that passes can count, move and split it; what a node computes (`v_room != k1`) is Python text made of names
that the generator chose. A guard leaves the innermost loop's turn, or the branch of a `Fork`, or the function: the printer knows which.
Cost: frozen for the type checker, not at run time: a node takes 0.2 µs to make instead of 0.7 µs, and a delta rule has ten.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias, TypeVar, dataclass_transform

T = TypeVar("T")


@dataclass_transform(frozen_default=True)
def node(cls: type[T]) -> type[T]:
    """A dataclass that nobody changes."""
    return dataclass(slots=True)(cls)


@node
class Assign:
    """`target = value`; the target may be several names."""

    target: str
    value: str


@node
class TableLookUp:
    """`name = value`, once a call and before the first loop. Where it is `required` and there is none, the function has nothing to find."""

    name: str
    value: str
    required: bool = False


@node
class ForEach:
    """`for targets in items: body`. `sized`: the items have a length, known before the loop. `looked_up`: they come from a dictionary."""

    targets: str
    items: str
    body: Block
    sized: bool = True
    looked_up: bool = False


@node
class Require:
    """Goes on where the condition holds."""

    condition: str


@node
class SkipIf:
    """Goes on where the condition does not hold."""

    condition: str


@node
class Emit:
    """`sink(item)`: hands on what was found."""

    sink: str
    item: str


@node
class IfElse:
    """The first block whose condition holds, or `otherwise`."""

    cases: Sequence[tuple[str, Block]]
    otherwise: Block = ()


@node
class Return:
    """Leaves the function with a value, or without one."""

    value: str = ""


@node
class Fork:
    """Blocks that share the loops around them: each runs, whatever the others skip."""

    branches: Sequence[Block]


@node
class AddWork:
    """Adds to the work counted so far, and looks at the bound where it has been passed. Made by the counting pass."""

    amount: str


@node
class Outlined:
    """A block as a function of its own inside the other, called where it is. Made by the splitting pass; `assigned` are names of the outer
    function that it assigns."""

    name: str
    body: Block
    assigned: str = ""


CodeNode: TypeAlias = Assign | TableLookUp | ForEach | Require | SkipIf | Emit | IfElse | Return | Fork | AddWork | Outlined
Block: TypeAlias = Sequence[CodeNode]


@node
class WorkCounter:
    """How a function counts its work: from `start`; more than `least` is shown to `passed`. `again`: it is called many times, so that its
    outermost loops count too. All are names of parameters or numbers."""

    start: str
    least: str
    passed: str
    is_repeated: bool = False


@node
class GeneratedFunction:
    """A function. `leave` is the statement that ends it early or at its end; `last` comes before the end alone. `depth`: how many loops
    are in one another; `forks`: whether it has a `Fork`."""

    name: str
    arguments: str
    body: Block
    leave: str = "return"
    last: Block = ()
    counter: WorkCounter | None = None
    depth: int = 0
    has_fork: bool = False
