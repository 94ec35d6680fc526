"""The invariant of scans: the records of a full reading, with the same times, without elements."""

from __future__ import annotations

from collections.abc import Sequence

from dotr.streams.records import Record


def assert_scan_of(scan: Sequence[Record], records: Sequence[Record]) -> None:
    """Asserts that `scan` is a scan of the file or message whose full reading yields `records`."""
    assert [_place(each) for each in scan] == [_place(each) for each in records]
    for one, other in zip(scan, records, strict=True):
        assert one.element is None
        if one.time is None:  # a record without a time has the same reason in both readings
            assert one == other


def _place(record: Record) -> tuple[object, ...]:
    return record.offset, record.end, record.line, record.judged_time, record.raw
