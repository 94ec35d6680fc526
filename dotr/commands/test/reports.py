"""Reports on a run of rule tests: text and JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from dotr.commands.test.run import Outcome


@dataclass(frozen=True, slots=True)
class Counts:
    """Numbers of cases that passed, failed and were updated, and of files that could not be run.

    >>> str(Counts(9, 1, 0)), Counts(9, 1, 0).exit_code
    ('9 passed, 1 failed', 1)
    """

    passed: int
    failed: int
    unread: int
    updated: int = 0

    def __str__(self) -> str:
        updated = f", {self.updated} updated" if self.updated else ""
        return f"{self.passed} passed, {self.failed} failed{updated}" + (f", {self.unread} could not be run" if self.unread else "")

    @property
    def exit_code(self) -> int:
        """0: all passed; 1: a case failed; 2: a file could not be run."""
        return 2 if self.unread else 1 if self.failed else 0


def counts(outcomes: Sequence[Outcome]) -> Counts:
    """Count the outcomes of a run."""
    unread = sum(bool(each.problems) for each in outcomes)
    failed = sum(bool(each.findings) for each in outcomes)
    changed = sum(each.updated for each in outcomes)
    return Counts(len(outcomes) - unread - failed - changed, failed, unread, changed)


def outcome_text(outcome: Outcome) -> str:
    """Lines on a case: whether it passed, what differs and why, and remarks.

    >>> print(outcome_text(Outcome("t.yaml", "stuffy", 20, notes=("no query takes anything of this stream",))))
    ok     t.yaml: stuffy
           note: no query takes anything of this stream
    """
    notes = [f"       note: {note}" for note in outcome.notes]
    if outcome.findings:
        return "\n".join([f"FAILED {outcome.place}: {outcome.case}", outcome.difference, *notes, ""])
    state = "update" if outcome.updated else "ok    "
    return "\n".join([f"{state} {outcome.file}: {outcome.case}", *notes])


def json_report(outcomes: Sequence[Outcome]) -> dict[str, object]:
    """Report as plain data for JSON."""
    total = counts(outcomes)
    return {
        "passed": total.passed,
        "failed": total.failed,
        "updated": total.updated,
        "unread": total.unread,
        "cases": [
            {
                "file": each.file,
                "line": each.line,
                "case": each.case,
                "passed": not each.findings,
                "updated": each.updated,
                "seconds": round(each.seconds, 6),
                "notes": list(each.notes),
                "findings": [
                    {"kind": finding.kind.value, "text": finding.text, "explanation": finding.explanation} for finding in each.findings
                ],
            }
            for each in outcomes
            if not each.problems
        ],
        "problems": [{"file": each.file, "text": str(problem)} for each in outcomes for problem in each.problems],
    }


def json_text(report: dict[str, object]) -> str:
    """Report on one line."""
    return json.dumps(report, ensure_ascii=False)
