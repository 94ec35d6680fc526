"""What stage two handles most: events as it remembers them, and matches. Made by `tuple.__new__` where that is hot: a third of the time."""

from __future__ import annotations

from typing import NamedTuple

from dotr.layout.event_order import AttributeValues
from dotr.model.time import Micros


class StoredEvent(NamedTuple):
    """An event as stage two holds it. `ordinal` tells it from the others of its stream at its instant."""

    time: Micros
    ordinal: int
    values: AttributeValues


class Match(NamedTuple):
    """A complete binding of the layer's rule number `rule`: the events bound to its positive roles, the anchor first and the others in the
    order written, and the composite event's values. `ordinal` tells it from all other matches of its event's label at the instant."""

    rule: int
    ordinal: int
    bound: tuple[StoredEvent, ...]
    values: AttributeValues
