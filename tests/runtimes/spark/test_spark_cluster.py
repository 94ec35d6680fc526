"""A job on a standalone cluster: a master, one to three workers that come and go, spark-submit in client mode with the package and its
environment."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tarfile
import time
from pathlib import Path

import pytest

from dotr.commands import main
from dotr.commands.bundle.archive import bundle
from dotr.runtimes.spark.checkpoint.folder import last_number
from tests.support.outputs import joined
from tests.support.paths import ROOT
from tests.support.standalone import SPARK_HOME, clean_environment, cluster, with_archive

pytestmark = pytest.mark.spark

CONFIG = str(ROOT / "configs/city.yaml")
NAMES = ("events.ndjson", "events.trig", "rejected.ndjson")


def arguments(folder: Path, *further: str) -> list[str]:
    """The command line of the city job with output in a folder."""
    places = {"output.0.path": NAMES[0], "output.1.path": NAMES[1], "dead_letter": NAMES[2], "spark.checkpoint": "checkpoint"}
    return ["run", CONFIG, *(word for key, name in places.items() for word in ("--set", f"{key}={folder / name}")), *further]


def environment(folder: Path) -> Path:
    """An environment packed as in the documentation, but with links to the packages, since these are half a gigabyte. It contains neither
    pyspark nor this package."""
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


class Submitted:
    """A job of spark-submit on a cluster, whose processes on the driver's side can be killed at once."""

    def __init__(self, folder: Path, url: str) -> None:
        self.driver = folder / "driver"
        self._commits = folder / "spark/checkpoint"
        command = [
            str(SPARK_HOME / "bin/spark-submit"), "--master", url, "--archives", f"{folder / 'env.tar.gz'}#env",
            "--conf", "spark.executor.memory=700m", "--py-files", str(folder / "dist/dotr.zip"), str(folder / "dist/run_dotr.py"),
            *arguments(folder / "spark", "--set", "spark.batch=900"),
        ]  # fmt: skip
        python = {"PYSPARK_PYTHON": "./env/bin/python", "PYSPARK_DRIVER_PYTHON": sys.executable}
        given = with_archive(clean_environment({**python, "XDG_CACHE_HOME": "/proc/self/cwd/cache"}))
        with (self.driver / "log").open("ab") as log:
            self._process = subprocess.Popen(
                command, cwd=self.driver, env=given, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )

    def committed(self, generation: int) -> int:
        """Spark's number of the last written batch of a generation of the query; -1 before the first."""
        number = last_number(self._commits / (f"query-{generation}" if generation else "query") / "commits")
        return -1 if number is None else number

    def wait_for(self, generation: int, batch: int) -> None:
        while self.committed(generation) < batch:
            assert self._process.poll() is None, (self.driver / "log").read_text()
            time.sleep(0.05)

    def kill(self) -> None:
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def finish(self) -> None:
        assert self._process.wait() == 0, (self.driver / "log").read_text()


@pytest.mark.fallbacks("restart")
def test_job_grows_with_its_workers_and_survives_the_loss_of_one(tmp_path: Path) -> None:
    """One worker of one core, then three, of which one is lost, on one checkpoint. That a job shrinks by the same function of its cores is
    tested without a cluster (test_bucket_count.py, test_growth_on_spark.py).

    The driver's cache is under /proc/self/cwd, a path that leads elsewhere in a process with another folder, as it would on another
    machine. So workers can receive the background only from Spark.
    """
    bundle(str(tmp_path / "dist"))
    driver = tmp_path / "driver"
    driver.mkdir()
    with tarfile.open(environment(tmp_path)) as archive:
        archive.extractall(driver / "env", filter="tar")
    assert main(arguments(tmp_path / "local", "--engine", "local", "--quiet")) == 0

    def buckets() -> int:
        return int(json.loads((tmp_path / "spark/checkpoint/dotr.json").read_text())["buckets"])

    with cluster(tmp_path / "cluster") as made:
        made.start_workers(1)
        job = Submitted(tmp_path, made.url)
        job.wait_for(0, 1)
        job.kill()
        assert buckets() == 1
        made.start_workers(1, 1)
        job = Submitted(tmp_path, made.url)
        job.wait_for(1, 0)
        made.workers[0].kill()
        job.finish()
        assert buckets() == 3
    assert "The state moves from 1 to 3 buckets: there are 3 cores." in (driver / "log").read_text()
    assert written(tmp_path / "spark") == written(tmp_path / "local")
    assert list((driver / "cache").rglob("*"))
