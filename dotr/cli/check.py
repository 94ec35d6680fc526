"""Command `dotr check`: parse and check files."""

from __future__ import annotations

import argparse

from dotr.cli.common import Commands, count_noun
from dotr.errors.diagnostics import Severity
from dotr.errors.terminal import print_stderr, print_stdout


def add_parser(commands: Commands) -> None:
    """Add the command to those of the command line."""
    check = commands.add_parser("check", help="parse and check rules, Datalog, configurations and rule tests")
    check.add_argument("paths", nargs="+", metavar="PATH", help=".dotr, .dlog, .yaml, or a folder of them")
    check.add_argument("--strict", action="store_true", help="warnings end with 2 as errors do")


def execute(options: argparse.Namespace) -> int:
    """Print all problems; returns the exit code."""
    from dotr.workbench.check import check

    result = check(options.paths)
    for diagnostic in result.diagnostics:
        print_stderr(f"{diagnostic}\n")
    errors = sum(d.severity is Severity.ERROR for d in result.diagnostics)
    warnings = len(result.diagnostics) - errors
    for state in () if errors else result.states:
        print_stdout(str(state))
    left_out = (
        f" ({count_noun(result.skipped_count, 'YAML file')} neither configuration nor rule test, left out)" if result.skipped_count else ""
    )
    accepted = f" ({result.accepted_count} accepted)" if result.accepted_count else ""
    checked = f"{count_noun(result.file_count, 'file')} checked{left_out}"
    print_stderr(f"{checked}: {count_noun(errors, 'error')}, {count_noun(warnings, 'warning')}{accepted}.")
    return 2 if errors or (options.strict and warnings) else 0
