"""The program with units of all four languages, with and without a key, and a stream for it.

Stored checkpoints were made with both, so neither is ever changed.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import Final

from dotr.model.stream import Element
from dotr.model.terms import XSD, literal
from tests.support.stored_checkpoints import FOLDER, SECOND

UNITS: Final = FOLDER / "units"
LABELS: Final = frozenset(["Rose", "Same", "Calm", "Swing", "Climbs", "Mean", "Gone", "Hot", "Cooled", "Two", "Climb", "Next"])
"""The events of the program, which all occur in each half of the stream."""


def _element(number: int) -> Element:
    """The reading of a room."""
    room, value, *_ = blake2b(b"%d" % number).digest()
    number_of = literal(str(value % 20 * 5), XSD + "integer")
    return Element(number * SECOND, (("_:0", "<http://e/room>", f"<http://e/r{room % 4}>"), ("_:0", "<http://e/value>", number_of)))


ELEMENTS: Final = [_element(number) for number in range(160)]
