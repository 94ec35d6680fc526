"""Limits on the work of an instant, in counts instead of seconds, so that every runtime exceeds
them at the same instant.

Idea: joins add up the items that their inner loops are about to visit, and compare the sum with a
bound below which no limit can be exceeded. Only above it `next_check` compares rows and probes with
the limits.
Cost: one addition and one comparison for each inner loop.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from threading import local
from typing import Any, Final, TypeAlias

from dotr.errors.fallbacks import ExpectedError
from dotr.model import dataclass
from dotr.model.terms import Term

# Limits on computed terms: the length of one, the bytes of all, and the digits of numbers.
#
# Idea: the limits of texts are `limits.literal` and `limits.text` of the running program and are
# thread-local: stage one sets them for each instant, stage two for each step, a unit for each
# point or report. The background is closed under limits of its own, since its conclusions are
# shared by programs with other limits. Digits have a fixed limit, since the time of arithmetic and
# conversion grows with the square of their number.
#
# A computed text over `limits.literal` is an error of the expression. Computed terms (those that
# BIND, SELECT, GROUP BY, GROUP_CONCAT and the assignments of rules make, and triple terms of
# templates) are counted in bytes of their text as UTF-8, each time that one is computed; over
# `limits.text` the count raises `LimitExceeded`. Numbers, times and truth values are counted only
# above `SHORT` bytes.
# Cost: 150 ns an instant, 50 ns a call of a function that computes text, and 120 ns a computed term.

LONGEST_TEXT: Final = 1 << 20
"""The default limit of characters of a computed literal."""

MOST_TEXT: Final = 64 << 20
"""The default limit of the bytes of the computed terms of an instant."""

MOST_TEXT_OF_BACKGROUND: Final = 16 * MOST_TEXT
"""The limit of the bytes of the terms that are computed while a background is closed."""

MOST_PATTERNS: Final = 4 << 20
"""The limit of the bytes of the patterns of REGEX and REPLACE that an instant brings, compiled."""

SHORT: Final = 128
"""Bytes up to which a computed number, time or truth value is not counted."""

DIGITS: Final = 20_000
"""The limit of digits of an integer or a decimal, before and after the point together.

