"""Reports on a run of rule tests: text and JSON."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final
from xml.etree import ElementTree

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


# Reports on a run of rule tests in the XML of JUnit, as servers of continuous integration read
# it.

_NOT_IN_XML: Final = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that an XML 1.0 document may not contain (section 2.2)."""


def junit_report(outcomes: Sequence[Outcome]) -> bytes:
    """Report in the XML of JUnit: a suite for each file, a test case for each case.

    A file that cannot be run is a test case with an error.

    >>> print(junit_report([Outcome("t.yaml", "stuffy", 20)]).decode())
    <?xml version='1.0' encoding='utf-8'?>
    <testsuites tests="1" failures="0" errors="0" time="0.000000">
      <testsuite name="t.yaml" tests="1" failures="0" errors="0" skipped="0" time="0.000000">
        <testcase classname="t.yaml" name="stuffy" file="t.yaml" line="20" time="0.000000" />
      </testsuite>
    </testsuites>
    """
    root = ElementTree.Element("testsuites", _totals(outcomes))
    for file, cases in _by_file(outcomes):
        suite = ElementTree.SubElement(root, "testsuite", {"name": _xml(file)} | _totals(cases, {"skipped": "0"}))
        for case in cases:
            suite.append(_test_case(case))
    ElementTree.indent(root)
    text: bytes = ElementTree.tostring(root, encoding="utf-8", xml_declaration=True)
    return text


def _totals(outcomes: Sequence[Outcome], further: dict[str, str] | None = None) -> dict[str, str]:
    total = counts(outcomes)
    numbers = {"tests": str(len(outcomes)), "failures": str(total.failed), "errors": str(total.unread)}
    return numbers | (further or {}) | {"time": f"{sum(each.seconds for each in outcomes):.6f}"}


def _by_file(outcomes: Sequence[Outcome]) -> Iterator[tuple[str, list[Outcome]]]:
    files: dict[str, list[Outcome]] = {}
    for outcome in outcomes:
        files.setdefault(outcome.file, []).append(outcome)
    yield from files.items()


def _test_case(outcome: Outcome) -> ElementTree.Element:
    place = {"file": outcome.file, "line": str(outcome.line)} if outcome.line else {"file": outcome.file}
    attributes = {"classname": outcome.file, "name": outcome.case or outcome.file, **place, "time": f"{outcome.seconds:.6f}"}
    case = ElementTree.Element("testcase", {name: _xml(value) for name, value in attributes.items()})
    if outcome.problems:
        error = ElementTree.SubElement(case, "error", {"message": _xml(outcome.problems[0].message), "type": outcome.problems[0].code})
        error.text = _xml("\n\n".join(map(str, outcome.problems)))
    elif outcome.findings:
        first = outcome.findings[0]
        message = _xml(first.text.splitlines()[0].strip())
        failure = ElementTree.SubElement(case, "failure", {"message": message, "type": first.kind.value})
        failure.text = _xml(f"{outcome.place}: {outcome.case}\n{outcome.difference}")
    if outcome.notes:
        ElementTree.SubElement(case, "system-out").text = _xml("\n".join(f"note: {note}" for note in outcome.notes))
    return case


def _xml(text: str) -> str:
    r"""Text without the characters that XML excludes.

    >>> _xml("a\x00b\ud800")
    'a\\u0000b\\uD800'
    """
    return _NOT_IN_XML.sub(lambda found: f"\\u{ord(found[0]):04X}", text)
