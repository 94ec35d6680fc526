"""Runs of configurations whose inputs Spark reads: the events of one process, over stops and restarts."""

from __future__ import annotations

import gzip
import json
import re
import time
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dotr.commands import main
from dotr.runtimes.frames.run import run_tables
from dotr.runtimes.monitoring.totals import Totals
from dotr.runtimes.pipeline.build import build
from dotr.runtimes.pipeline.config import read_config
from dotr.runtimes.spark.checkpoint.folder import Checkpoint
from tests.support.interrupted import run_until
from tests.support.paths import ROOT
from tests.support.patience import PATIENCE

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("spark")]

START: Final = datetime(2026, 1, 1, tzinfo=UTC)
RULES: Final = """PREFIX : <http://e/>
rule Hot
define Alarm = [ dotr_id a :Alarm ; :room ?room ; :was ?was ]
from Now = [ SELECT ?room ?v WHERE { ?r a :Temp ; :room ?room ; :value ?v FILTER(?v > 50) } ]
and last Before = [ SELECT ?room2 ?v2 WHERE { ?r a :Temp ; :room ?room2 ; :value ?v2 FILTER(?room2 = Now.?room) } ] within 5 s from Now
with Alarm.?room = Now.?room, Alarm.?was = Before.?v2
"""
CONFIG: Final = """name: rooms-OUT
prefixes: { "": "http://e/" }
rules: [r.dotr]
input:
  - name: readings
    SOURCE
    time: at
    map: "[] a :Temp ; :room :{room} ; :value {value} ."
    lateness: 2 s
output: [{ path: OUT }]
dead_letter: dead-OUT
"""
FILES: Final = "path: 'in/*.parquet'\n    format: parquet"
STREAM: Final = "spark: { format: parquet, path: in }"
BATCH: Final = "spark: { format: parquet, path: in, streaming: false }"


def write_rows(folder: Path, name: str, seconds: Iterable[float | None]) -> None:
    """A file of readings of three rooms at some seconds, None for no time; ever hotter."""
    times = [None if each is None else START + timedelta(seconds=each) for each in seconds]
    values = [40.0 if each is None else 40.0 + each for each in seconds]
    columns = {
        "at": pa.array(times, pa.timestamp("us", "UTC")),
        "room": [f"r{number % 3}" for number in range(len(times))],
        "value": values,
    }
    (folder / "in").mkdir(exist_ok=True)
    pq.write_table(pa.table(columns), folder / "in" / name)


def config(folder: Path, source: str, out: str, more: str = "") -> str:
    (folder / "r.dotr").write_text(RULES)
    path = folder / f"{out}.yaml"
    path.write_text(CONFIG.replace("SOURCE", source).replace("OUT", out) + more)
    return str(path)


def events(folder: Path, out: str) -> list[dict[str, Any]]:
    files = sorted((folder / out).iterdir()) if (folder / out).is_dir() else [folder / out]
    return [json.loads(line) for file in files for line in file.read_text().splitlines()]


def times(found: Iterable[dict[str, Any]]) -> list[int]:
    return [int((datetime.fromisoformat(each["time"]) - START).total_seconds()) for each in found]


def in_process(folder: Path) -> list[dict[str, Any]]:
    """The events of one process over the same rows, of which none is late."""
    assert main(["run", config(folder, FILES, "local"), "--engine", "local", "--quiet", "--fresh"]) == 0
    return events(folder, "local")


