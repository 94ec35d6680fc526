"""Command `dotr new`: write a small project."""

from __future__ import annotations

import argparse

from dotr.commands.common import Commands
from dotr.errors.terminal import print_stderr, print_stdout


def add_parser(commands: Commands) -> None:
    """Add the command to those of the command line."""
    new = commands.add_parser("new", help="write a small working project: configuration, rule, knowledge, data, a test")
    new.add_argument("folder", metavar="DIR", help="a folder that is empty or not there yet")
    new.add_argument("--from", dest="export", metavar="FILE", help="a file of your own (CSV, JSON, Parquet, text), which the project reads")


def execute(options: argparse.Namespace) -> int:
    """Write the project and print its files; returns the exit code."""
    from dotr.commands.new.project import new_project

    paths, sentences = new_project(options.folder, options.export)
    for path in paths:
        print_stdout(path)
    if sentences:
        print_stderr("\n".join(sentences))
    print_stderr(f"A project that works. Next: cd {options.folder}; dotr run config.yaml; dotr test tests; dotr check .")
    print_stderr("Rules for twenty usual questions, to copy from: docs/recipes.md.")
    return 0
