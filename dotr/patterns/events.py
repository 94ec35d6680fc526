"""Records of stage two: stored events and matches.

Hot paths construct both with `tuple.__new__`, which takes a third of the time of the constructor.
"""

from __future__ import annotations

from typing import NamedTuple

from dotr.layout.event_order import AttributeValues
from dotr.model.time import Micros


class StoredEvent(NamedTuple):
    """An event in the state of stage two.

    `time` is in µs since 1970, `ordinal` distinguishes events of one stream and instant, `values`
    are the attributes in the order of the port's names.
    """

    time: Micros
    ordinal: int
    values: AttributeValues


class Match(NamedTuple):
    """A complete binding of rule number `rule` of a layer.

    `bound` holds the events of the positive roles, the anchor first and the others in the order
    written; `values` are the attributes of the composite event. `ordinal` distinguishes the matches
    with one event label at one instant.
    """

    rule: int
    ordinal: int
    bound: tuple[StoredEvent, ...]
    values: AttributeValues
