"""Limits of time of tests, on machines with other work."""

from __future__ import annotations

import os
from typing import Final

PATIENCE: Final = 600.0
"""Seconds for which a test waits for what takes some on a quiet machine: so that it ends, never the property."""


def on_this_machine(seconds: float) -> float:
    """A limit that holds on a quiet machine, times the processes of the last minute that shared a core."""
    return seconds * max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1))
