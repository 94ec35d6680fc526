"""Command `dotr plan`: show what a restart on Spark would keep."""

from __future__ import annotations

import argparse

from dotr.commands.common import Commands, add_config
from dotr.errors.terminal import print_stdout


def add_parser(commands: Commands) -> None:
    """Add the command to those of the command line."""
    add_config(commands.add_parser("plan", help="show what a restart on Spark would keep of each rule's state, lose, or refuse"))


def execute(options: argparse.Namespace) -> int:
    """Print the plan; returns the exit code."""
    from dotr.commands.plan.text import plan
    from dotr.runtimes.pipeline.build import build
    from dotr.runtimes.pipeline.config import read_config

    print_stdout("\n".join(plan(build(read_config(options.config, options.options), fresh=False, on_spark=True, wait=False))))
    return 0
