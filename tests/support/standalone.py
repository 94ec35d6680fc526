"""A Spark cluster on this machine: a standalone master and workers on loopback alone.

Both run from the pip-installed distribution. Each worker is isolated from the driver as on another
machine: a folder, a home and a cache of its own, a process group that can be killed as a whole, and
no access to the package except through the job.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pyspark

from tests.support.class_archive import archive_option
from tests.support.patience import PATIENCE

SPARK_HOME: Final = Path(pyspark.__file__).parent
_DAEMON: Final = {
    "SPARK_DAEMON_MEMORY": "256m",
    "SPARK_DAEMON_JAVA_OPTS": "-XX:+UseSerialGC",
    "SPARK_MASTER_OPTS": "-Dspark.master.rest.enabled=false",
}
_DEPLOY: Final = "org.apache.spark.deploy"
_HERE: Final = ("--host", "127.0.0.1", "--webui-port", "0")


def clean_environment(further: Mapping[str, str] = {}) -> dict[str, str]:
    """The environment of this process, bound to loopback and without variables that lead to the package."""
    dropped = ("PYTHONPATH", "XDG_CACHE_HOME", "SPARK_HOME")
    kept = {name: value for name, value in os.environ.items() if name not in dropped and not name.startswith("PYSPARK_")}
    path = f"{Path(sys.executable).parent}{os.pathsep}{kept['PATH']}"
    return {**kept, "PATH": path, "SPARK_LOCAL_IP": "127.0.0.1", "SPARK_HOME": str(SPARK_HOME), **further}


def with_archive(environment: Mapping[str, str]) -> dict[str, str]:
    """An environment in which every JVM uses the archive of classes. It is for masters, workers, executors and spark-submit: a run of the
    command itself finds the archive in its cache."""
    return {**environment, "JAVA_TOOL_OPTIONS": f"-XX:TieredStopAtLevel=1 {archive_option()}".rstrip()}


@dataclass(frozen=True)
class Machine:
    """A master or a worker, in a folder."""

    folder: Path
    process: subprocess.Popen[bytes]

    @property
    def log(self) -> str:
        """Its output so far."""
        return (self.folder / "log").read_text(errors="replace")

    def wait_for_line(self, pattern: str) -> str:
        """Waits until a pattern occurs in the output; returns its first group."""
        deadline = time.monotonic() + PATIENCE
        while (found := re.search(pattern, self.log)) is None:
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise AssertionError(f"no line matches {pattern}: {self.log[-4_000:]}")
            time.sleep(0.05)
        return found[1]

    def kill(self) -> None:
        """Kills all of its processes at once with -9."""
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


@dataclass(frozen=True)
class Cluster:
    """A running cluster, in a folder; `url` is the value of `--master`, and `workers` are those that were started, in their order."""

    folder: Path
    url: str
    machines: list[Machine]

    @property
    def workers(self) -> list[Machine]:
        return self.machines[1:]

    def start_workers(self, *cores: int, memory: str = "1g") -> None:
        """Starts a worker for each number of cores, and waits until the master knows them."""
        started = []
        for number, share in enumerate(cores, len(self.machines)):
            own = self.folder / f"worker-{number}"
            options = (*_HERE, "--memory", memory, "--cores", str(share), "--work-dir", str(own / "work"))
            places = {"HOME": str(own / "home"), "XDG_CACHE_HOME": str(own / "cache"), "SPARK_LOCAL_DIRS": str(own / "local")}
            started.append(_start(own, f"{_DEPLOY}.worker.Worker", *options, self.url, **places))
            self.machines.append(started[-1])
        for worker in started:
            worker.wait_for_line(r"(Successfully registered with master)")


def _start(folder: Path, *command: str, **environment: str) -> Machine:
    folder.mkdir(parents=True)
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            [str(SPARK_HOME / "bin/spark-class"), *command],
            cwd=folder, start_new_session=True, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
            env=with_archive(clean_environment({**_DAEMON, **environment})),
        )  # fmt: skip
    return Machine(folder, process)


@contextmanager
def cluster(folder: Path) -> Iterator[Cluster]:
    """A master without workers, while the context is open; then all of its machines are killed. Spark chooses free ports."""
    machines: list[Machine] = []
    try:
        machines.append(master := _start(folder / "master", f"{_DEPLOY}.master.Master", *_HERE, "--port", "0"))
        yield Cluster(folder, master.wait_for_line(r"Starting Spark master at (spark://127\.0\.0\.1:\d+)"), machines)
    finally:
        for machine in reversed(machines):
            machine.kill()
