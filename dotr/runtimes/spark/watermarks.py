"""Watermarks of growing inputs: a small file beside the checkpoint's, written by the planner's
process.

An offset has the end of a batch only; the records scanned beyond it show which input delays the
others.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from dotr.model.time import Micros

NAME: Final = "inputs.json"
_NEW: Final = "inputs.new"

EVERY_SECONDS: Final = 1.0


def write_watermarks(folder: Path, found: Sequence[tuple[str, Micros, bool]]) -> None:
    """Write name, watermark (µs) and whether it has ended of each input; errors of writing are
    ignored."""
    with suppress(OSError):
        (folder / _NEW).write_text(json.dumps(found))
        (folder / _NEW).replace(folder / NAME)


def read_watermarks(folder: Path) -> list[tuple[str, Micros, bool]]:
    """The watermarks written last; empty where there are none."""
    try:
        return [(str(name), int(watermark), bool(ended)) for name, watermark, ended in json.loads((folder / NAME).read_bytes())]
    except (OSError, ValueError, TypeError):
        return []
