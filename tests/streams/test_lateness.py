"""Admission of elements by their time (semantics.md, 6)."""

from __future__ import annotations

import pytest

from dotr.model.places import Document
from dotr.model.time import Unit
from dotr.streams.lateness import Lateness
from dotr.streams.records import ElementMap, Format, GraphSettings, InputFile, Record

pytestmark = pytest.mark.core

DATED = "an element of 2024-03-01T08:00:00+01:00 came before this one of 2024-03-01T07:00:00+01:00"


@pytest.mark.parametrize(
    ("time", "text", "told"),
    [
        ("t", b"2024-03-01T07:00,7", DATED),
        ("t", b"2024-03-01 06:00:00Z,7", DATED),
        ("t", b"1709272800,2024-02-29T06:00", "an element of 1709276400 came before this one of 1709272800"),
        ("$timestamp", b"7", DATED),
    ],
)
def test_late_times_are_told_as_they_are_written(time: str, text: bytes, told: str) -> None:
    hour = Unit.HOUR.value
    made = ElementMap(time, Document("map", ""), time_zone="Europe/Berlin")
    file = InputFile("a", "a.csv", Format.CSV, map=made, zone="Europe/Berlin")
    lateness = Lateness(0, 1_709_272_800_000_000 + hour)
    letter = lateness.rejection(file, Record(0, 1, 1, 1_709_272_800_000_000, None, text))
    assert letter is not None
    assert letter.why == told


def test_times_of_messages_without_a_map_are_told_as_date_times() -> None:
    file = InputFile("a", "a.ttl", Format.TURTLE, graphs=GraphSettings("$timestamp"), zone="Europe/Berlin")
    letter = Lateness(0, 1_709_276_400_000_000).rejection(file, Record(0, 1, 1, 1_709_272_800_000_000, None, b"<a> <b> <c> ."))
    assert letter is not None
    assert letter.why == DATED
