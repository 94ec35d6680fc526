"""Starts of Spark sessions in turn: over all processes of a test run at most two sessions start at a time.

A JVM that starts keeps more than a core busy, and Spark gives the Python processes of a session that runs beside it ten seconds to start.
"""

from __future__ import annotations

import fcntl
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Final

import pytest

AT_ONCE: Final = 2


@contextmanager
def turn(folder: Path) -> Iterator[None]:
    """One of two turns, of which a process holds it while the context is open; waits for one. The processes have `folder` in common."""
    with ExitStack() as opened:
        files = [opened.enter_context((folder / f"spark-starts-{number}").open("w")) for number in range(AT_ONCE)]
        while True:
            for file in files:
                with suppress(BlockingIOError):
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    yield
                    return
            time.sleep(0.05)


def start_in_turn(folder: Path, patch: pytest.MonkeyPatch) -> None:
    """Let each session that this process starts from now on wait for its turn."""
    from pyspark import SparkContext

    start = SparkContext.__init__

    def start_in_turn(context: SparkContext, *arguments: object, **named: object) -> None:
        with turn(folder):
            start(context, *arguments, **named)  # type: ignore[arg-type]

    patch.setattr(SparkContext, "__init__", start_in_turn)
