"""Reports on a run of rule tests: text and JSON."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator, Sequence
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Final

from dotr.commands.test.cases import CaseRun, LoadedTest, load_test
from dotr.commands.test.difference import Discrepancy
from dotr.commands.test.files import is_test
from dotr.errors.diagnostics import Diagnostic, Refused, refuse
from dotr.languages.programs import warnings_with_form
from dotr.model import dataclass
from dotr.runtimes.pipeline.config import matching_files, read_document
from dotr.syntax.yaml import read_tree

if TYPE_CHECKING:
    from xml.etree import ElementTree

# Rule tests: files are found, their cases run, and the outcomes explained (interface.md, A rule
# test).


class FindingKind(Enum):
    """Kind of a finding in a failed case."""

    ERROR = "error"
    LEFT_OUT = "left out"
    MISSING = "missing"
    ADDITIONAL = "additional"
    DIFFERENT = "different"


@dataclass(frozen=True, slots=True)
class Finding:
    """A finding in a failed case: its text, and the reason of a missing or additional event."""

    kind: FindingKind
    text: str
    explanation: str = ""

    def __str__(self) -> str:
        return "\n".join([self.text, *(f"    {line}" for line in self.explanation.splitlines())])


@dataclass(frozen=True, slots=True)
class Outcome:
    """Outcome of a case.

    - `file`, `case`: the path of the test and the name of the case.
    - `line`: where the case begins in the file, from 1 on.
    - `findings`: none where the case passed.
    - `notes`: remarks on a case, passed or not.
    - `problems`: those of a file that cannot be run; it has no case.
    - `seconds`: the time that the case took.
    - `updated`: its expectations have been rewritten from its output.
    """

    file: str
    case: str = ""
    line: int = 0
    findings: tuple[Finding, ...] = ()
    notes: tuple[str, ...] = ()
    problems: tuple[Diagnostic, ...] = ()
    seconds: float = 0.0
    updated: bool = False

    @property
    def difference(self) -> str:
        """Text of all findings; empty where the case passed."""
        return "\n".join(map(str, self.findings))

    @property
    def is_broken(self) -> bool:
        """True where a query, a rule or an element fails."""
        return any(each.kind is FindingKind.ERROR for each in self.findings)

    @property
    def place(self) -> str:
        """Place of the case, as in messages of compilers.

        >>> Outcome("tests/comfort.yaml", "stuffy", 20).place
        'tests/comfort.yaml:20'
        """
        return f"{self.file}:{self.line}" if self.line else self.file


def load_tests(paths: Sequence[str], *, update: bool = False) -> Iterator[LoadedTest | Outcome]:
    """The tests in these files, or in all YAML files with `cases` below these folders; for a file
    that cannot be run an outcome with its problems. `update`: as in `load_test`."""
    for path in paths:
        try:
            files = rule_test_paths(path)
        except Refused as refused:
            yield Outcome(path, problems=refused.diagnostics)
            continue
        for file in files:
            try:
                loaded = load_test(file, update=update)
            except Refused as refused:
                yield Outcome(file, problems=refused.diagnostics)
                continue
            yield loaded


def rule_test_paths(path: str) -> list[str]:
    """The rule tests that a path names; raises `Refused` where there is none."""
    if not Path(path).is_dir():
        return matching_files(path, None, "Is the path right? Relative paths are relative to the working directory.")
    tests = []
    for file in sorted(str(f) for kind in ("*.yaml", "*.yml") for f in Path(path).rglob(kind)):
        try:
            if is_test(read_tree(read_document(file)).data):
                tests.append(file)
        except Refused:
            tests.append(file)  # reported when the file is run
    if not tests:
        raise refuse("C301", f"there is no rule test below {path}", None, "A rule test is a .yaml file with `cases`.")
    return tests


def selected(test: LoadedTest, pattern: re.Pattern[str] | None) -> list[int]:
    """The numbers, from 0 on, of the cases whose names match a pattern somewhere; None: of all."""
    return [number for number, case in enumerate(test.cases) if pattern is None or pattern.search(case.name)]


def run_case(test: LoadedTest, number: int) -> Outcome:
    """Run a case, by its number from 0 on."""
    case = test.cases[number]
    started = time.perf_counter()
    result = test.run(number)
    notes = list(case.notes)
    if case.facts is None and not result.broken and (not result.has_answers or test.has_static_answers):
        from dotr.commands.test.reasons import unanswered_stream_note

        notes += unanswered_stream_note(test.program, case, test.static_facts, test.file.expected_prefixes)
    if case.clock.dated and not result.passed:
        notes += [str(each) for each in warnings_with_form(test.program.spec, test.program.warnings, dated=True) if each.dated]
    findings = () if result.passed else tuple(_findings(test, number, result))
    return Outcome(test.file.path, case.name, case.line, findings, tuple(notes), seconds=time.perf_counter() - started)


def _findings(test: LoadedTest, number: int, result: CaseRun) -> Iterator[Finding]:
    yield from (Finding(FindingKind.ERROR, line) for line in result.broken)
    yield from (Finding(FindingKind.LEFT_OUT, line) for line in result.left_out)
    if result.outputs:
        from dotr.commands.test.reasons import FailureReasons

        reasons = FailureReasons(test, number)
        for each in result.outputs:
            yield Finding(_kind(each), each.text, "" if result.broken else reasons.of(each))
    yield from (Finding(_kind(each), each.text) for each in result.facts)


def _kind(discrepancy: Discrepancy) -> FindingKind:
    if discrepancy.expected is None:
        return FindingKind.ADDITIONAL
    return FindingKind.MISSING if discrepancy.actual is None else FindingKind.DIFFERENT


def run_tests(paths: Sequence[str], pattern: re.Pattern[str] | None = None) -> Iterator[Outcome]:
    """Run the cases of the tests that paths name; with a pattern, those whose names match it."""
    for test in load_tests(paths):
        if isinstance(test, Outcome):
            yield test
        else:
            for number in selected(test, pattern):
                yield run_case(test, number)


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
    from xml.etree import ElementTree

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
    from xml.etree import ElementTree

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
