"""A checkpoint in HDFS: runs that stop, go on, change their rules, spill, and are started twice, as with a folder of this machine."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from dotr.commands import main
from dotr.evaluation.files.stores import Location, configure_storage
from dotr.runtimes.pipeline.build import build
from dotr.runtimes.pipeline.config import read_config
from dotr.runtimes.pipeline.output_files import LEASE
from dotr.runtimes.spark import sink
from dotr.runtimes.spark.checkpoint.folder import Checkpoint
from dotr.runtimes.spark.exchange.spilled_rows import RunPlace, run_place
from dotr.runtimes.spark.planning import index_scans
from dotr.runtimes.spark.planning.granules import Piece
from dotr.runtimes.spark.planning.index_files import IndexFiles
from tests.support.hadoop import Hadoop
from tests.support.interrupted import run_until
from tests.support.paths import ROOT
from tests.support.patience import PATIENCE

pytestmark = [pytest.mark.spark, pytest.mark.hadoop]

RULES = """\
PREFIX : <http://e/>
rule R
define Out = [ dotr_id1 a :Out ; :x ?x ; :y ?y ]
from A = [ SELECT ?x WHERE { ?s a :A ; :of ?x } ]
and each B = [ SELECT ?k ?y WHERE { ?k :b ?y . FILTER(?k = A.?x) } ] within 1 min from A
with Out.?x = A.?x, Out.?y = B.?y
"""
FURTHER = """\
rule S
define More = [ dotr_id1 a :More ; :x ?x ]
from Out
with More.?x = Out.?x
"""
HOLDER = """\
import sys, time
from dotr.evaluation.files.stores import configure_storage
from dotr.runtimes.pipeline.output_files import OutputLocks, Target
configure_storage({"hdfs": {"webhdfs": sys.argv[2]}})
locks = OutputLocks()
print(locks.acquire((Target("checkpoint", sys.argv[1], checkpoint=True),), "small"), flush=True)
time.sleep(600)
"""
CONFIG = """\
name: small
prefixes: {{ "": "http://e/" }}
rules: [r.dotr]
input: [{{ name: a, format: ndjson, path: "{inputs}" }}]
output: [{{ path: {out} }}]
dead_letter: {out}.dead
engine: spark
storage: {{ hdfs: {{ webhdfs: "{webhdfs}" }}, retry: 5 s }}
spark: {{ checkpoint: "{checkpoint}", batch: 100, buckets: 2, master: "local[2]" }}
"""


def elements(first: int, count: int) -> str:
    lines = []
    for time_ in range(first, first + count):
        lines.append(json.dumps({"time": time_, "graph": f":k{time_ % 5} :b {time_} ."}))
        if time_ % 3 == 0:
            lines.append(json.dumps({"time": time_, "graph": f":a{time_} a :A ; :of :k{time_ // 3 % 5} ."}))
    return "".join(f"{line}\n" for line in lines)


@pytest.fixture
def home(hdfs: Hadoop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Location]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "scratch"))
    (tmp_path / "scratch").mkdir(mode=0o700)
    (tmp_path / "r.dotr").write_text(RULES)
    (tmp_path / "webhdfs").write_text(hdfs.webhdfs)
    configure_storage({"hdfs": {"webhdfs": hdfs.webhdfs}})
    yield Location(hdfs.folder("fires"))
    configure_storage({})


def configured(name: str, checkpoint: object, inputs: str = "a.ndjson") -> str:
    Path(f"{name}.yaml").write_text(CONFIG.format(inputs=inputs, out=name, checkpoint=checkpoint, webhdfs=Path("webhdfs").read_text()))
    return f"{name}.yaml"


def written(folder: str) -> str:
    return "".join(path.read_text() for path in sorted(Path(folder).glob("*.ndjson")))


@pytest.mark.usefixtures("spark")
def test_run_that_is_stopped_goes_on_and_gives_the_bytes_of_a_run_in_process(home: Location, capsys: pytest.CaptureFixture[str]) -> None:
    Path("a.ndjson").write_text(elements(0, 300))
    assert main(["run", configured("local", "ck"), "--quiet", "--engine", "local"]) == 0
    here = configured("url", home)

    def first_batches() -> None:
        deadline = time.monotonic() + PATIENCE
        while not any(each.location.name == "1" for each in (home / "query/commits").list()) and time.monotonic() < deadline:
            time.sleep(0.05)

    assert run_until(["run", here, "--quiet"], first_batches) == 0
    stopped = Checkpoint(str(home)).committed_batch()
    capsys.readouterr()
    assert main(["run", here, "--quiet"]) == 0
    assert written("url") == Path("local").read_text() != ""
    last = Checkpoint(str(home)).committed_batch()
    assert stopped is not None
    assert last is not None
    assert 1 <= stopped < last
    assert {each.location.text[len(home.text) + 1 :].partition("/")[0] for each in home.list(recursive=True)} == {
        "dotr.json",
        "progress.json",
        "query",
    }
    assert not Path("hdfs:").exists()
    capsys.readouterr()
    assert main(["status", str(home), "--format", "json"]) == 0
    status = json.loads(capsys.readouterr().out)
    assert (status["batch"], status["checkpoint"], status["ended"]) == (last, str(home), True)
    assert (status["totals"]["elements"], status["totals"]["events"]) == (400, len(written("url").splitlines()))
    assert status["state"]["source"] == "store"


def waiting(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE / 4
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.05)


@pytest.mark.usefixtures("spark")
def test_state_moves_for_changed_rules_and_fresh_starts_over(home: Location, capsys: pytest.CaptureFixture[str]) -> None:
    """A watched folder, so that its journal is in HDFS, too; the state moves to other rules and another number of buckets."""
    os.mkdir("in")
    Path("in/a.ndjson").write_text(elements(0, 60))
    file = configured("url", home, 'in/*.ndjson", watch: true, settle: "0 s')

    def grow() -> None:
        waiting(lambda: (home / "query/metadata").look() is not None)
        Path("b").write_text(elements(60, 61))  # its last instant fires, and stays open while the folder is watched
        Path("b").rename("in/b.ndjson")
        waiting(lambda: len(written("url").splitlines()) >= 50)

    run_until(["run", file, "--quiet"], grow)
    before = written("url").splitlines()
    Path("r.dotr").write_text(RULES + FURTHER)
    capsys.readouterr()
    assert main(["plan", file]) == 0
    assert "rule R keeps its state" in capsys.readouterr().out
    assert main(["run", file, "--quiet", "--set", "spark.buckets=3", "--set", "input.0.watch=false"]) == 0
    layout = Checkpoint(str(home)).layout
    assert layout is not None
    assert (layout.generation, layout.buckets) == (1, 3)
    assert {each.location.text[len(home.text) + 1 :].partition("/")[0] for each in home.list(recursive=True)} == {
        "dotr.json",
        "progress.json",
        "query-1",
        "moved-1",
        "watched.ndjson",
    }
    assert main(["run", configured("local", "ck", "in/*.ndjson"), "--quiet", "--engine", "local"]) == 0
    whole = Path("local").read_text().splitlines()
    lines = written("url").splitlines()
    assert 0 < len(before) < len(lines)
    assert [line for line in lines if '"rule": "R"' in line] == [line for line in whole if '"rule": "R"' in line]
    assert any('"rule": "S"' in line for line in lines)
    build(read_config(file), fresh=True, on_spark=True)
    assert list(home.list(recursive=True)) == []


@pytest.mark.usefixtures("spark")
def test_large_batches_wait_in_the_store_and_tasks_index_the_inputs(home: Location, monkeypatch: pytest.MonkeyPatch) -> None:
    places: list[object] = []
    pieces: list[tuple[int, int]] = []
    write = IndexFiles.write

    def place(payload: bytes) -> RunPlace:
        places.append(found := run_place(payload))
        return found

    def written_piece(files: IndexFiles, number: int, piece: int, found: Piece) -> None:
        pieces.append((number, piece))
        write(files, number, piece, found)

    monkeypatch.setattr(sink, "run_place", place)
    monkeypatch.setattr(index_scans, "INDEXED_BYTES", 0)
    monkeypatch.setattr(IndexFiles, "write", written_piece)
    Path("a.ndjson").write_text(elements(0, 3_000))
    file = configured("url", home)
    assert main(["run", file, "--quiet", "--set", "spark.batch=100000"]) == 0
    assert main(["run", configured("local", "ck"), "--quiet", "--engine", "local"]) == 0
    assert written("url") == Path("local").read_text()
    assert places
    assert all(isinstance(each, Location) and each.parent == home / "waiting" for each in places)
    assert not list((home / "waiting").list())
    assert pieces, "tasks have returned what they found"


@pytest.mark.usefixtures("spark")
def test_run_is_started_once_and_its_lease_expires_after_a_kill(
    home: Location, hdfs: Hadoop, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The other start is a process with a temporary folder of its own, as on another machine: its lease alone tells of it."""
    Path("a.ndjson").write_text(elements(0, 60))
    assert main(["run", configured("local", "ck"), "--quiet", "--engine", "local"]) == 0
    file = configured("url", home)
    (tmp_path / "elsewhere").mkdir(mode=0o700)
    environment = {**os.environ, "TMPDIR": str(tmp_path / "elsewhere"), "PYTHONPATH": str(ROOT)}
    first = subprocess.Popen([sys.executable, "-c", HOLDER, str(home), hdfs.webhdfs], env=environment, stdout=subprocess.PIPE)
    try:
        assert first.stdout is not None
        assert first.stdout.readline() == b"[]\n"
        assert main(["run", file, "--quiet"]) == 2
        told = capsys.readouterr().err
        assert "which may have ended without giving it back: waiting up to 30 s." in told
        assert f"C216 another run is writing to {home}: pipeline small, process {first.pid} on " in told
    finally:
        first.kill()
        first.communicate()
    assert main(["run", file, "--quiet"]) == 0
    assert "which may have ended without giving it back: waiting up to 30 s." in capsys.readouterr().err
    assert written("url") == Path("local").read_text()


