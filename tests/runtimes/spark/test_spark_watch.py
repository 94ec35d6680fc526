"""Growing inputs on Spark: a watched folder through a stop and a restart, and standard input."""

from __future__ import annotations

import json
import os
import re
import signal
import threading
import time
from collections.abc import Callable
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path

import pytest

from dotr.commands import main
from dotr.errors.diagnostics import Refused
from dotr.evaluation.expressions.values.times import format_time
from dotr.runtimes.monitoring.totals import Totals
from dotr.runtimes.pipeline.build import build
from dotr.runtimes.pipeline.config import read_config
from dotr.runtimes.spark.figures.status import status_of
from tests.support.interrupted import run_until
from tests.support.patience import PATIENCE

pytestmark = pytest.mark.spark

RULES = """
PREFIX : <http://e/>
rule R define Out = [ [] :x ?x ; :y ?y ] from A = [ SELECT ?x WHERE { ?s :v ?x } ]
and last B = [ SELECT ?y WHERE { ?s :v ?y } ] within 2 s from A with Out.?x = A.?x, Out.?y = B.?y
"""
CONFIG = """
name: watching
prefixes: { "": "http://e/" }
rules: [r.dotr]
input:
  - { name: a, format: ndjson, path: "d/*.ndjson", watch: true, settle: 0 s }
output:
  - { path: out/out.ndjson }
dead_letter: out/dead.ndjson
spark: { master: "local[2]", checkpoint: out/checkpoint, trigger: 1.5 s }
"""


def put(folder: Path, name: str, *times: int | None) -> None:
    """Rename a file of elements into place; None: an unreadable element."""
    lines = [json.dumps({"time": at, "graph": f"[] :v {at} ."}) if at is not None else "broken" for at in times]
    (folder / "new").write_text("\n".join(lines) + "\n")
    (folder / "new").rename(folder / "d" / name)


def read(folder: Path, name: str) -> list[dict[str, object]]:
    return [json.loads(line) for file in sorted((folder / "out" / name).glob("0*")) for line in file.read_text().splitlines()]


def batches(folder: Path) -> list[Path]:
    """Spark's offset log."""
    return list((folder / "out/checkpoint/query/offsets").glob("[0-9]*"))


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.1)


def run(folder: Path, *options: str) -> Totals:
    from dotr.runtimes.spark.run import run_spark

    return run_spark(build(read_config("c.yaml", options), fresh=False, on_spark=True), lambda totals: None)


