"""Words of LARS files: keywords and labels."""

from __future__ import annotations

from typing import Final

from dotr.syntax.scan import RESERVED

STATEMENTS: Final = ("RESOLUTION", "STREAM", "BACKGROUND", "REPORT")
CONDITIONS: Final = ("FILTER", "BIND", "NOT")
REACHES: Final = ("ALWAYS", "AT", "SINCE", "IN")
REFUSED: Final = ("AGGREGATE", "EXISTS", "SKOLEM")
KEYWORDS: Final = frozenset(
    (
        *STATEMENTS,
        *CONDITIONS,
        *REACHES,
        *REFUSED,
        *("PREFIX", "BASE", "CLOSED", "ASSERTED", "NEW", "ENDED", "ALL", "AS", "LAST", "MATCHING", "PER", "EVENT"),
    )
)
TERMS: Final = ("true", "false", "a")
"""Words that are terms, and therefore no labels."""


def is_label(word: str) -> bool:
    """True of a word that may name a relation or a report.

    >>> is_label("Busy"), is_label("since"), is_label("Within"), is_label("false")
    (True, False, False, False)
    """
    return word.upper() not in KEYWORDS and word.lower() not in RESERVED and word not in TERMS
