"""Temporary database of a worker for decoded state beyond its memory bound.

Idea: Spark's store holds the state as logs in order of time; this database holds it in order of
pages, so that one page can be read alone. The database is derived from the logs, and deleted with
the worker. SQLite keeps a few megabytes in memory and the rest in an unnamed file. Texts are only
appended to a page; they are neighbours on disk, since rows are in the order of the primary key.

Example: with `_NUMBERS` = 2^40, text number 7 of page 3 has the key 3 * 2^40 + 7; the texts of page
3 are the range from 3 * 2^40 to 4 * 2^40 - 1.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from contextlib import suppress
from itertools import count
from typing import TYPE_CHECKING, Final, NamedTuple

from dotr.model.time import Micros

if TYPE_CHECKING:
    from sqlite3 import Connection

_KIBIBYTES: Final = 16_384

_BLOCK: Final = 16_384
"""Bytes of a database page: some neighbouring texts."""

_NUMBERS: Final = 1 << 40
"""More texts than a bucket ever writes."""


class SpilledText(NamedTuple):
    """A part of a page, as `page_codec.encode_part` writes it. Its events are not later than
    `until`, and those of it and of the page's earlier texts are expired as of `closed` (µs)."""

    page: int
    until: Micros
    closed: Micros
    body: bytes


class SpillDatabase:
    """A temporary SQLite database."""

    def __init__(self) -> None:
        import sqlite3  # imported here, since some builds of Python lack it

        folders = os.environ.get("SPARK_LOCAL_DIRS", "").split(",")
        with suppress(OSError):
            if folders[0] and os.access(folders[0], os.W_OK):
                os.environ.setdefault("SQLITE_TMPDIR", folders[0])
        self._database = sqlite3.connect("", isolation_level=None)
        for setting in ("journal_mode = OFF", "synchronous = OFF", f"page_size = {_BLOCK}", f"cache_size = -{_KIBIBYTES}"):
            self._database.execute(f"PRAGMA {setting}")
        self._numbers = count()

    def new_bucket(self) -> SpilledTexts:
        """An empty table for a bucket."""
        return SpilledTexts(self._database, f"bucket{next(self._numbers)}")


class SpilledTexts:
    """The texts of a bucket by page, those of one page in order of insertion."""

    def __init__(self, database: Connection, table: str) -> None:
        self._database = database
        self._count = count()
        self._insert = f"INSERT INTO {table} VALUES (?, ?, ?, ?)"
        self._read = f"SELECT closed, body FROM {table} WHERE place BETWEEN ? AND ? ORDER BY place"
        self._delete = f"DELETE FROM {table} WHERE place BETWEEN ? AND ?"
        self._old = f"SELECT place / {_NUMBERS} AS page FROM {table} GROUP BY page HAVING min(until) < ?"
        self._drop = f"DROP TABLE IF EXISTS {table}"
        database.execute(f"CREATE TABLE {table} (place INTEGER PRIMARY KEY, until INTEGER, closed INTEGER, body BLOB)")

    def read(self, page: int) -> Sequence[tuple[Micros, bytes]]:
        """`closed` and `body` of the texts of a page."""
        return self._database.execute(self._read, _key_range(page)).fetchall()

    def replace(self, removed_pages: Iterable[int], texts: Iterable[SpilledText]) -> None:
        """Remove all texts of some pages, then add texts, at most one to a page."""
        number = next(self._count)
        self._database.execute("BEGIN")
        self._database.executemany(self._delete, map(_key_range, removed_pages))
        self._database.executemany(self._insert, [(page * _NUMBERS + number, *text) for page, *text in texts])
        self._database.execute("COMMIT")

    def pages_with_expired(self, oldest: Micros) -> Sequence[int]:
        """The pages with a text whose events are all older than a time."""
        return [page for (page,) in self._database.execute(self._old, (oldest,))]

    def drop(self) -> None:
        """Drop the table."""
        self._database.execute(self._drop)


def _key_range(page: int) -> tuple[int, int]:
    return page * _NUMBERS, (page + 1) * _NUMBERS - 1
