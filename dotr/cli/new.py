"""Command `dotr new`: write a small project."""

from __future__ import annotations

import argparse

from dotr.cli.common import Commands
from dotr.errors.terminal import print_stderr, print_stdout


def add_parser(commands: Commands) -> None:
    """Add the command to those of the command line."""
    new = commands.add_parser("new", help="write a small working project: configuration, rule, knowledge, data, a test")
    new.add_argument("folder", metavar="DIR", help="a folder that is empty or not there yet")


def execute(options: argparse.Namespace) -> int:
    """Write the project and print its files; returns the exit code."""
    from dotr.workbench.new import new_project

    for path in new_project(options.folder):
        print_stdout(path)
    print_stderr(f"A project that works. Next: cd {options.folder}; dotr run config.yaml; dotr test tests; dotr check .")
    return 0
