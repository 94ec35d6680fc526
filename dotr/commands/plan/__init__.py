"""Command `dotr plan`: show the effects of a restart on Spark on a checkpoint's state."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from dotr.commands.common import Commands, add_config
from dotr.errors.terminal import print_stdout

if TYPE_CHECKING:
    from dotr.runtimes.pipeline.build import Pipeline


def add_parser(commands: Commands) -> None:
    """Add the command to those of the command line."""
    add_config(commands.add_parser("plan", help="show what a restart on Spark would keep of each rule's state, lose, or refuse"))


def execute(options: argparse.Namespace) -> int:
    """Print the plan; returns the exit code."""
    from dotr.runtimes.pipeline.build import build
    from dotr.runtimes.pipeline.config import read_config

    print_stdout("\n".join(plan(build(read_config(options.config, options.options), fresh=False, on_spark=True, wait=False))))
    return 0


def plan(pipeline: Pipeline) -> list[str]:
    """Lines with the fate of the state of each rule and unit; raises `Refused` where a restart
    would be refused."""
    from dotr.engine.state.migration import StateFate
    from dotr.engine.state.schema import renamed_rules
    from dotr.evaluation.expressions.values.times import format_time
    from dotr.model.time import LAST_MICRO
    from dotr.runtimes.spark.checkpoint.bucket_count import buckets_at_start, buckets_line, cores_of_master
    from dotr.runtimes.spark.checkpoint.folder import Checkpoint, required_layout
    from dotr.runtimes.spark.exchange.positions import BEGINNING

    checkpoint = Checkpoint(pipeline.spark.checkpoint)
    every = "rules and queries" if pipeline.program.units else "rules"
    if checkpoint.layout is None:
        return [f"There is no checkpoint {checkpoint.home} yet: all {every} start empty."]
    checkpoint.check()
    required, kept = required_layout(pipeline), checkpoint.layout.layers
    found = checkpoint.preview(required, pipeline.program)
    position = checkpoint.offset()
    if position is None or position.time == BEGINNING:
        return [f"No instant has closed yet in the checkpoint {checkpoint.home}: all {every} start empty."]
    where = "the end of the stream" if position.time == LAST_MICRO else format_time(position.time, pipeline.clock)
    knowledge = [] if found.knowledge_warning is None else [found.knowledge_warning]
    renamed = [
        f"{name} means what {old} meant: under its old name it keeps its state."
        for name, old in renamed_rules(pipeline.program, found.before).items()
    ]
    lines = [f"The checkpoint {checkpoint.home} has come to {where}.", *knowledge, *map(str, found.verdicts), *renamed]
    settings, buckets = pipeline.spark, checkpoint.layout.buckets
    if (
        kept
        and required.layers
        and not required.tables
        and (line := buckets_line(buckets, cores := cores_of_master(settings.master, settings.conf), settings.buckets))
    ):
        lines.append(line)
        if not found.moves and buckets_at_start(buckets, cores, settings.buckets) != buckets:
            return lines
    if not found.moves:
        return [*lines, "The run goes on as it is."]
    needs = f"The program needs another layout ({_operators(required.layers)}, not {kept or 'none'}). " if kept != required.layers else ""
    kept_state = sum(verdict.fate in (StateFate.KEPT, StateFate.PARTLY) for verdict in found.verdicts), len(found.after.states)
    if not required.layers:
        moves = (
            "Its rules keep no state: nothing moves, and the stored state is dropped."
            if kept
            else "No rule keeps any state: nothing moves."
        )
    elif not kept:
        moves = "The rules before it kept no state: nothing moves."
    else:
        moves = f"The state of {kept_state[0]} of {kept_state[1]} {every} moves to a new folder in the checkpoint."
    return [*lines, needs + moves]


def _operators(number: int) -> str:
    """
    >>> _operators(0), _operators(1), _operators(2)
    ('no stateful operator', '1 stateful operator', '2 stateful operators')
    """
    return f"{number or 'no'} stateful operator{'s' if number > 1 else ''}"