A literal with more digits is ill-typed, a computed result an error."""


class LimitExceeded(ExpectedError):
    """An instant, query or record beyond a limit; `limit` is the number exceeded."""

    def __init__(self, limit: int, what: str = "triples") -> None:
        super().__init__(f"more than {limit:,} {what}")
        self.limit = limit


class _Bounds(local):
    """Thread-local limits, which `start` sets.

    `characters`: of a literal that the thread computes. `text`: bytes of the terms that it computes
    from one `start` to the next; `left`: the bytes that are left of them. `patterns`: the
    patterns that were computed or came with the stream since `start`, compiled, by pattern and
    flags (None: an error); `patterns_left`: the bytes that are left for them.
    """

    characters: int = LONGEST_TEXT
    text: int = sys.maxsize
    left: int = sys.maxsize
    patterns_left: int = MOST_PATTERNS

    def __init__(self) -> None:
        self.patterns: dict[tuple[str, str], Any] = {}

    def start(self, characters: int, text: int) -> None:
        """Begins an instant, report or point with the limits of a program."""
        self.characters = characters
        self.text = self.left = text
        if self.patterns:
            self.patterns = {}
            self.patterns_left = MOST_PATTERNS

    def restart(self) -> None:
        """Begins another count under the limits of the last `start`."""
        self.left = self.text

    def lift(self) -> None:
        """Ends the count: what is computed until the next `start` was counted before."""
        self.text = self.left = sys.maxsize


BOUNDS: Final = _Bounds()


def fits(text: str) -> bool:
    """Tests whether a computed literal is within the limit of characters of the thread."""
    return len(text) <= BOUNDS.characters


def counted(term: Term | None) -> Term | None:
    """The computed term, after its bytes are counted. Raises `LimitExceeded`.

    >>> BOUNDS.start(LONGEST_TEXT, 8)
    >>> counted('"été"'), counted(None), BOUNDS.left
    ('"été"', None, 1)
    >>> counted("<e:a>")
    Traceback (most recent call last):
    dotr.evaluation.limits.LimitExceeded: more than 8 bytes of computed terms
    >>> BOUNDS.start(LONGEST_TEXT, MOST_TEXT)
    """
    if term is not None:
        BOUNDS.left = left = BOUNDS.left - (len(term) if term.isascii() else len(term.encode("utf-8", "surrogatepass")))
        if left < 0:
            raise LimitExceeded(BOUNDS.text, "bytes of computed terms")
    return term


def counted_above_short(term: Term | None) -> Term | None:
    """The computed number, time or truth value, after its bytes are counted where they are many."""
    return term if term is None or len(term) <= SHORT else counted(term)


def fits_digits(number: str) -> bool:
    """Tests whether the text of a number is within the limit of digits.

    >>> fits_digits("-" + "7" * DIGITS), fits_digits("7" * DIGITS + "."), fits_digits("." + "0" * DIGITS + "7")
    (True, True, False)
    """
    return len(number) <= DIGITS or len(number) - (number[0] in "+-") - ("." in number) <= DIGITS


LimitCheck: TypeAlias = Callable[[int, Any], int]
"""A function of work and rows so far to the amount of work at which the next check is due. Raises
`LimitExceeded`.
"""


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of one instant, one record and one match.

    `triples`: triples of an instant beyond the background, stated and derived. `rows`: solutions of
    a query at an instant, intermediate ones included. `probes`: triples and solutions that a query
    visits for them, and candidates that one anchor of a rule tries. `matches`: the product of the
    numbers of events that the clauses on a branch of a match have chosen. `literal`: characters of
    a literal that an expression computes. `nesting`: the depth of brackets in a record. `record`:
    bytes of a record, decompressed. `text`: bytes of the terms that are computed at an instant,
    report or point, or by a rule at one anchor. `gap`: ticks, reports or points of a unit between
    two instants.

    >>> Limits(rows=10_000).rows
    10000
    """

    triples: int = 1_000_000
    rows: int = 1_000_000
    probes: int = 20_000_000
    matches: int = 100_000
    literal: int = LONGEST_TEXT
    nesting: int = 64
    record: int = 8 << 20
    text: int = MOST_TEXT
    gap: int = 1_000_000

    @property
    def fingerprint(self) -> list[tuple[str, int]]:
        """The limits that a program's fingerprint covers: the first three, and each other limit
        that differs from its default, since the oldest checkpoints know the first three only.

        >>> Limits(matches=7).fingerprint
        [('matches', 7), ('probes', 20000000), ('rows', 1000000), ('triples', 1000000)]
        """
        original, defaults = ("triples", "rows", "probes"), LIMITS.to_json()
        return sorted((name, value) for name, value in self.to_json().items() if name in original or value != defaults.get(name))

    def to_json(self) -> dict[str, int]:
        """The limits under their written names, which specifications and fingerprints hold; `gap`
        only where it is not the default, as in older releases.

        >>> Limits.from_json(Limits(matches=7).to_json()) == Limits(matches=7)
        True
        """
        return {
            "triples": self.triples,
            "rows": self.rows,
            "probes": self.probes,
            "matches": self.matches,
            "literal": self.literal,
            "nesting": self.nesting,
            "record": self.record,
            **{name: value for name, value in (("text", self.text), ("gap", self.gap)) if value != getattr(LIMITS, name)},
        }

    @staticmethod
    def from_json(data: Mapping[str, int]) -> Limits:
        """The inverse of `to_json`."""
        return Limits(
            triples=data["triples"],
            rows=data["rows"],
            probes=data["probes"],
            matches=data["matches"],
            literal=data["literal"],
            text=data.get("text", LIMITS.text),
            nesting=data["nesting"],
            record=data["record"],
            gap=data.get("gap", LIMITS.gap),
        )

    @property
    def for_background(self) -> Limits:
        """The limits of the one evaluation of a query over the background alone.

        Intermediate rows and probes get 10 and 50 times the limits of an instant. The number of
        answers keeps the limit of an instant, since every instant repeats them.

        >>> Limits().for_background.rows, Limits().for_background.probes
        (10000000, 1000000000)
        """
        return replace(self, rows=10 * self.rows, probes=50 * self.probes)

    @property
    def uncounted_work(self) -> int:
        """The work below which no limit can be exceeded, since each row is at least one probe."""
        return min(self.rows, self.probes)

    def check_rows(self, count: int) -> None:
        """Raises `LimitExceeded` for more rows than the limit.

        >>> Limits(rows=2).check_rows(2)
        >>> Limits(rows=2).check_rows(3)
        Traceback (most recent call last):
        dotr.evaluation.limits.LimitExceeded: more than 2 rows
        """
        if count > self.rows:
            raise LimitExceeded(self.rows, "rows")

    def check_probes(self, count: int) -> None:
        """Raises `LimitExceeded` for more probes than the limit."""
        if count > self.probes:
            raise LimitExceeded(self.probes, "triples and rows looked at")

    def next_check(self, work: int, rows: Sequence[object]) -> int:
        """The `LimitCheck` of one query's rows.

        >>> Limits(rows=10, probes=50).next_check(11, range(4))
        18
        >>> Limits(rows=10, probes=50).next_check(48, range(4))
        50
        """
        self.check_probes(work)
        self.check_rows(len(rows))
        return min(self.probes, work + self.rows - len(rows) + 1)

    def next_check_of_several(self, work: int, rows: Sequence[Sequence[object]]) -> int:
        """The `LimitCheck` of several queries' rows, whose work is counted together."""
        return min([self.next_check(work, each) for each in rows])


LIMITS: Final = Limits()
NO_LIMITS: Final = replace(LIMITS, triples=sys.maxsize, rows=sys.maxsize, probes=sys.maxsize)
