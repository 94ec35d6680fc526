"""Runs on Spark, with a checkpoint on the disk, whose inputs and outputs are objects of a store that executors read."""

from __future__ import annotations

import gzip
import json
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from dotr.commands import main
from dotr.runtimes.spark.planning import index_scans
from tests.support.interrupted import run_until
from tests.support.object_server import S3, SECRET
from tests.support.patience import PATIENCE

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("spark")]

RULES = """
PREFIX : <http://e/>
rule R define Out = [ [] :x ?x ; :y ?y ] from A = [ SELECT ?x WHERE { ?s :v ?x . ?s :in :hall } ]
and last B = [ SELECT ?y WHERE { ?s :v ?y } ] within 2 s from A with Out.?x = A.?x, Out.?y = B.?y
"""
CONFIG = """
name: lake
prefixes: {{ "": "http://e/" }}
rules: ["{root}/r.dotr"]
knowledge: {{ graphs: ["{root}/kb.ttl"] }}
input:
  - {{ name: a, format: csv, path: "{root}/in/*.csv*", time: t, map: ":s{{s}} :v {{v}} ."{further} }}
output:
  - {{ path: "{root}/out/hot{ending}" }}
  - {{ path: "{root}/out/table{ending}", format: csv }}
dead_letter: "{root}/out/dead{ending}"
"""
GRAPH = "@prefix : <http://e/> . :s1 :in :hall ."


def csv(*times: int) -> bytes:
    return ("t,s,v\n" + "".join(f"{t},{t % 3},{t * t % 97}\n" for t in times)).encode()


class Lake:
    """A bucket and a folder of the same files, with a configuration of each: store.yaml runs on Spark, disk.yaml in process."""

    def __init__(self, s3: S3, folder: Path, further: str = "") -> None:
        self.s3, self.folder, self.bucket = s3, folder, s3.bucket()
        self.url = f"s3://{self.bucket}"
        spark = 'spark: { master: "local[2]", checkpoint: checkpoint, batch: 200, trigger: 1 s }\n'
        (folder / "store.yaml").write_text(CONFIG.format(root=self.url, ending="", further=further) + s3.yaml + spark)
        (folder / "disk.yaml").write_text(CONFIG.format(root=folder, ending=".txt", further="") + "engine: local\n")
        self.put("r.dotr", RULES.encode())
        self.put("kb.ttl", GRAPH.encode())

    def put(self, key: str, data: bytes) -> None:
        self.s3.client.put_object(Bucket=self.bucket, Key=key, Body=data)
        path = self.folder / key
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(data)

    def written(self, name: str) -> bytes:
        keys = sorted(key for key in self.s3.keys(self.bucket) if key.startswith(f"out/{name}/"))
        return b"".join(self.s3.client.get_object(Bucket=self.bucket, Key=key)["Body"].read() for key in keys)

    def until(self, condition: Callable[[], bool]) -> None:
        deadline = time.monotonic() + PATIENCE
        while not condition():
            assert time.monotonic() < deadline
            time.sleep(0.1)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_run_that_was_stopped_goes_on_as_one_over_files(
    s3: S3, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(index_scans, "INDEXED_BYTES", 0)
    monkeypatch.setattr(index_scans, "FIRST_RANGE", 4_000)
    lake = Lake(s3, folder)
    lake.put("in/a.csv", csv(*range(1, 900)) + b"broken\n")
    lake.put("in/b.csv.gz", gzip.compress(csv(*range(3, 800, 2))))
    lake.put("in/c.csv", csv(*range(2, 900, 5)))
    assert run_until(["run", "store.yaml"], lambda: lake.until(lambda: lake.written("hot") != b"")) == 0
    assert main(["run", "store.yaml"]) == 0
    assert main(["run", "disk.yaml"]) == 0
    assert lake.written("hot") == (folder / "out/hot.txt").read_bytes() != b""
    header, _, rows = (folder / "out/table.txt").read_bytes().partition(b"\n")
    assert lake.written("table").replace(header + b"\n", b"") == rows
    assert [json.loads(line)["file"] for line in lake.written("dead").splitlines()] == [f"{lake.url}/in/a.csv"]
    said = "".join(capsys.readouterr())
    written = b"".join(path.read_bytes() for path in (folder / "checkpoint").rglob("*") if path.is_file())
    assert SECRET not in said
    assert SECRET.encode() not in written


def test_a_folder_of_a_store_that_grows_goes_on_after_a_restart(s3: S3, folder: Path) -> None:
    lake = Lake(s3, folder, ", watch: true, settle: 0 s, idle: 1 s")
    lake.put("in/a.csv", csv(1, 2, 3, 4, 6))

    def extend() -> None:
        lake.until(lambda: b'"time": 4' in lake.written("hot"))
        lake.put("in/b.csv", csv(7, 8, 9, 10))
        lake.until(lambda: b'"time": 10' in lake.written("hot"))

    assert run_until(["run", "store.yaml"], extend) == 0
    lake.put("in/a.csv", csv(1, 2, 3, 5))
    lake.put("in/c.csv", csv(11, 12, 13))
    assert main(["run", "store.yaml", "--set", "input.0.watch=false"]) == 0
    assert [(each["reason"], each["file"]) for each in map(json.loads, lake.written("dead").splitlines())] == [
        ("changed", f"{lake.url}/in/a.csv")
    ]
    lake.put("in/a.csv", csv(1, 2, 3, 4, 6))
    assert main(["run", "disk.yaml"]) == 0
    assert lake.written("hot") == (folder / "out/hot.txt").read_bytes() != b""
