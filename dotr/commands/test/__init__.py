"""Command `dotr test`: run rule tests."""

from __future__ import annotations

import argparse
import glob
import os
import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeAlias

from dotr.commands.common import Commands
from dotr.errors.diagnostics import Refused, refuse
from dotr.errors.fallbacks import drain_fallbacks
from dotr.errors.terminal import print_stderr, print_stdout

if TYPE_CHECKING:
    from dotr.commands.test.cases import LoadedTest
    from dotr.commands.test.coverage import Coverage
    from dotr.commands.test.reports import Outcome


def add_parser(commands: Commands) -> None:
    """Add the command to those of the command line."""
    test = commands.add_parser("test", help="run rule tests")
    test.add_argument("paths", nargs="+", metavar="PATH", help="a rule test (.yaml), or a folder of them")
    test.add_argument("--filter", type=_pattern, metavar="REGEX", help="run the cases alone in whose names REGEX finds something")
    test.add_argument("--fail-fast", action="store_true", help="stop after the first case that fails")
    test.add_argument("--junit", metavar="FILE", help="write a report in the XML of JUnit, too")
    test.add_argument("--format", choices=("text", "json"), default="text", help="text (default), or one JSON object a run")
    test.add_argument("--coverage", action="store_true", help="tell what of the rules the cases never try, and the percentage they try")
    test.add_argument("--min", type=_percentage, metavar="PERCENT", help="end with 1 below this coverage; implies --coverage")
    again = test.add_mutually_exclusive_group()
    again.add_argument("--watch", action="store_true", help="run again when a file of the tests changes, until Ctrl-C")
    again.add_argument(
        "--update", action="store_true", help="rewrite the expectations of cases that fail, from their output; show what changes"
    )


def _pattern(text: str) -> re.Pattern[str]:
    try:
        return re.compile(text)
    except re.error as error:
        raise argparse.ArgumentTypeError(f"{text} is no regular expression: {error}") from None


def _percentage(text: str) -> int:
    if not text.isascii() or not text.isdecimal() or int(text) > 100:
        raise argparse.ArgumentTypeError(f"{text} is no percentage: write a whole number from 0 to 100")
    return int(text)


def execute(options: argparse.Namespace) -> int:
    """Run the tests and print their results; returns the exit code."""
    run = _TestRuns(options)
    if not options.watch:
        return run.once()
    while True:
        at_start = file_states(options.paths, run.named_files)
        try:
            run.once()
        except Refused as refused:
            print_stderr("\n\n".join(map(str, refused.diagnostics)) + "\n")
        before = {**file_states(options.paths, run.named_files), **at_start}  # so that changes during a run are detected after it
        print_stderr("Waiting for a change (Ctrl-C ends).")
        changed = wait_for_change(lambda: file_states(options.paths, run.named_files), before)
        print_stderr(f"Changed: {', '.join(changed)}")


