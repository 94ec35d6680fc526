"""Suppression of Arrow's import of pandas, in the workers of a JVM that dotr has started.

Arrow imports pandas when it makes its first array of Python values, to test whether one of them is
of a type of pandas. This takes 0.4 s of CPU a worker, and workers of dotr have no such values.
"""

from __future__ import annotations

import sys
from importlib.machinery import ModuleSpec
from typing import Final

OWN_WORKERS: Final[list[bool]] = []
"""Not empty in workers that dotr's daemon has forked: no other code runs in these."""

_PANDAS: Final = "pandas"


class _NoPandas:
    """A module finder that reports pandas as missing."""

    def find_spec(self, name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        """Raise ModuleNotFoundError for pandas; leave other modules to other finders."""
        if name == _PANDAS:
            raise ModuleNotFoundError("dotr's workers need no pandas", name=name)
        return None


def suppress_pandas_probe() -> None:
    """Make Arrow's import of pandas fail, in dotr's own workers only."""
    if not OWN_WORKERS or _PANDAS in sys.modules:
        return
    import pyarrow as pa

    finder = _NoPandas()
    sys.meta_path.insert(0, finder)
    try:
        pa.array([0])  # Arrow tries the import once, and caches the result
    finally:
        sys.meta_path.remove(finder)
