"""A job on a standalone cluster: a master, two workers, spark-submit in client mode with the
package and its environment."""

from __future__ import annotations

import json
import subprocess
import sys
import tarfile
import time
from pathlib import Path

import pytest

from dotr.cli import main
from dotr.runtimes.spark.checkpoint import last_number
from dotr.workbench.bundle import bundle
from tests.support.outputs import joined
from tests.support.paths import ROOT
from tests.support.standalone import SPARK_HOME, clean_environment, cluster

pytestmark = pytest.mark.spark

CONFIG = str(ROOT / "configs/city.yaml")
NAMES = ("events.ndjson", "events.trig", "rejected.ndjson")


def arguments(folder: Path, *further: str) -> list[str]:
    """The command line of the city job with output in a folder."""
    places = {"output.0.path": NAMES[0], "output.1.path": NAMES[1], "dead_letter": NAMES[2], "spark.checkpoint": "checkpoint"}
    return ["run", CONFIG, *(word for key, name in places.items() for word in ("--set", f"{key}={folder / name}")), *further]


def environment(folder: Path) -> Path:
    """An environment packed as the documentation says, but for the packages, of which it has links: half a gigabyte is not copied for a
    test. Neither pyspark is in it nor this package."""
    made, packed = folder / "venv", folder / "env.tar.gz"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(made)], check=True)
    [packages] = made.glob("lib/python3*/site-packages")
    here = next(path for path in sys.path if (Path(path) / "pyarrow").is_dir())
    for path in Path(here).iterdir():
        if not path.name.startswith(("pyspark", "dotr", "__")):
            (packages / path.name).symlink_to(path)
    with tarfile.open(packed, "w:gz") as archive:
        archive.add(made, ".")
    return packed


def written(folder: Path) -> list[str]:
    """All output of a run, file by file or batch by batch."""
    found = []
    for name in NAMES:
        files = sorted((folder / name).iterdir()) if (folder / name).is_dir() else [folder / name]
        found.append(joined(file for file in files if file.exists()))
    return found


@pytest.mark.fallbacks("restart")
def test_job_survives_loss_of_a_cluster_worker(tmp_path: Path) -> None:
    """The driver's cache is under /proc/self/cwd: at its path there is nothing, or something else, for a process in another folder, as
    for one on another machine. So what workers know of the background has come with Spark."""
    bundle(str(tmp_path / "dist"))
    driver = tmp_path / "driver"
    driver.mkdir()
    with tarfile.open(environment(tmp_path)) as archive:
        archive.extractall(driver / "env", filter="tar")
    assert main(arguments(tmp_path / "local", "--engine", "local", "--quiet")) == 0
    query = tmp_path / "spark/checkpoint/query"
    with cluster(tmp_path / "cluster", (1, 2)) as made:
        command = [
            str(SPARK_HOME / "bin/spark-submit"), "--master", made.url, "--archives", f"{tmp_path / 'env.tar.gz'}#env",
            "--conf", "spark.executor.memory=700m", "--py-files", str(tmp_path / "dist/dotr.zip"), str(tmp_path / "dist/run_dotr.py"),
            *arguments(tmp_path / "spark", "--set", "spark.batch=1200"),
        ]  # fmt: skip
        given = clean_environment(
            {"PYSPARK_PYTHON": "./env/bin/python", "PYSPARK_DRIVER_PYTHON": sys.executable, "XDG_CACHE_HOME": "/proc/self/cwd/cache"}
        )
        with (driver / "log").open("wb") as log:
            process = subprocess.Popen(command, cwd=driver, env=given, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
            while process.poll() is None and (last_number(query / "commits") or 0) < 1:
                time.sleep(0.05)
            made.workers[0].kill()
            killed_at = last_number(query / "commits")
            process.wait()
    assert process.returncode == 0, (driver / "log").read_text()
    assert killed_at is not None
    assert killed_at + 2 <= (last_number(query / "commits") or 0)
    assert json.loads((tmp_path / "spark/checkpoint/dotr.json").read_text())["buckets"] == 3
    assert written(tmp_path / "spark") == written(tmp_path / "local")
    assert list((driver / "cache").rglob("*"))
