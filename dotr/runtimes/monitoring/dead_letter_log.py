"""Warnings of dead letters, inconsistent instants and fallbacks during a run, limited per kind."""

from __future__ import annotations

import logging
import re
from collections import Counter
from collections.abc import Iterable
from typing import Final

from dotr.errors.diagnostics import Diagnostic, Severity
from dotr.errors.fallbacks import Fallback
from dotr.errors.terminal import escape_line
from dotr.evaluation.expressions.values.times import format_time
from dotr.model.stream import DeadLetter, Reason
from dotr.model.time import Clock, Micros
from dotr.streams.time_formats import RepeatedHour

LOG: Final = logging.getLogger("dotr")

WARNINGS_PER_KIND: Final = 3

_EQUALITY_ROW: Final = re.compile("(?:^|: )(dt-diff|eq-diff[123]): ")
_DATA_PROPERTY: Final = re.compile(r'(<[^>]*>) "')
"""The predicate of the first premise of a contradiction whose object is a literal."""


class WarningLimiter:
    """Logger of the first warnings of each kind; one more warning states that others are only
    counted.

    `limit` is the number of dead letters logged for each input and reason (0: none).
    """

    def __init__(self, limit: int = WARNINGS_PER_KIND) -> None:
        self.limit = limit
        self._seen: Counter[tuple[str, Reason]] = Counter()
        self._inconsistent = 0
        self._equalities: set[tuple[str, str]] = set()
        self._fallbacks: set[tuple[object, str]] = set()
        self._repeated: set[str] = set()

    def report_dead_letter(self, dead_letter: DeadLetter) -> None:
        """Log a dead letter, unless the limit of its input and reason is reached."""
        kind = dead_letter.input, dead_letter.reason
        self._seen[kind] += 1
        if self._seen[kind] <= self.limit:
            LOG.warning(
                "%s:%d: dead letter (%s): %s", dead_letter.file, dead_letter.line, dead_letter.reason.value, escape_line(dead_letter.why)
            )
        elif self.limit and self._seen[kind] == self.limit + 1:
            LOG.warning("%s: more dead letters (%s) follow and are only counted here", dead_letter.input, dead_letter.reason.value)

    def report_ahead(self, file: str, line: int, time: Micros, clock: Clock) -> None:
        """Log the first element whose time (µs since 1970) is far ahead of the machine's (I137)."""
        message = f"{file}:{line}: the time {format_time(time, clock)} is more than a day ahead of the machine's"
        hint = "It is taken, and its instant waits. Is the sender's clock right, or time.unit, or time_zone?"
        LOG.warning("%s", Diagnostic("I137", message, None, hint, Severity.WARNING))

    def report_fallback(self, fallback: Fallback) -> None:
        """Log the first fallback of each kind and place (C401)."""
        kind = fallback.kind, fallback.place
        if kind not in self._fallbacks and not fallback.kind.is_reported_at_once:
            self._fallbacks.add(kind)
            hint = "The results are right and took longer; further ones are only counted (fallbacks)."
            hint += " Please report it with this line." if fallback.kind.is_fault else ""
            LOG.warning("%s", Diagnostic("C401", str(fallback), None, hint, Severity.WARNING))

    def report_repeated_hours(self, found: Iterable[RepeatedHour]) -> None:
        """Log the first time of each file that goes back within an hour that its zone has twice."""
        for each in sorted(found, key=lambda each: (each.file, each.line)):
            if each.file not in self._repeated:
                self._repeated.add(each.file)
                LOG.warning("%s", each.warning())

    def report_inconsistency(self, time: Micros, contradiction: str, clock: Clock) -> None:
        """Log an inconsistent instant that is processed nevertheless (K402).

        `time` is in µs since 1970, `contradiction` is a text, `clock` is the pipeline's. Of eq-diff
        and dt-diff, the first of each row and property is logged, beyond the limit too.
        """
        row = _EQUALITY_ROW.search(contradiction)
        if row is not None:
            data = _DATA_PROPERTY.search(contradiction)
            kind = row[1], data[1] if data is not None else ""
            if kind not in self._equalities:
                self._equalities.add(kind)
                message = f"the instant {format_time(time, clock)} is inconsistent ({contradiction})"
                hint = "Its facts are those of what was derived; others by this row and property are only counted here."
                LOG.warning("%s", Diagnostic("K402", message, None, hint, Severity.WARNING))
            return
        self._inconsistent += 1
        if self._inconsistent <= WARNINGS_PER_KIND:
            message = f"the instant {format_time(time, clock)} is inconsistent ({contradiction})"
            hint = "Its facts are those of what was derived; `knowledge.inconsistent: reject` makes such instants dead letters."
            LOG.warning("%s", Diagnostic("K402", message, None, hint if self._inconsistent == 1 else "", Severity.WARNING))
        elif self._inconsistent == WARNINGS_PER_KIND + 1:
            LOG.warning("more inconsistent instants follow and are only counted here")
