"""The command line where tasks index bounded inputs of any size, in short ranges: `python -m tests.support.indexed_run run CONFIG`."""

from __future__ import annotations

import sys

from dotr.commands import main
from dotr.runtimes.spark.planning import index_scans

if __name__ == "__main__":
    setattr(index_scans, "INDEXED_BYTES", 0)  # noqa: B010 - a constant for all others
    setattr(index_scans, "FIRST_RANGE", 40 * 512)  # noqa: B010
    sys.exit(main())
