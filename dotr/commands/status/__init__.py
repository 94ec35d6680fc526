"""Command `dotr status`: show the progress of the run of a checkpoint."""

from __future__ import annotations

import argparse

from dotr.commands.common import Commands
from dotr.errors.terminal import print_stdout


def add_parser(commands: Commands) -> None:
    """Add the command to those of the command line."""
    status = commands.add_parser("status", help="show how far the run of a checkpoint on Spark came, also while it goes on")
    status.add_argument("checkpoint", metavar="CHECKPOINT", help="the folder that the configuration names as spark.checkpoint")
    status.add_argument("--format", choices=("text", "json"), default="text", help="text (default), or one JSON object")
    status.add_argument("--quick", action="store_true", help="from the checkpoint's own files alone: do not start Spark to read its state")


def execute(options: argparse.Namespace) -> int:
    """Print the progress; returns the exit code."""
    from dotr.commands.status.text import status

    print_stdout(status(options.checkpoint, options.format, quick=options.quick))
    return 0
