"""Telling the user of dead letters and contradictions while a run goes on: the first few of each kind, with the reason in words."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Sequence
from typing import Final

from dotr.datalog.inconsistencies import Inconsistency
from dotr.engine.program import CompiledProgram
from dotr.engine.stage_one import InstantFacts
from dotr.errors.diagnostics import Diagnostic, Severity
from dotr.errors.fallbacks import Fallback
from dotr.errors.terminal import escape_line
from dotr.expressions.times import format_time
from dotr.model.stream import DeadLetter, Reason
from dotr.model.time import Clock, Micros

LOG: Final = logging.getLogger("dotr")

WARNINGS_PER_KIND: Final = 3


class WarningLimiter:
    """Logs the first dead letters of each input and reason, so many (0: none), and the first contradictions, and says once that there are
    more."""

    def __init__(self, most: int = WARNINGS_PER_KIND) -> None:
        self._most = most
        self._seen: Counter[tuple[str, Reason]] = Counter()
        self._inconsistent = 0
        self._fallbacks: set[tuple[object, str]] = set()

    def dead_letter(self, letter: DeadLetter) -> None:
        """Take note of a dead letter."""
        kind = letter.input, letter.reason
        self._seen[kind] += 1
        if self._seen[kind] <= self._most:
            LOG.warning("%s:%d: dead letter (%s): %s", letter.file, letter.line, letter.reason.value, escape_line(letter.why))
        elif self._most and self._seen[kind] == self._most + 1:
            LOG.warning("%s: more dead letters (%s) follow and are only counted here", letter.input, letter.reason.value)

    def fallback(self, found: Fallback) -> None:
        """Take note of a fallback: of those of one kind and place a user is told once."""
        kind = found.kind, found.place
        if kind not in self._fallbacks and not found.kind.is_reported_at_once:
            self._fallbacks.add(kind)
            hint = "The results are right and took longer; further ones are only counted (fallbacks)."
            hint += " Please report it with this line." if found.kind.is_fault else ""
            LOG.warning("%s", Diagnostic("C401", str(found), None, hint, Severity.WARNING))

    def inconsistent(self, time: Micros, clash: str, clock: Clock) -> None:
        """Take note of an instant that contradicts itself or the background, and that counts all the same."""
        self._inconsistent += 1
        if self._inconsistent <= WARNINGS_PER_KIND:
            message = f"the instant {format_time(time, clock)} is inconsistent ({clash})"
            hint = "Its facts are those of what was derived; `knowledge.inconsistent: reject` makes such instants dead letters."
            LOG.warning("%s", Diagnostic("K402", message, None, hint if self._inconsistent == 1 else "", Severity.WARNING))
        elif self._inconsistent == WARNINGS_PER_KIND + 1:
            LOG.warning("more inconsistent instants follow and are only counted here")


def rejection_reason(asked: InstantFacts, program: CompiledProgram) -> tuple[Reason, str]:
    """Why the elements of a rejected instant are dead letters."""
    if asked.exceeded:
        rules = program.readers(asked.over)
        what = f"the query {program.asked_as(asked.over)} of rule {', '.join(rules)}" if rules else "the closure"
        return Reason.LIMIT, f"its instant goes over a limit: {asked.exceeded} in {what}"
    return Reason.INCONSISTENT, f"its instant is inconsistent ({inconsistency_line(asked.inconsistencies)})"


def inconsistency_line(found: Sequence[Inconsistency]) -> str:
    """The first contradiction of an instant, and how many more there are.

    >>> clashing([Inconsistency("prp-irp", ()), Inconsistency("cax-dw", ()), Inconsistency("cax-dw", ())])
    'prp-irp: a rule without a body; and 2 more'
    """
    return f"{found[0]}; and {len(found) - 1} more" if len(found) > 1 else str(found[0])