@pytest.mark.usefixtures("spark")
def test_watched_folder_continues_after_a_restart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "d").mkdir()
    (tmp_path / "r.dotr").write_text(RULES)
    (tmp_path / "c.yaml").write_text(CONFIG)
    put(tmp_path, "a.ndjson", 1, 3, 5)

    def extend_inputs() -> None:
        try:
            time.sleep(1)
            put(tmp_path, "b.ndjson", 2, 4)
            until(lambda: [each["time"] for each in read(tmp_path, "out.ndjson")] == [2, 3])
            with (tmp_path / "d/b.ndjson").open("a") as file:
                file.write(json.dumps({"time": 9, "graph": "[] :v 1 ."}))
            put(tmp_path, "bb.ndjson", None, 9, 6)
            until(lambda: [each["time"] for each in read(tmp_path, "out.ndjson")] == [2, 3, 4, 5])
            until(lambda: "changed" in [each["reason"] for each in read(tmp_path, "dead.ndjson")])
        finally:
            os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=extend_inputs)
    thread.start()
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path)
    thread.join()
    planned = sorted(json.loads(file.read_text().splitlines()[1])["batchTimestampMs"] for file in batches(tmp_path))
    assert len(planned) > 1
    # Spark starts a batch at the first multiple of its trigger (1.5 s) after the start of the last one, or later. On a busy machine one
    # that started before a multiple is planned behind it, as the next one is; the one after that starts behind the following multiple.
    assert all(after // 1_500 > before // 1_500 for before, after in zip(planned, planned[2:], strict=False))
    put(tmp_path, "a.ndjson", 1, 3, 7)  # other bytes
    (tmp_path / "d/b.ndjson").write_text("told already")
    os.utime(tmp_path / "d/bb.ndjson")  # the same bytes
    put(tmp_path, "c.ndjson", 8, 10)
    put(tmp_path, "aa.ndjson", 12)  # first by name, though it appears last
    run(tmp_path, "input.0.watch=false")
    assert [each["time"] for each in read(tmp_path, "out.ndjson")] == [2, 3, 4, 5]
    letters = {(each["reason"], each["file"], each["line"], each["time"]) for each in read(tmp_path, "dead.ndjson")}
    assert letters == {
        ("unreadable", "d/bb.ndjson", 1, None),
        ("late", "d/bb.ndjson", 3, 6),
        ("late", "d/c.ndjson", 1, 8),
        ("late", "d/c.ndjson", 2, 10),
        ("changed", "d/a.ndjson", 1, None),
        ("changed", "d/b.ndjson", 1, None),
    }
    assert len(read(tmp_path, "dead.ndjson")) == 6
    with pytest.raises(Refused, match="S106"):
        run(tmp_path)


TIMERS = """
PREFIX : <http://e/>
rule Left define Left = [ [] :x ?x ] from A = [ SELECT ?x WHERE { ?s :v ?x } ] delayed by 3 s with Left.?x = A.?x
rule Hourly define Hourly = [ [] :x 1 ] from every 1 h as T
"""


@pytest.mark.usefixtures("spark")
def test_clock_goes_on_while_no_file_appears(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A delayed anchor fires in silence, and no batch is made where nothing is due."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "d").mkdir()
    (tmp_path / "r.dotr").write_text(TIMERS)
    (tmp_path / "c.yaml").write_text(CONFIG.replace("trigger: 1.5 s", "trigger: 0.1 s") + "clock: 1 s\ntime: { unit: ms }\n")
    sent: list[int] = []

    def world() -> None:
        try:
            until(lambda: len(batches(tmp_path)) == 1)  # the first heartbeat, at which nothing is due
            time.sleep(3)
            assert len(batches(tmp_path)) == 1
            sent.append(int(time.time() * 1_000))
            put(tmp_path, "a.ndjson", sent[0])
            until(lambda: [each["time"] for each in read(tmp_path, "out.ndjson") if each["rule"] == "Left"] == [sent[0] + 3_000])
            put(tmp_path, "b.ndjson", sent[0] + 1)
            until(lambda: len(read(tmp_path, "dead.ndjson")) == 1)
        finally:
            os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=world)
    thread.start()
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path)
    thread.join()
    assert [(each["reason"], each["file"], each["time"]) for each in read(tmp_path, "dead.ndjson")] == [
        ("clock", "d/b.ndjson", sent[0] + 1)
    ]
    status = status_of("out/checkpoint")
    assert status.closed is not None
    assert status.heartbeat is not None
    assert status.heartbeat >= status.closed > sent[0] * 1_000
    assert f"Last heartbeat of the clock: {format_time(status.heartbeat, status.clock)}" in main_output(
        ["status", "--quick", "out/checkpoint"]
    )


def main_output(arguments: list[str]) -> str:
    with redirect_stdout(StringIO()) as out:
        assert main(arguments) == 0
    return out.getvalue()


@pytest.mark.usefixtures("spark")
def test_standard_input_is_copied_to_the_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "r.dotr").write_text(RULES)
    (tmp_path / "c.yaml").write_text(CONFIG.replace('"d/*.ndjson", watch: true, settle: 0 s', '"-"'))
    elements = [json.dumps({"time": at, "graph": f"[] :v {at} ."}) for at in (1, 2, 3, 1)]
    reader, writer = os.pipe()
    os.write(writer, "\n".join([*elements, "broken"]).encode())
    os.close(writer)
    kept = os.dup(0)
    os.dup2(reader, 0)
    try:
        assert main(["run", "c.yaml", "--engine", "spark"]) == 0, capsys.readouterr().err
    finally:
        os.dup2(kept, 0)
        os.close(reader)
        os.close(kept)
    assert [each["time"] for each in read(tmp_path, "out.ndjson")] == [2, 3]
    letters = [(each["reason"], each["file"], each["line"]) for each in read(tmp_path, "dead.ndjson")]
    assert letters == [("late", "-", 4), ("unreadable", "-", 5)]


