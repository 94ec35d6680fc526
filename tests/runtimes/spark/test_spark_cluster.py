"""A job on a standalone cluster: a master and two workers, of which one is lost, spark-submit in client mode with the package and its
environment."""

from __future__ import annotations

import json
import subprocess
import sys
import tarfile
import time
from pathlib import Path

import pytest

from dotr.commands import main
from dotr.commands.bundle.archive import bundle
from dotr.runtimes.monitoring.totals import Totals
from dotr.runtimes.pipeline.build import build
from dotr.runtimes.pipeline.config import read_config
from dotr.runtimes.spark.checkpoint.folder import last_number
from tests.support.outputs import joined
from tests.support.paths import ROOT
from tests.support.standalone import SPARK_HOME, clean_environment, cluster, with_archive

pytestmark = pytest.mark.spark

CONFIG = str(ROOT / "configs/city.yaml")
NAMES = ("events.ndjson", "events.trig", "rejected.ndjson")


def settings(folder: Path) -> list[str]:
    """The settings of the city job with output in a folder."""
    places = {"output.0.path": NAMES[0], "output.1.path": NAMES[1], "dead_letter": NAMES[2], "spark.checkpoint": "checkpoint"}
    return [*(f"{key}={folder / name}" for key, name in places.items()), "spark.batch=900"]


def arguments(folder: Path, *further: str) -> list[str]:
    """The command line of this job."""
    return ["run", CONFIG, *(word for each in settings(folder) for word in ("--set", each)), *further]


def begin(folder: Path) -> None:
    """Run the job on one core of this process until two batches are written, and abort it."""
    from dotr.runtimes.spark.run import run_spark

    seen: list[Totals] = []

    def stop(totals: Totals) -> None:
        seen.append(totals)
        if len(seen) == 2:
            raise ZeroDivisionError("enough")

    config = read_config(CONFIG, [*settings(folder), "spark.master=local[2]", "spark.buckets=1"])
    with pytest.raises(Exception, match="enough"):
        run_spark(build(config, fresh=False, on_spark=True), stop)


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
            *arguments(folder / "spark"),
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

    def finish(self) -> None:
        assert self._process.wait() == 0, (self.driver / "log").read_text()


@pytest.mark.usefixtures("spark")
@pytest.mark.fallbacks("restart")
def test_job_grows_with_its_workers_and_survives_the_loss_of_one(tmp_path: Path) -> None:
    """One core, then two workers of one core each, of which one is lost, on one checkpoint. That a job shrinks by the same function of its
    cores is tested without a cluster (test_bucket_count.py, test_growth_on_spark.py).

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

    begin(tmp_path / "spark")
    assert buckets() == 1
    with cluster(tmp_path / "cluster") as made:
        made.start_workers(1, 1)
        job = Submitted(tmp_path, made.url)
        job.wait_for(1, 0)
        made.workers[0].kill()
        job.finish()
    assert buckets() == 2
    assert "The state moves from 1 to 2 buckets: there are 2 cores." in (driver / "log").read_text()
    assert written(tmp_path / "spark") == written(tmp_path / "local")
    assert list((driver / "cache").rglob("*"))
