"""Command `dotr test`: run rule tests."""

from __future__ import annotations

import argparse

from dotr.cli.common import Commands
from dotr.errors.fallbacks import drain_fallbacks
from dotr.errors.terminal import print_stderr, print_stdout


def add_parser(commands: Commands) -> None:
    """Add the command to those of the command line."""
    test = commands.add_parser("test", help="run rule tests")
    test.add_argument("paths", nargs="+", metavar="PATH", help="a rule test (.yaml), or a folder of them")


def execute(options: argparse.Namespace) -> int:
    """Run the tests and print their results; returns the exit code."""
    from dotr.workbench.rule_tests import run_tests

    passed = failed = unread = 0
    for outcome in run_tests(options.paths):
        if outcome.problems:
            unread += 1
            print_stderr("\n\n".join(map(str, outcome.problems)) + "\n")
        elif outcome.difference:
            failed += 1
            print_stdout(f"FAILED {outcome.place}: {outcome.case}\n{outcome.difference}\n")
        else:
            passed += 1
            print_stdout(f"ok     {outcome.file}: {outcome.case}")
        for note in outcome.notes:
            print_stdout(f"       note: {note}")
    for found in drain_fallbacks():
        print_stderr(f"warning: {found}\n")
    print_stdout(f"{passed} passed, {failed} failed" + (f", {unread} could not be run" if unread else ""))
    return 2 if unread else 1 if failed else 0
