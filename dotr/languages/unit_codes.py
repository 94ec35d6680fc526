"""Codes of errors and warnings of units of several languages; a code is never reused."""

from __future__ import annotations

from enum import StrEnum


class UnitCode(StrEnum):
    """Code of one error or warning of labels, streams and cycles; docs/errors.md explains each."""

    LABEL_OF_UNIT = "D222"
    UNREADABLE_LABEL = "D223"  # warning
    UNKNOWN_STREAM = "D224"
    NO_GRAPHS = "D225"
    CYCLE_OF_UNITS = "D404"
