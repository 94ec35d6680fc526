"""Command `dotr reload`: let a run go on with its rules and background as they are now."""

from __future__ import annotations

import argparse

from dotr.commands.common import Commands, add_set
from dotr.errors.terminal import print_stderr, print_stdout


def add_parser(commands: Commands) -> None:
    """Add the command to those of the command line."""
    reload = commands.add_parser(
        "reload", help="let a run on this machine go on with rules, background, prefixes, limits and report as they are now"
    )
    reload.add_argument("run", metavar="CONFIG|CHECKPOINT", help="the configuration of the run, or the folder of its checkpoint")
    add_set(reload, "the options of the run, where they name its outputs")


def execute(options: argparse.Namespace) -> int:
    """Print the answer of the run; returns the exit code: 1 where none runs, 2 where it refuses."""
    from pathlib import Path

    from dotr.evaluation.files.stores import Location
    from dotr.runtimes.pipeline.config import read_config
    from dotr.runtimes.pipeline.output_files import Target
    from dotr.runtimes.pipeline.outputs import targets_of
    from dotr.runtimes.pipeline.reloading import request_reload

    if Path(options.run).suffix in (".yaml", ".yml") or Path(options.run).is_file():
        targets = targets_of(read_config(options.run, options.options))
    else:
        targets = (Target("checkpoint", str(Location.of(options.run)), checkpoint=True),)
    answer = request_reload(targets)
    if answer is None:
        print_stderr(f"No run of {options.run} is going on: a run reads its rules when it starts (dotr run).")
        return 1
    is_done, text = answer
    (print_stdout if is_done else print_stderr)(text)
    return 0 if is_done else 2
