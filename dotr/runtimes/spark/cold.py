"""What a worker remembers of state and has no room for: a temporary database of its own, which is gone when the worker is.

Spark's store holds all state as logs, in the order of time. What is here is in the order of keys, so that a page of keys is read for
itself; it is made of the logs and never needed to make them. SQLite keeps it in a few megabytes and the rest in an unnamed file.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from contextlib import suppress
from itertools import count
from typing import Final

from dotr.model.time import Micros

_KIBIBYTES: Final = 16_384


class Cold:
    """Texts by bucket and page; those of one page in the order in which they came."""

    def __init__(self) -> None:
        import sqlite3  # only where it is needed: there are builds of Python without it

        places = os.environ.get("SPARK_LOCAL_DIRS", "").split(",")
        with suppress(OSError):
            if places[0] and os.access(places[0], os.W_OK):
                os.environ.setdefault("SQLITE_TMPDIR", places[0])
        self._database = sqlite3.connect("", isolation_level=None)
        for setting in ("journal_mode = OFF", "synchronous = OFF", f"cache_size = -{_KIBIBYTES}"):
            self._database.execute(f"PRAGMA {setting}")
        self._database.execute("CREATE TABLE text (bucket INTEGER, page INTEGER, until INTEGER, body BLOB)")
        self._database.execute("CREATE INDEX place ON text (bucket, page)")
        self._numbers = count()

    def bucket(self) -> int:
        """The number of a bucket that nothing is known of."""
        return next(self._numbers)

    def put(self, bucket: int, texts: Iterable[tuple[int, Micros, bytes]]) -> None:
        """Adds texts, each with its page and the latest time in it."""
        self._database.execute("BEGIN")
        self._database.executemany("INSERT INTO text VALUES (?, ?, ?, ?)", [(bucket, page, until, body) for page, until, body in texts])
        self._database.execute("COMMIT")

    def take(self, bucket: int, page: int) -> Sequence[bytes]:
        """The texts of a page, which are not here any more."""
        where = "WHERE bucket = ? AND page = ?"
        found = self._database.execute(f"SELECT body FROM text {where} ORDER BY rowid", (bucket, page)).fetchall()
        if found:
            self._database.execute(f"DELETE FROM text {where}", (bucket, page))
        return [body for (body,) in found]

    def expire(self, bucket: int, horizon: Micros) -> Sequence[bytes]:
        """Forgets the texts in which nothing is as late as a time; which they were."""
        where = "WHERE bucket = ? AND until < ?"
        found = self._database.execute(f"SELECT body FROM text {where}", (bucket, horizon)).fetchall()
        if found:
            self._database.execute(f"DELETE FROM text {where}", (bucket, horizon))
        return [body for (body,) in found]

    def forget(self, bucket: int) -> None:
        """All of a bucket."""
        self._database.execute("DELETE FROM text WHERE bucket = ?", (bucket,))
