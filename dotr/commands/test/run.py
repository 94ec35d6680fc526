"""Rule tests: files are found, their cases run, and the outcomes explained (interface.md, A rule
test)."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from dotr.commands.test.cases import CaseRun, LoadedTest, load_test
from dotr.commands.test.difference import Discrepancy
from dotr.commands.test.files import is_test
from dotr.errors.diagnostics import Diagnostic, Refused, refuse
from dotr.languages.programs import warnings_with_form
from dotr.runtimes.pipeline.config import matching_files, read_document
from dotr.syntax.yaml import read_tree


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
