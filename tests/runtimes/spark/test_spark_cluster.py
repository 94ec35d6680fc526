"""A job on a standalone cluster, by the commands of docs/operation.md: a master and two workers, of which one is lost, and spark-submit in
client mode with the package and its environment."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from dotr.commands import main
from dotr.evaluation.files.stores import Location
from dotr.runtimes.monitoring.totals import Totals
from dotr.runtimes.pipeline.build import build
from dotr.runtimes.pipeline.config import read_config
from dotr.runtimes.spark.checkpoint.folder import last_number
from tests.docs.test_commands import blocks, copied, run
from tests.support.outputs import joined
from tests.support.patience import PATIENCE
from tests.support.ports import free_port

pytestmark = pytest.mark.spark

CONFIG = "configs/city.yaml"
NAMES = ("events.ndjson", "events.trig", "rejected.ndjson")
OUT = Path("out/city")


def own_environment(made: Path) -> None:
    """A virtual environment with links to the installed packages, but without this one: executors have it from the job. The commands
    are those of this environment."""
    shutil.rmtree(made)
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(made)], check=True)
    [packages] = made.glob("lib/python3*/site-packages")
    here = next(path for path in sys.path if (Path(path) / "pyarrow").is_dir())
    for path in Path(here).iterdir():
        if not path.name.startswith(("dotr", "__")):
            (packages / path.name).symlink_to(path)
    for path in (Path(sys.prefix) / "bin").iterdir():
        if not (made / "bin" / path.name).exists():
            (made / "bin" / path.name).symlink_to(path)


def begin() -> None:
    """Run the job on one bucket in this process until two batches are written, and abort it."""
    from dotr.runtimes.spark.run import run_spark

    seen: list[Totals] = []

    def stop(totals: Totals) -> None:
        seen.append(totals)
        if len(seen) == 2:
            raise ZeroDivisionError("enough")

    config = read_config(CONFIG, ["spark.master=local[2]", "spark.buckets=1"])
    with pytest.raises(Exception, match="enough"):
        run_spark(build(config, fresh=False, on_spark=True), stop)


def buckets() -> int:
    return int(json.loads((OUT / "checkpoint/dotr.json").read_text())["buckets"])


def processes() -> Iterator[tuple[int, Path]]:
    """The processes of this machine, with their working directories."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            with suppress(OSError):  # the process has ended since, or is another user's
                yield int(entry.name), Path(os.readlink(entry / "cwd"))


def lose_a_worker(folder: Path, killed: list[int]) -> None:
    """Kill a worker and its executor with -9, once the job has written a batch on the cluster."""
    deadline = time.monotonic() + PATIENCE
    while last_number(Location(str(folder / OUT / "checkpoint/query-1/commits"))) is None and time.monotonic() < deadline:
        time.sleep(0.05)
    for pid, place in processes():
        if place.is_relative_to(folder / "out/one"):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
                killed.append(pid)


def written(folder: Path) -> list[str]:
    """All output of a run, file by file or batch by batch."""
    found = []
    for name in NAMES:
        files = sorted((folder / name).iterdir()) if (folder / name).is_dir() else [folder / name]
        found.append(joined(file for file in files if file.exists()))
    return found


@pytest.mark.usefixtures("spark")
@pytest.mark.fallbacks("restart")
def test_job_grows_with_its_workers_and_survives_the_loss_of_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One bucket, then the two workers of the page, of which one is lost, on one checkpoint. That a job shrinks by the same function of its
    cores is tested without a cluster (test_bucket_count.py, test_growth_on_spark.py).

    The driver's cache is under /proc/self/cwd, a path that leads elsewhere in a process with another folder, as it would on another
    machine. So workers can receive the background only from Spark.
    """
    folder = copied(tmp_path / "dotr")
    own_environment(folder / ".venv")
    monkeypatch.chdir(folder)
    config = (folder / CONFIG).read_text()
    (folder / CONFIG).write_text(config.replace("checkpoint: ../out/city/checkpoint", "checkpoint: ../out/city/checkpoint, batch: 900"))
    places = {"output.0.path": NAMES[0], "output.1.path": NAMES[1], "dead_letter": NAMES[2]}
    options = [word for key, name in places.items() for word in ("--set", f"{key}={folder}/local/{name}")]
    assert main(["run", CONFIG, "--engine", "local", "--quiet", *options]) == 0
    begin()
    assert buckets() == 1

    _, packed, cluster, *_ = blocks("docs/operation.md")
    port = str(free_port())  # in place of the page's
    killed: list[int] = []
    losing = threading.Thread(target=lose_a_worker, args=(folder, killed))
    losing.start()
    registered = (
        "until [ \"$(grep -c 'Registering worker' out/master.log)\" = 2 ]; do sleep 0.1; done\n"  # a job counts the cores at its start
    )
    commands = f"exec 2>&1\n{cluster.commands.replace('7077', port)}trap 'kill $(jobs -p); wait' EXIT\n{registered}{packed.commands}"
    told = run(commands, folder, submits=True, cache="/proc/self/cwd/cache")
    losing.join()
    assert "The state moves from 1 to 2 buckets: there are 2 cores." in told
    assert len(killed) > 1, "a worker and its executor"
    assert buckets() == 2
    assert written(OUT) == written(folder / "local")
    assert list((folder / "cache").rglob("*"))
    left = [(pid, place) for pid, place in processes() if place.is_relative_to(folder / "out")]
    assert not left, "`kill $(jobs -p)` ends master and workers"
