"""What a restart would do: `dotr plan` reads the checkpoint and changes nothing."""

from __future__ import annotations

from dotr.engine.change import Fate
from dotr.expressions.times import written
from dotr.model.time import LAST_MICRO
from dotr.runtimes.pipeline import Pipeline
from dotr.runtimes.spark.checkpoint import Checkpoint, wanted_layout


def plan(pipeline: Pipeline) -> list[str]:
    """Line by line, what becomes of the state of each rule; raises `Refused` where a restart would be refused."""
    checkpoint = Checkpoint(pipeline.spark.checkpoint)
    if checkpoint.layout is None:
        return [f"There is no checkpoint {checkpoint.folder} yet: all rules start empty."]
    found = checkpoint.examine(wanted_layout(pipeline), pipeline.program)
    position = checkpoint.position()
    if position is None:
        return [f"Nothing has been processed yet in the checkpoint {checkpoint.folder}: all rules start empty."]
    where = "the end of the stream" if position.time == LAST_MICRO else written(position.time, pipeline.clock)
    learns = [] if found.learns is None else [found.learns]
    lines = [f"The checkpoint {checkpoint.folder} has come to {where}.", *learns, *map(str, found.verdicts)]
    kept = sum(verdict.fate is Fate.KEPT for verdict in found.verdicts)
    if not found.moves:
        return [*lines, "The run goes on as it is."]
    layers = len(found.before.keys), len(found.after.keys)
    needs = f"The program needs another layout ({layers[1]} stateful operators, not {layers[0]}). " if layers[0] != layers[1] else ""
    return [*lines, f"{needs}The state of {kept} of {len(found.after.rules)} rules moves to a new folder in the checkpoint."]
