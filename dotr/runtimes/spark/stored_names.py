"""Names that Spark keeps in a checkpoint: those of the state's variables and of their columns, and of the column that keys them.

State is looked for under them: they stay what they are, whatever the code calls things.
"""

from __future__ import annotations

from typing import Final

SOURCE: Final = "dotr"
"""The format of the source."""

KEY: Final = "key"
"""The column of the key of a bucket."""

BUCKET: Final = "bucket"
"""A value: the digest, and what is written of a bucket."""
DIGEST: Final = "digest"
WRITTEN: Final = "written"
BUCKET_VALUE: Final = f"{DIGEST} binary, {WRITTEN} binary"

LOG: Final = "log"
"""A map: the pieces of a bucket's logs, by log and place."""
LOG_NUMBER: Final = "log"
PLACE: Final = "place"
LINES: Final = "lines"
LOG_KEY: Final = f"{LOG_NUMBER} int, {PLACE} long"
LOG_VALUE: Final = f"{LINES} binary"
