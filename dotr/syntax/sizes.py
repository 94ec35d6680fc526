"""Sizes in bytes, as they are written in a configuration."""

from __future__ import annotations

import re
from typing import Final

_UNITS: Final = {"": 1, "B": 1, "kB": 10**3, "MB": 10**6, "GB": 10**9, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40}
_SIZE: Final = re.compile(r"([0-9]{1,15}) ?([A-Za-z]*)")


def parse_size(value: str | int) -> int:
    """A size in bytes, above 0. Raises ValueError for any other text.

    >>> parse_size("10 GiB"), parse_size("64kB"), parse_size(8)
    (10737418240, 64000, 8)
    """
    found = _SIZE.fullmatch(str(value).strip())
    if found is None or found[2] not in _UNITS or not int(found[1]):
        raise ValueError(f"{value} is no size: write it like 10 GiB or 64 MiB")
    return int(found[1]) * _UNITS[found[2]]
