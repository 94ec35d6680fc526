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
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pyspark

SPARK_HOME: Final = Path(pyspark.__file__).parent
_PATIENCE_SECONDS: Final = 120
_DAEMON: Final = {
    "SPARK_DAEMON_MEMORY": "256m",
    "SPARK_DAEMON_JAVA_OPTS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "SPARK_MASTER_OPTS": "-Dspark.master.rest.enabled=false",
}


def clean_environment(further: Mapping[str, str] = {}) -> dict[str, str]:
    """The environment of this process, bound to loopback and without variables that lead to the package."""
    dropped = ("PYTHONPATH", "XDG_CACHE_HOME", "SPARK_HOME")
    kept = {name: value for name, value in os.environ.items() if name not in dropped and not name.startswith("PYSPARK_")}
    path = f"{Path(sys.executable).parent}{os.pathsep}{kept['PATH']}"
    return {**kept, "PATH": path, "SPARK_LOCAL_IP": "127.0.0.1", "SPARK_HOME": str(SPARK_HOME), **further}


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
        deadline = time.monotonic() + _PATIENCE_SECONDS
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
    """A running cluster; `url` is the value of `--master`."""

    url: str
    workers: tuple[Machine, ...]


def _start(folder: Path, *command: str, **environment: str) -> Machine:
    folder.mkdir(parents=True)
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            [str(SPARK_HOME / "bin/spark-class"), *command],
            cwd=folder, start_new_session=True, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
            env=clean_environment({**_DAEMON, **environment}),
        )  # fmt: skip
    return Machine(folder, process)


@contextmanager
def cluster(folder: Path, cores: Sequence[int] = (1, 1), memory: str = "1g") -> Iterator[Cluster]:
    """A master and a worker for each number of cores, while the context is open. Spark chooses free ports."""
    machines: list[Machine] = []
    try:
        deploy, here = "org.apache.spark.deploy", ("--host", "127.0.0.1", "--webui-port", "0")
        machines.append(master := _start(folder / "master", f"{deploy}.master.Master", *here, "--port", "0"))
        url = master.wait_for_line(r"Starting Spark master at (spark://127\.0\.0\.1:\d+)")
        options = (*here, "--memory", memory)
        for number, share in enumerate(cores, 1):
            own = folder / f"worker-{number}"
            machines.append(
                _start(
                    own, f"{deploy}.worker.Worker", *options, "--cores", str(share), "--work-dir", str(own / "work"), url,
                    HOME=str(own / "home"), XDG_CACHE_HOME=str(own / "cache"), SPARK_LOCAL_DIRS=str(own / "local"),
                )
            )  # fmt: skip
        for worker in machines[1:]:
            worker.wait_for_line(r"(Successfully registered with master)")
        yield Cluster(url, tuple(machines[1:]))
    finally:
        for machine in reversed(machines):
            machine.kill()
