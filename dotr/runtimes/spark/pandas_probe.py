"""Arrow's search for pandas, answered in the workers of a JVM that dotr has started.

Arrow imports pandas when it makes its first array of Python values, only to see whether one of them
is pandas'. That is 0.4 s of CPU a worker, and workers of dotr have no such values.
"""

from __future__ import annotations

import sys
from importlib.machinery import ModuleSpec
from typing import Final

OWN_WORKERS: Final[list[bool]] = []
"""Not empty in workers that dotr's daemon has forked: no other code runs in these."""

_PANDAS: Final = "pandas"


class _NoPandas:
    """A finder of modules by which there is no pandas."""

    def find_spec(self, name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        """Raise ModuleNotFoundError for pandas; leave other modules to other finders."""
        if name == _PANDAS:
            raise ModuleNotFoundError("dotr's workers need no pandas", name=name)
        return None


def answer_probe() -> None:
    """Let Arrow find no pandas, in dotr's own workers; elsewhere nothing is done."""
    if not OWN_WORKERS or _PANDAS in sys.modules:
        return
    import pyarrow as pa

    finder = _NoPandas()
    sys.meta_path.insert(0, finder)
    try:
        pa.array([0])  # Arrow looks once, and remembers
    finally:
        sys.meta_path.remove(finder)