@pytest.mark.usefixtures("spark")
def test_run_whose_lease_is_taken_ends_before_its_next_batch(home: Location, capsys: pytest.CaptureFixture[str]) -> None:
    Path("a.ndjson").write_text(elements(0, 800))
    taken: list[int | None] = []

    def take() -> None:
        waiting(lambda: any(each.location.name == "1" for each in (home / "query/commits").list()))
        (home / LEASE).put(b'{"pipeline": "other", "process": 1, "host": "elsewhere", "lease": "x", "seconds": 30}')
        taken.append(Checkpoint(str(home)).planned_batch)

    taking = threading.Thread(target=take)
    taking.start()
    try:
        assert main(["run", configured("url", home), "--quiet", "--set", "spark.batch=40"]) == 2
    finally:
        taking.join()
    assert f"S185 the lease of {home} was taken over by another run" in capsys.readouterr().err
    assert taken[0] is not None
    committed = Checkpoint(str(home)).committed_batch()
    assert committed is not None
    assert committed <= taken[0]
    assert b"elsewhere" in (home / LEASE).read()


@pytest.mark.usefixtures("spark")
def test_store_that_fails_ends_the_run_and_the_next_one_goes_on(home: Location, hdfs: Hadoop, capsys: pytest.CaptureFixture[str]) -> None:
    Path("a.ndjson").write_text(elements(0, 800))
    assert main(["run", configured("local", "ck"), "--quiet", "--engine", "local"]) == 0
    file = configured("url", home)

    def fail() -> None:
        waiting(lambda: any(each.location.name == "1" for each in (home / "query/commits").list()))
        hdfs.kill_data_node()

    failing = threading.Thread(target=fail)
    failing.start()
    try:
        assert main(["run", file, "--quiet", "--set", "spark.restarts=0", "--set", "spark.batch=40"]) == 1
    finally:
        failing.join()
        hdfs.start_data_node()
    assert "The run failed: " in capsys.readouterr().err
    assert 0 < len(written("url")) < len(Path("local").read_text())
    assert main(["run", file, "--quiet"]) == 0
    assert written("url") == Path("local").read_text()
