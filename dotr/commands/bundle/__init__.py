"""Command `dotr bundle`: write the files that spark-submit runs."""

from __future__ import annotations

import argparse

from dotr.commands.common import Commands
from dotr.errors.terminal import print_stdout


def add_parser(commands: Commands) -> None:
    """Add the command to those of the command line."""
    bundle = commands.add_parser("bundle", help="write dotr.zip and run_dotr.py, which spark-submit runs")
    bundle.add_argument("folder", nargs="?", default=".", metavar="DIR", help="where to (default: here)")


def execute(options: argparse.Namespace) -> int:
    """Write the files and print their paths; returns the exit code."""
    from dotr.commands.bundle.archive import bundle

    archive, script = bundle(options.folder)
    print_stdout(f"{archive}\n{script}")
    return 0
