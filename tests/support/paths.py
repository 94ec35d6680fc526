"""Folders of the repository that tests read."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

TESTS: Final = Path(__file__).resolve().parents[1]
ROOT: Final = TESTS.parent
DATA: Final = Path(os.environ.get("DOTR_DATA", ROOT.parent / "shared" / "data"))
"""The folder of data sets outside of the repository."""