def test_trig_on_standard_input_is_refused(tmp_path: Path) -> None:
    (tmp_path / "r.dotr").write_text(RULES)
    (tmp_path / "c.yaml").write_text(CONFIG.replace('ndjson, path: "d/*.ndjson", watch: true, settle: 0 s', 'trig, path: "-"'))
    with pytest.raises(Refused, match="S107"):
        build(read_config(str(tmp_path / "c.yaml")), fresh=False, on_spark=True)


@pytest.mark.usefixtures("spark")
def test_files_that_go_on_are_copied_to_the_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "d").mkdir()
    (tmp_path / "r.dotr").write_text(RULES)
    rows = """format: csv, path: "d/*", time: t, skip: 1, comment: "#", map: "[] :v '{$stem}{v}' .", tail: true, watch: false"""
    (tmp_path / "c.yaml").write_text(CONFIG.replace('format: ndjson, path: "d/*.ndjson", watch: true, settle: 0 s', rows))
    (tmp_path / "d/a.csv").write_text('logger "7\nt,v\n1,1\n3,3\nbroken\n# a "\n5,5\n6')
    (tmp_path / "d/b.csv").write_text('logger "8\nt,v\n2,2\n4,4\n3,3\n')
    (tmp_path / "d/c.csv.gz").write_text("")
    run(tmp_path)
    assert [each for each in caplog.messages if "c.csv.gz" in each] == [
        "input a: d/c.csv.gz is left out: a compressed file does not go on (tail: true)"
    ]
    found = [(each["time"], sorted(re.findall(r'"([ab]\d)"', str(each["graph"])))) for each in read(tmp_path, "out.ndjson")]
    assert found == [(2, ["a1", "b2"]), (3, ["a3", "b2"]), (4, ["a3", "b4"]), (5, ["a5", "b4"])]
    letters = [(each["reason"], each["file"], each["line"], each["text"]) for each in read(tmp_path, "dead.ndjson")]
    assert sorted(letters) == [
        ("late", "d/b.csv", 5, "3,3"),
        ("unreadable", "d/a.csv", 5, "broken"),
        ("unreadable", "d/a.csv", 8, "6"),
    ]


@pytest.mark.usefixtures("spark")
def test_replay_in_rounds_continues_where_it_began(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "r.dotr").write_text(RULES)
    (tmp_path / "a.ndjson").write_text("".join(f'{{"time": {at}, "graph": "[] :v {at} ."}}\n' for at in (1, 3, 9)))
    replayed = '"a.ndjson", pace: 20, replay: { every: 10 s }'
    (tmp_path / "c.yaml").write_text(CONFIG.replace('"d/*.ndjson", watch: true, settle: 0 s', replayed).replace(", trigger: 1.5 s", ""))

    def times() -> list[int]:
        return [int(str(each["time"])) for each in read(tmp_path, "out.ndjson")]

    before = int(time.time())
    assert run_until(["run", "c.yaml", "--quiet"], lambda: until(lambda: len(times()) > 2)) == 0
    first, begun = times(), int(time.time())
    assert run_until(["run", "c.yaml", "--quiet"], lambda: until(lambda: len(times()) > len(first) + 2)) == 0
    found = times()
    assert before <= found[0] - 2 <= begun
    # 3 follows 1 by two seconds, and 1 of the next round follows 9.
    assert found == [found[0] + 10 * (n // 2) + (0 if n % 2 == 0 else 8) for n in range(len(found))]
    with pytest.raises(Refused, match=r"its replay has another start or rounds of another length \(replay\) than when it was made"):
        run(tmp_path, "input.0.replay.every=11 s")
    assert main(["why", "c.yaml", "--rule", "R", "--at", str(found[0])]) == 0, "the checkpoint has the start"