class _TestRuns:
    """Runs of the tests that the command line names.

    `named_files`: the files that the tests name; of a test that can no longer be read, those that
    it named last."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self._named: dict[str, list[str]] = {}

    @property
    def named_files(self) -> list[str]:
        return [file for files in self._named.values() for file in files]

    def once(self) -> int:
        """Run the tests once; returns the exit code."""
        from dotr.commands.test.reports import counts, json_report, json_text

        options = self.options
        coverage = None
        if options.coverage or options.min is not None:
            from dotr.commands.test.coverage import Coverage

            coverage = Coverage()
        outcomes = self._outcomes(coverage)
        if options.filter is not None and not outcomes:
            raise refuse("C218", f"{options.filter.pattern} is found in no case's name", None, "Leave --filter out to see the names.")
        for found in drain_fallbacks():
            print_stderr(f"warning: {found}\n")
        total = counts(outcomes)
        report = json_report(outcomes)
        code = total.exit_code
        if coverage is not None:
            report["coverage"] = coverage.report()
            if options.format == "text":
                print_stdout("\n".join(coverage.lines()))
            if options.min is not None and coverage.percent < options.min:
                print_stderr(f"The coverage is less than {options.min} % (--min).")
                code = max(code, 1)
        print_stdout(json_text(report) if options.format == "json" else str(total))
        if options.junit is not None:
            from dotr.commands.test.reports import junit_report

            with open(options.junit, "wb") as file:
                file.write(junit_report(outcomes))
        return code

    def _outcomes(self, coverage: Coverage | None) -> list[Outcome]:
        """The outcomes of the selected cases, each printed at once; their coverage is added to
        `coverage`."""
        from dotr.commands.test.reports import Outcome, load_tests, outcome_text, run_case, selected

        outcomes: list[Outcome] = []
        for test in load_tests(self.options.paths, update=self.options.update):
            if isinstance(test, Outcome):
                outcomes.append(test)
                print_stderr("\n\n".join(map(str, test.problems)) + "\n")
                continue
            self._named[test.file.path] = list(test.file.named_files())
            current = test
            for number in selected(test, self.options.filter):
                outcome = run_case(current, number)
                if outcome.findings and self.options.update:
                    current, outcome = self._updated(current, number, outcome)
                outcomes.append(outcome)
                if coverage is not None and not outcome.is_broken:
                    coverage.add(current, number)
                if self.options.format == "text":
                    print_stdout(outcome_text(outcome))
                if outcome.findings and self.options.fail_fast:
                    break
            if current is not test:
                self._write_update(test, current)
            if self.options.fail_fast and any(outcome.findings for outcome in outcomes):
                break
        return outcomes

    def _updated(self, test: LoadedTest, number: int, outcome: Outcome) -> tuple[LoadedTest, Outcome]:
        """The test with a case's expectations rewritten if possible, and the case's outcome."""
        from dotr.commands.test.updates import updated

        after = updated(test, number)
        if after is None:
            return test, replace(outcome, notes=(*outcome.notes, "its expectations cannot be rewritten in place"))
        return after, replace(outcome, findings=(), updated=True)

    def _write_update(self, before: LoadedTest, after: LoadedTest) -> None:
        """Rewrite a test file and print the diff."""
        from dotr.commands.test.updates import write_update

        difference = write_update(before.file.tree.document, after.file.tree.document)
        (print_stdout if self.options.format == "text" else print_stderr)(difference)


# Watching the files of rule tests for changes, by polling.

POLL_SECONDS: Final = 0.3
"""Seconds between two polls of the files."""

FileStates: TypeAlias = Mapping[str, tuple[int, int] | None]
"""Change time (ns) and size (bytes) of each file; None: it is missing."""


def file_states(paths: Sequence[str], named: Iterable[str]) -> FileStates:
    """States of the files that tests depend on.

    Args:
        paths: rule tests, and folders of them.
        named: paths and globs that the tests name.
    """
    files: dict[str, None] = {}
    for path in paths:
        if os.path.isdir(path):
            files |= dict.fromkeys(sorted(str(file) for kind in ("*.yaml", "*.yml") for file in Path(path).rglob(kind)))
        else:
            files |= dict.fromkeys(_files_of(path))
    for pattern in named:
        files |= dict.fromkeys(_files_of(pattern))
    return {file: _state(file) for file in files}


def _files_of(pattern: str) -> list[str]:
    from dotr.runtimes.pipeline.config import glob_files

    return glob_files(pattern) if glob.has_magic(pattern) and not os.path.exists(pattern) else [pattern]


def _state(file: str) -> tuple[int, int] | None:
    try:
        status = os.stat(file)
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size


def wait_for_change(states: Callable[[], FileStates], before: FileStates, sleep: Callable[[float], None] = time.sleep) -> list[str]:
    """Wait until files are changed, created or deleted; returns their paths.

    >>> looks = iter([{"a": (1, 1)}, {"a": (2, 1), "b": (1, 1)}])
    >>> wait_for_change(lambda: next(looks), {"a": (1, 1)}, sleep=lambda seconds: None)
    ['a', 'b']
    """
    while True:
        sleep(POLL_SECONDS)
        now = states()
        changed = [file for file in {**before, **now} if before.get(file, ()) != now.get(file, ())]
        if changed:
            return changed
