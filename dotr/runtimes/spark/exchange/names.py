"""Names stored by Spark in a checkpoint: state variables, their columns, and the key column.

State is found by these names: they never change, whatever the names in the code.
"""

from __future__ import annotations

from typing import Final

SOURCE: Final = "dotr"
"""The format name of the source."""

KEY: Final = "key"
"""The column of a bucket's key."""

BUCKET: Final = "bucket"
"""A value: the digest, and the text or manifest of a bucket."""
DIGEST: Final = "digest"
WRITTEN: Final = "written"
BUCKET_VALUE: Final = f"{DIGEST} binary, {WRITTEN} binary"

LOG: Final = "log"
"""A map: the segments of a bucket's logs, by log and position."""
LOG_NUMBER: Final = "log"
PLACE: Final = "place"
LINES: Final = "lines"
LOG_KEY: Final = f"{LOG_NUMBER} int, {PLACE} long"
LOG_VALUE: Final = f"{LINES} binary"
