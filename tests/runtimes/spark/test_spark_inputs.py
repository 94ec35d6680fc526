"""Declared inputs (idle, one_per_instant, rate) on Spark and in process: equal events and dead
letters."""

from __future__ import annotations

import json
import os
import signal
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from dotr.commands import main
from dotr.runtimes.local.run import run_local
from dotr.runtimes.monitoring.totals import Totals
from dotr.runtimes.pipeline.build import Pipeline, build
from dotr.runtimes.pipeline.config import read_config
from tests.runtimes.spark.test_spark_watch import RULES, until

pytestmark = pytest.mark.spark

CONFIG = """
name: declared
prefixes: {{ "": "http://e/" }}
rules: [r.dotr]
input:
  - {{ name: measured, format: ndjson, path: a.ndjson, rate: 6 }}
  - {{ name: single, format: ndjson, path: s.ndjson, one_per_instant: true }}
  - {{ name: sleepy, format: ndjson, path: "{out}.d/*.ndjson", watch: true, settle: 0 s, idle: 1 s, lateness: 1 s }}
output: [{{ path: {out}/out.ndjson }}]
dead_letter: {out}/dead.ndjson
spark: {{ master: "local[2]", checkpoint: {out}/checkpoint }}
"""


def elements(*times: int | None) -> str:
    return "".join((json.dumps({"time": at, "graph": f"[] :v {at} ."}) if at is not None else "broken") + "\n" for at in times)


def read(folder: str, name: str) -> list[dict[str, object]]:
    path = Path(folder, name)
    files = sorted(path.glob("0*")) if path.is_dir() else [path] if path.exists() else []
    return [json.loads(line) for file in files for line in file.read_text().splitlines(keepends=True) if line.endswith("\n")]


def times(out: str) -> list[object]:
    return [event["time"] for event in read(out, "out.ndjson")]


def follow(out: str, run: Callable[[Pipeline], Totals], *, on_spark: bool) -> tuple[list[dict[str, object]], list[tuple[object, ...]]]:
    """A run whose inputs are extended until it is stopped."""
    folder = Path(f"{out}.d")
    folder.mkdir()
    (folder / "0.ndjson").write_text(elements(1))
    Path(f"{out}.yaml").write_text(CONFIG.format(out=out))

    def appears(name: str, *given: int | None) -> None:
        Path("new").write_text(elements(*given))
        Path("new").rename(folder / name)

    def extend_inputs() -> None:
        try:
            until(lambda: 14 in times(out))  # the folder is idle: instants close without it
            appears("1.ndjson", 12, 5, None, 15, 16, 13)
            until(lambda: 16 in times(out))
            appears("2.ndjson", 15, 17)
            until(lambda: 17 in times(out))
        finally:
            os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=extend_inputs)
    thread.start()
    with suppress(KeyboardInterrupt):
        run(build(read_config(f"{out}.yaml"), fresh=False, on_spark=on_spark))
    thread.join()
    letters = [(x["reason"], x["input"], str(x["file"]).partition("/")[2], x["line"], x["time"]) for x in read(out, "dead.ndjson")]
    return read(out, "out.ndjson"), sorted(letters, key=str)


# The run is stopped by an interrupt, which may fall between the opening of a directory and the `with` that closes it, in Python's `glob`.
@pytest.mark.filterwarnings("ignore:unclosed scandir iterator:ResourceWarning")
@pytest.mark.usefixtures("spark")
def test_idle_single_and_rate_limited_inputs_equal_in_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from dotr.runtimes.spark.run import run_spark

    monkeypatch.chdir(tmp_path)
    Path("r.dotr").write_text(RULES)
    Path("a.ndjson").write_text(elements(*range(1, 15)))
    Path("s.ndjson").write_text(elements(2, 3, 3, 7, 6, 7))
    local = follow("local", lambda prepared: run_local(prepared, lambda totals: None), on_spark=False)
    spark = follow("spark", lambda prepared: run_spark(prepared, lambda totals: None), on_spark=True)
    assert spark == local
    assert [letter for letter in spark[1] if letter[1] == "single"] == [
        ("late", "single", "", 5, 6),
        ("second", "single", "", 3, 3),
        ("second", "single", "", 6, 7),
    ]
    assert [letter for letter in spark[1] if letter[1] == "sleepy"] == [
        ("idle", "sleepy", "1.ndjson", 1, 12),
        ("idle", "sleepy", "2.ndjson", 1, 15),
        ("late", "sleepy", "1.ndjson", 2, 5),
        ("late", "sleepy", "1.ndjson", 6, 13),
        ("unreadable", "sleepy", "1.ndjson", 3, None),
    ]
    assert len([file for file in Path("spark/out.ndjson").glob("0*") if '"time": 14,' not in file.read_text()]) > 1  # at 6 a second
    assert main(["plan", "spark.yaml"]) == 0
    output = capsys.readouterr().out
    assert "The checkpoint spark/checkpoint has come to 17.\n" in output
    assert "rule R keeps its state\n" in output
    assert output.endswith("The run goes on as it is.\n")
