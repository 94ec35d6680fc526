"""Watermarks of growing inputs: a small file beside the checkpoint's, written by the planner's
process.

An offset has the end of a batch only; the records scanned beyond it show which input delays the
others.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from dotr.evaluation.files.private_files import replace_file
from dotr.model.time import Micros

NAME: Final = "inputs.json"

EVERY_SECONDS: Final = 1.0


def write_watermarks(folder: Path, found: Sequence[tuple[str, Micros, bool]], connections: Mapping[str, bool] | None = None) -> None:
    """Write the inputs `found`, each as its name, its watermark (µs) and True if it has ended, and
    the `connections` by name, True if the broker answers. Errors of writing are ignored."""
    written: list[object] = [*found, dict(connections)] if connections else [*found]
    with suppress(OSError):
        replace_file(folder / NAME, [json.dumps(written).encode()])


def read_watermarks(folder: Path) -> list[tuple[str, Micros, bool]]:
    """The watermarks written last; empty where there are none."""
    try:
        written = json.loads((folder / NAME).read_bytes())
        return [(str(each[0]), int(each[1]), bool(each[2])) for each in written if isinstance(each, list)]
    except (OSError, ValueError, TypeError, IndexError):
        return []


def read_connections(folder: Path) -> dict[str, bool]:
    """The connections by name as written last: True if the broker of the input answered."""
    try:
        written = json.loads((folder / NAME).read_bytes())
        return {str(name): bool(value) for each in written if isinstance(each, dict) for name, value in each.items()}
    except (OSError, ValueError, TypeError):
        return {}