def test_rows_that_are_read_once_give_the_events_of_one_process(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    write_rows(tmp_path, "1.parquet", [*range(30), None])
    path = config(tmp_path, BATCH, "out")
    assert main(["run", path]) == 0
    told = capfd.readouterr().err
    assert "30 elements, 30 instants, 30 facts, 19 events" in told
    assert "open until" not in told
    assert events(tmp_path, "out") == in_process(tmp_path)
    ((letter),) = events(tmp_path, "dead-out")
    assert (letter["reason"], letter["error"], letter["file"]) == ("unreadable", "its time is NULL or out of range", str(tmp_path / "in"))
    write_rows(tmp_path, "2.parquet", [60, 61, 64])
    assert main(["run", path]) == 0  # what an output has is not written again
    assert "All rows were read by an earlier run" in capfd.readouterr().err
    assert main(["status", str(tmp_path / "rooms-out-checkpoint")]) == 0
    assert "The stream has ended: all instants are closed." in capfd.readouterr().out


def test_a_stream_goes_on_at_each_run_and_behind_a_failure(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    path = config(tmp_path, STREAM, "out")
    write_rows(tmp_path, "1.parquet", range(20))
    assert main(["run", path]) == 0
    assert "Instants from 2026-01-01T00:00:17Z on are open until later rows have come" in capfd.readouterr().err
    assert times(events(tmp_path, "out")) == list(range(11, 17))
    write_rows(tmp_path, "2.parquet", range(20, 40))

    def crash(totals: Totals) -> None:
        if totals.events:
            raise ZeroDivisionError("the batch is in the output, and not in the checkpoint")

    with pytest.raises(ZeroDivisionError):
        run_tables(build(read_config(path), fresh=False, on_spark=True), crash)
    assert times(events(tmp_path, "out")) == list(range(11, 37))
    write_rows(tmp_path, "3.parquet", [5, None, 41])  # the first one is late
    assert main(["run", path, "--quiet"]) == 0
    found = events(tmp_path, "out")
    (tmp_path / "in" / "3.parquet").unlink()
    write_rows(tmp_path, "3.parquet", [41])
    assert found == [each for each in in_process(tmp_path) if times([each])[0] < 39]
    letters = events(tmp_path, "dead-out")
    assert sorted((each["reason"], each["text"].count("45.0")) for each in letters) == [("late", 1), ("unreadable", 0)]
    checkpoint = Checkpoint(str(tmp_path / "rooms-out-checkpoint"))
    offset = checkpoint.offset()
    assert offset is not None
    assert offset.time == int(START.timestamp() * 1e6) + 39_000_000 - 1
    capfd.readouterr()
    assert main(["status", str(tmp_path / "rooms-out-checkpoint")]) == 0
    assert "readings: passed 2026-01-01T00:00:38.999999Z" in capfd.readouterr().out

    def refused(text: str, *options: str) -> str:
        (tmp_path / "other.yaml").write_text(text)
        assert main(["run", str(tmp_path / "other.yaml"), "--quiet", *options]) == 2
        return capfd.readouterr().err

    text = Path(path).read_text()
    before = (tmp_path / "rooms-out-checkpoint" / "dotr.json").read_bytes()
    assert "S102" in (told := refused(text.replace(":value {value}", ":value {value} ; :of :{room}")))
    assert "the input readings has another table, time, map, lateness or clock" in told
    assert "another table, time, map, lateness" in refused(text.replace("lateness: 2 s", "lateness: 3 s"))
    assert "has 2 buckets, spark.buckets is 7, and Spark's operators keep them" in refused(text, "--set", "spark.buckets=7")
    assert "the input readings has another table" in refused(text.replace(STREAM, FILES.replace("in/*", "in/1")))
    (tmp_path / "r.dotr").write_text(RULES.replace("5 s", "6 s"))
    assert "the state is in Spark's operators and does not move" in refused(text)
    assert (tmp_path / "rooms-out-checkpoint" / "dotr.json").read_bytes() == before


def city_table(name: str, folder: Path) -> None:
    """Readings of the city as a table, without those that a run over files rejects."""
    with gzip.open(ROOT / "data" / "city" / f"{name}.csv.gz", "rt") as file:
        header, *lines = [line.rstrip("\n").split(",") for line in file]
    rows, latest = [], ""
    for row in lines:
        if len(row) == len(header) and row[0] >= latest:
            rows.append(row)
            latest = row[0]
    columns: dict[str, Any] = dict(zip(header, zip(*rows, strict=True), strict=True))
    for column, values in columns.items():
        if column == "time":
            columns[column] = pa.array([datetime.fromisoformat(each + "Z") for each in values], pa.timestamp("us", "UTC"))
        elif column not in ("section", "park"):
            columns[column] = pa.array([each or None for each in values]).cast(pa.decimal128(10, 1) if "." in values[0] else pa.int32())
    (folder / name).mkdir()
    pq.write_table(pa.table(columns), folder / name / "1.parquet")


def test_tables_of_the_city_give_the_events_of_its_files(tmp_path: Path) -> None:
    text = (ROOT / "configs" / "city.yaml").read_text().replace("../out/city", "out")
    text = re.sub(r"\.\./(kb|rules|data/city/background)", rf"{ROOT}/\1", text)
    tables = re.sub(
        r"format: csv\n    path: \.\./data/city/(\w+)\.csv\.gz", r"spark: { format: parquet, path: \1, streaming: false }", text
    )
    for name in ("traffic", "weather", "parking"):
        city_table(name, tmp_path)
    assert "csv" not in tables
    (tmp_path / "files.yaml").write_text(text.replace("../data", f"{ROOT}/data"))
    tables = tables.replace("{ format: trig, path: out/events.trig }", "{ spark: { format: parquet, path: gold/table } }")
    (tmp_path / "tables.yaml").write_text(tables.replace("out/", "gold/"))
    assert main(["run", str(tmp_path / "files.yaml"), "--engine", "local", "--quiet"]) == 0
    assert main(["run", str(tmp_path / "tables.yaml"), "--quiet"]) == 0
    found = events(tmp_path, "gold/events.ndjson")
    assert len(found) == 168
    assert found == events(tmp_path, "out/events.ndjson")
    read_back = pq.read_table(tmp_path / "gold" / "table", columns=["time", "event"]).to_pylist()
    written = [(datetime.fromisoformat(each["time"]).replace(tzinfo=None), each["event"]) for each in found]
    assert sorted((each["time"], each["event"]) for each in read_back) == sorted(written)


def test_rows_are_read_until_the_run_is_stopped(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    path = config(tmp_path, f"{STREAM}\n    watch: true", "out")
    write_rows(tmp_path, "1.parquet", range(20))

    def wait_for(last: int) -> None:
        until = time.monotonic() + PATIENCE
        while not (tmp_path / "out").is_dir() or last not in times(events(tmp_path, "out")):
            assert time.monotonic() < until
            time.sleep(0.1)

    def world() -> None:
        wait_for(16)
        write_rows(tmp_path, "2.parquet", range(20, 30))
        wait_for(26)

    assert run_until(["run", path], world) == 0
    assert "the same command goes on from the checkpoint" in capfd.readouterr().err
    assert events(tmp_path, "out") == [each for each in in_process(tmp_path) if times([each])[0] < 27]
