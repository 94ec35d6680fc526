"""Records of stage two: stored events and matches.

Events and matches are plain tuples: one takes a third of the time of an object of a class with
named fields, and the garbage collector stops to look at it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

from dotr.model.event_order import AttributeValues
from dotr.model.terms import Term
from dotr.model.time import Micros
from dotr.temporal.matching.rule_search import TableRow

StoredEvent: TypeAlias = tuple[Micros, int, AttributeValues]
"""An event in the state of stage two: its time in µs since 1970, its ordinal, which distinguishes
events of one stream and instant, and its attributes in the order of the port's names."""


Match: TypeAlias = tuple[int, int, tuple[StoredEvent, ...], AttributeValues]
"""A complete binding of a rule of a layer: the number of the rule, the ordinal, the bound events,
and the values of the composite event's attributes.

The bound events are those of the positive roles, the anchor first and the others in the order
written. The ordinal distinguishes the matches with one event label at one instant. A plain tuple:
`zip` makes those of many rules in a quarter of the time of a class with named fields.
"""


class EnteringBinding(NamedTuple):
    """A binding that enters a stage of rules.

    `rows` are those of the rules that it satisfies so far, `size` is the product of the numbers of
    events chosen on its way (1 where no clause may choose several), and `bound` has the event or
    the value of each later positive role or aggregate of the stages before.
    """

    anchor: StoredEvent
    rows: Sequence[TableRow]
    size: int
    bound: tuple[StoredEvent | Term | None, ...]


SearchStart: TypeAlias = StoredEvent | EnteringBinding
"""What a search of matches begins with: an anchor, or a binding that enters a stage."""


def anchor_of(start: SearchStart) -> StoredEvent:
    """The anchor of the matches that a search may find."""
    return start.anchor if isinstance(start, EnteringBinding) else start
