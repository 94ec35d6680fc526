"""Positions in the inputs: where reading of each continues, and where that of one batch may stop.

An offset, which Spark keeps as JSON in its log, is all that a batch is planned again from.
Its text, in the log, in the checkpoint, in a job and in the index, is written and read here alone.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from dotr.evaluation.files.stores import Location
from dotr.model import dataclass
from dotr.model.time import LAST_MICRO, Micros

END: Final = -1
"""The offset behind the last record."""

ORDINARY_BYTES: Final = 512
"""Bytes of an ordinary element; one n times as long counts as n further elements. In memory an
ordinary element takes some 8 KB."""

BEGINNING: Final[Micros] = -LAST_MICRO
"""A time before any instant."""


class Floor(NamedTuple):
    """A position in an input: instants up to `until` (µs) closed without it, so that records from
    this file and offset on with times up to `until` are too late. The input was idle, or
    `by_clock`: `until` is a heartbeat."""

    file: int
    offset: int
    until: Micros
    by_clock: bool = False


def floors_of_json(listed: Iterable[Sequence[int]]) -> tuple[Floor, ...]:
    """Floors from the lists in which JSON has them."""
    return tuple(Floor(file, offset, until, by_clock == [True]) for file, offset, until, *by_clock in listed)


class InputPosition(NamedTuple):
    """The position where reading of an input continues: offset and line of a record, and the
    greatest time before it (µs). A growing input also has the number of the file, and floors.
    `shift`: by how much the last element of the greatest time was set apart (µs)."""

    offset: int
    line: int
    greatest: Micros
    file: int = 0
    floors: tuple[Floor, ...] = ()
    shift: Micros = 0

    @property
    def point(self) -> tuple[int, int]:
        """The file and the offset in it."""
        return self.file, self.offset

    def to_json(self) -> list[object]:
        """The members as a list, without trailing defaults."""
        floors = [each if each.by_clock else each[:3] for each in self.floors]
        written = [*self[:4], floors, self.shift]
        return written if self.shift else written[: 5 if self.file or floors else 3]

    @staticmethod
    def of_json(
        offset: int, line: int, greatest: Micros, file: int = 0, floors: Sequence[Sequence[int]] = (), shift: Micros = 0
    ) -> InputPosition:
        """The inverse of `to_json`.

        >>> position = InputPosition(5, 1, 7, 2, (Floor(1, 9, 4), Floor(1, 10, 6, by_clock=True)))
        >>> InputPosition.of_json(*position.to_json()) == position
        True
        """
        return InputPosition(offset, line, greatest, file, floors_of_json(floors), shift)


START: Final = InputPosition(0, 1, BEGINNING)


class Cut(NamedTuple):
    """All elements up to `time` (µs).

    `positions` are where each input continues, `stops` the offsets where reading for this cut may
    stop (END: at the end), and `elements` the number of elements that it adds, in units of ordinary
    length.
    """

    time: Micros
    positions: tuple[InputPosition, ...]
    stops: tuple[int, ...]
    elements: int
    files: tuple[int, ...] = ()
    """The file of each stop, for growing inputs."""

    @property
    def points(self) -> tuple[tuple[int, int], ...]:
        """The stops as file and offset."""
        return tuple(zip(self.files, self.stops, strict=True)) if self.files else tuple((0, stop) for stop in self.stops)


@dataclass(frozen=True, slots=True)
class Offset:
    """The position of a query: the time closed so far (µs), and a position in each input. Spark
    keeps it as JSON in its log. `is_heartbeat`: the time is a heartbeat of the pipeline's clock."""

    time: Micros
    positions: tuple[InputPosition, ...]
    is_heartbeat: bool = False

    def to_json(self) -> dict[str, object]:
        """JSON data; times are within the integers that Spark's JSON keeps exactly.

        >>> Offset(5, (START,)).to_json()
        {'version': 1, 'time': 5, 'places': [[0, 1, -4611686018427387904]]}
        """
        places = [position.to_json() for position in self.positions]
        return {"version": 1, "time": self.time, "places": places, **({"heartbeat": True} if self.is_heartbeat else {})}

    @staticmethod
    def of_json(value: dict[str, object]) -> Offset:
        """The inverse of `to_json`.

        >>> Offset.of_json(Offset(5, (START,)).to_json()) == Offset(5, (START,))
        True
        """
        time, positions = value["time"], value["places"]
        assert value["version"] == 1
        assert isinstance(time, int)
        assert isinstance(positions, list)
        return Offset(time, tuple(InputPosition.of_json(*position) for position in positions), bool(value.get("heartbeat")))

    def to_text(self) -> str:
        """The JSON data as text."""
        return json.dumps(self.to_json())

    @staticmethod
    def of_text(text: str) -> Offset:
        """The inverse of `to_text`. Raises ValueError, TypeError, KeyError or AssertionError for
        other text."""
        return Offset.of_json(json.loads(text))

    @staticmethod
    def of_log(place: Location) -> Offset:
        """The offset in a file of Spark's log of offsets. Raises OSError, and what `of_text` raises
        and IndexError for a damaged file."""
        return Offset.of_text(place.read().decode().splitlines()[-1])

    def padded(self, inputs: int) -> Offset:
        """The offset with start positions for inputs added since."""
        return replace(self, positions=(*self.positions, *[START] * (inputs - len(self.positions))))

    @staticmethod
    def start(inputs: int) -> Offset:
        """The offset before all elements."""
        return Offset(BEGINNING, (START,) * inputs)

    @property
    def ended(self) -> bool:
        """True if the stream has ended."""
        return self.time == LAST_MICRO
