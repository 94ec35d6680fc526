"""What a worker remembers of state and has no room for: a temporary database of its own, which is gone when the worker is.

Spark's store holds all state as logs, in the order of time. What is here is in the order of keys, so that a page of keys is read for
itself; it is made of the logs and never needed to make them. SQLite keeps it in a few megabytes and the rest in an unnamed file.
Texts are only ever added to a page, and stand beside each other: a table's rows are in the order of its primary key.
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
"""Bytes that are read at once: the texts of some neighbours."""

_NUMBERS: Final = 1 << 40
"""Texts that may ever come to a page."""


class SpilledText(NamedTuple):
    """Some of what a page holds, as `parts.write_part` makes it. Nothing in it is later than `until`. Of it, and of the page's texts before
    it, nothing is held any more that was too old when all up to `closed` was closed."""

    page: int
    until: Micros
    closed: Micros
    body: bytes


class SpillDatabase:
    """The database."""

    def __init__(self) -> None:
        import sqlite3  # only where it is needed: there are builds of Python without it

        places = os.environ.get("SPARK_LOCAL_DIRS", "").split(",")
        with suppress(OSError):
            if places[0] and os.access(places[0], os.W_OK):
                os.environ.setdefault("SQLITE_TMPDIR", places[0])
        self._database = sqlite3.connect("", isolation_level=None)
        for setting in ("journal_mode = OFF", "synchronous = OFF", f"page_size = {_BLOCK}", f"cache_size = -{_KIBIBYTES}"):
            self._database.execute(f"PRAGMA {setting}")
        self._numbers = count()

    def new_bucket(self) -> SpilledTexts:
        """Those of a bucket that nothing is known of."""
        return SpilledTexts(self._database, f"bucket{next(self._numbers)}")


class SpilledTexts:
    """A bucket's texts by page; those of one page in the order in which they came."""

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
        """Of the texts of a page, `closed` and `body`."""
        return self._database.execute(self._read, _key_range(page)).fetchall()

    def replace(self, gone: Iterable[int], new: Iterable[SpilledText]) -> None:
        """Removes all texts of some pages; then adds some, one to a page at most."""
        number = next(self._count)
        self._database.execute("BEGIN")
        self._database.executemany(self._delete, map(_key_range, gone))
        self._database.executemany(self._insert, [(page * _NUMBERS + number, *text) for page, *text in new])
        self._database.execute("COMMIT")

    def pages_with_expired(self, horizon: Micros) -> Sequence[int]:
        """The pages of which a text holds nothing as late as a time."""
        return [page for (page,) in self._database.execute(self._old, (horizon,))]

    def drop(self) -> None:
        """All of them, for good."""
        self._database.execute(self._drop)


def _key_range(page: int) -> tuple[int, int]:
    return page * _NUMBERS, (page + 1) * _NUMBERS - 1
