"""Command `dotr explain`: show how each rule will run."""

from __future__ import annotations

import argparse

from dotr.commands.common import Commands
from dotr.errors.terminal import print_stdout


def add_parser(commands: Commands) -> None:
    """Add the command to those of the command line."""
    explain = commands.add_parser("explain", help="show how each rule will run")
    explain.add_argument("path", metavar="PATH", help="a rule file (.dotr) or a configuration (.yaml)")
    explain.add_argument("--format", choices=("text", "mermaid", "svg"), default="text", help="text (default), or a drawing")


def execute(options: argparse.Namespace) -> int:
    """Print the explanation; returns the exit code."""
    from dotr.commands.explain.text import explain

    print_stdout(explain(options.path, options.format))
    return 0
