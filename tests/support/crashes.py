"""A run on Spark that is aborted in the middle and restarted, compared with a run in this process."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from dotr.runtimes.local.run import run_local
from dotr.runtimes.monitoring.totals import Totals
from dotr.runtimes.pipeline.build import build
from dotr.runtimes.pipeline.config import read_config


def lines_after_a_crash(folder: Path, config: str, stream: list[tuple[int, str]], after: int) -> tuple[list[str], Totals]:
    """The output lines of a run on Spark that is aborted after `after` elements and started again, and the totals of a run in this process.

    Asserts that both runs have the same output, and that the second start reads only a part of the input. `config`: a configuration with
    `{out}` for the output; its input is `in.ndjson`, which is written from the stream.
    """
    from dotr.runtimes.spark.run import run_spark

    (folder / "in.ndjson").write_text("".join(json.dumps({"time": at, "graph": text}) + "\n" for at, text in stream))

    def path_of(out: str) -> str:
        path = folder / f"{out}.yaml"
        path.write_text(config.format(out=out))
        return str(path)

    def on_spark(report: Callable[[Totals], None]) -> Totals:
        return run_spark(build(read_config(path_of("out")), fresh=False, on_spark=True), report)

    here = run_local(build(read_config(path_of("local")), fresh=False, on_spark=False), lambda totals: None)

    def crash(totals: Totals) -> None:
        if totals.elements > after:
            raise ZeroDivisionError("enough")

    with pytest.raises(Exception, match="enough"):
        on_spark(crash)
    there = on_spark(lambda totals: None)
    written = "".join(file.read_text() for file in sorted((folder / "out").glob("*.ndjson")))
    assert written == (folder / "local").read_text()
    assert there.elements < here.elements
    return written.splitlines(), here
