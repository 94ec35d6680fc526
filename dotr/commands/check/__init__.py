"""Command `dotr check`: parse and check files."""

from __future__ import annotations

import argparse
from typing import Final

from dotr.commands.common import Commands, add_set, count_noun, positive
from dotr.errors.diagnostics import Severity
from dotr.errors.terminal import print_stderr, print_stdout

_RECORDS: Final = 10_000
"""Records of each input that `--data` reads where no number is given."""


def add_parser(commands: Commands) -> None:
    """Add the command to those of the command line."""
    check = commands.add_parser("check", help="parse and check rules, Datalog, configurations and rule tests")
    check.add_argument("paths", nargs="*", metavar="PATH", help=".dotr, .rspql, .lars, .epsparql, .dlog, .yaml, or a folder")
    check.add_argument(
        "--data", nargs="?", const=str(_RECORDS), metavar="N", help=f"check the first N records of each input too; {_RECORDS:,} if no N"
    )
    add_set(check)
    check.add_argument("--strict", action="store_true", help="warnings end with 2 as errors do")
    check.set_defaults(usage=check.format_usage)


def execute(options: argparse.Namespace) -> int:
    """Print all problems; returns the exit code."""
    from dotr.commands.check.problems import check

    try:
        data, paths = _data_and_paths(options)
    except argparse.ArgumentTypeError as error:
        print_stderr(f"{options.usage()}dotr check: error: {error}")
        return 2
    result = check(paths, data, options.options)
    for diagnostic in result.diagnostics:
        print_stderr(f"{diagnostic}\n")
    errors = sum(d.severity is Severity.ERROR for d in result.diagnostics)
    warnings = len(result.diagnostics) - errors
    for state in () if errors else result.states:
        print_stdout(str(state))
    for line in result.inputs:
        print_stdout(line)
    left_out = (
        f" ({count_noun(result.skipped_count, 'YAML file')} neither configuration nor rule test, left out)" if result.skipped_count else ""
    )
    accepted = f" ({result.accepted_count} accepted)" if result.accepted_count else ""
    checked = f"{count_noun(result.file_count, 'file')} checked{left_out}"
    print_stderr(f"{checked}: {count_noun(errors, 'error')}, {count_noun(warnings, 'warning')}{accepted}.")
    return 2 if errors or (options.strict and warnings) else 0


def _data_and_paths(options: argparse.Namespace) -> tuple[int | None, list[str]]:
    """The number of records to check, None without `--data`, and the paths.

    The number may be left out, so a path behind `--data` is one of the paths. Raises
    `argparse.ArgumentTypeError` where the number is wrong, or there is no path.
    """
    data: str | None = options.data
    paths: list[str] = options.paths
    number: int | None = None
    if data is not None:
        if data.lstrip("+-").isdecimal():
            number = positive(data)
        else:
            number, paths = _RECORDS, [data, *paths]
    if not paths:
        raise argparse.ArgumentTypeError("the following arguments are required: PATH")
    return number, paths
