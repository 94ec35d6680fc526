"""Watching the files of rule tests for changes, by polling."""

from __future__ import annotations

import glob
import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final, TypeAlias

from dotr.runtimes.pipeline.config import glob_files

POLL_SECONDS: Final = 0.3
"""Seconds between two polls of the files."""

FileStates: TypeAlias = Mapping[str, tuple[int, int] | None]
"""Change time (ns) and size (bytes) of each file; None: it is missing."""


def file_states(paths: Sequence[str], named: Iterable[str]) -> FileStates:
    """States of the files that tests depend on.

    Args:
        paths: rule tests, and folders of them.
        named: paths and globs that the tests name.
    """
    files: dict[str, None] = {}
    for path in paths:
        if os.path.isdir(path):
            files |= dict.fromkeys(sorted(str(file) for kind in ("*.yaml", "*.yml") for file in Path(path).rglob(kind)))
        else:
            files |= dict.fromkeys(_files_of(path))
    for pattern in named:
        files |= dict.fromkeys(_files_of(pattern))
    return {file: _state(file) for file in files}


def _files_of(pattern: str) -> list[str]:
    return glob_files(pattern) if glob.has_magic(pattern) and not os.path.exists(pattern) else [pattern]


def _state(file: str) -> tuple[int, int] | None:
    try:
        status = os.stat(file)
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size


def wait_for_change(states: Callable[[], FileStates], before: FileStates, sleep: Callable[[float], None] = time.sleep) -> list[str]:
    """Wait until files are changed, created or deleted; returns their paths.

    >>> looks = iter([{"a": (1, 1)}, {"a": (2, 1), "b": (1, 1)}])
    >>> wait_for_change(lambda: next(looks), {"a": (1, 1)}, sleep=lambda seconds: None)
    ['a', 'b']
    """
    while True:
        sleep(POLL_SECONDS)
        now = states()
        changed = [file for file in {**before, **now} if before.get(file, ()) != now.get(file, ())]
        if changed:
            return changed
