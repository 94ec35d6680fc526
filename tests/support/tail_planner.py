"""The planner of files that go on, without Spark, to be killed: `python -m tests.support.tail_planner FOLDER`."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

from dotr.model.places import Document
from dotr.runtimes.spark.exchange.job import Job
from dotr.runtimes.spark.exchange.positions import Offset
from dotr.runtimes.spark.planning.live_planner import GrowingInputs
from dotr.streams.merge.folders import TAILED
from dotr.streams.records import ElementMap, Format, InputFile

LIKE = InputFile("in", "", Format.CSV, map=ElementMap("t", Document("map", "[] <http://e/v> {v} .")))
SETTLE = 0.3


def main(folder: str) -> None:
    """Scan and copy until killed."""
    growing = json.dumps([f"{TAILED}{folder}/in/app*", int(SETTLE * 1_000_000), 0, True])
    run = str(Path(folder, "checkpoint", "query"))
    inputs = GrowingInputs(Job("{}", (LIKE.to_json(),), (0,), "s", False, 0, 1, 1, 10_000, 1, run, growing=(growing,)), Offset.start(1))
    while True:
        inputs.add_appeared()
        if not inputs.plan.scan():
            time.sleep(0.01)


if __name__ == "__main__":
    main(*sys.argv[1:])
