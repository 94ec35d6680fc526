"""How far the planner of growing inputs has read ahead: a small file beside the checkpoint's, since the planner is a process of its own.

An offset says where a batch ends; an input that nothing closes for, or that holds up the others, shows in what was read beyond it.
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
    """For each input its name, its watermark and whether it has ended; what cannot be written is left out."""
    with suppress(OSError):
        (folder / _NEW).write_text(json.dumps(found))
        (folder / _NEW).replace(folder / NAME)


def read_watermarks(folder: Path) -> list[tuple[str, Micros, bool]]:
    """What was written last; nothing where there is nothing to be read."""
    try:
        return [(str(name), int(watermark), bool(ended)) for name, watermark, ended in json.loads((folder / NAME).read_bytes())]
    except (OSError, ValueError, TypeError):
        return []
