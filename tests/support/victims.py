"""A run on Spark with processes that can be killed, and the observed results."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from tests.support.paths import ROOT
from tests.support.patience import PATIENCE

WHO = ("all", "driver", "jvm", "worker", "daemon", "planner")
SURVIVED = {"worker", "daemon", "planner"}
"""Processes whose death a run survives without a restart."""
_DAEMONS = [[daemon, "pyspark.worker"] for daemon in ("dotr.runtimes.spark.daemon", "pyspark.daemon")]
"""The last arguments of the command line of a daemon and its workers: on local masters, and on others."""


class Phase(StrEnum):
    """The phase of a batch, as its files in the checkpoint and in the output show it."""

    BETWEEN = "between batches"
    TASKS = "reading tasks"
    STATE = "state"
    OUTPUT = "output"


AMID = (Phase.TASKS, Phase.STATE, Phase.OUTPUT)
"""The phases of a batch that is planned and not yet committed."""


@dataclass(frozen=True)
class Kill:
    """A kill: of which process, while which batch was the last planned one (-1: none), and its phase."""

    who: str
    batch: int
    phase: Phase

    def __str__(self) -> str:
        return f"{self.who} in batch {self.batch}, {self.phase}" if self.phase in AMID else f"{self.who} after batch {self.batch}"


@dataclass
class Found:
    """Observations of a soak test."""

    kills: list[Kill] = field(default_factory=list)
    starts: int = 0
    recoveries: int = 0
    events: int = 0
    dead: int = 0
    batches: int = 0
    rounds: int = 0
    seconds: float = 0.0
    problems: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        counted = Counter((kill.who, kill.phase) for kill in self.kills)
        kinds = ", ".join(f"{who} {counted[who, phase]} {phase}" for who in WHO for phase in Phase if counted[who, phase])
        return (
            f"{len(self.kills)} kills ({kinds}) in {self.seconds:.0f} s: {self.rounds} rounds, {self.starts} starts, "
            f"{self.recoveries} times a run went on by itself, {self.batches} files of batches, {self.events} events and {self.dead} dead "
            f"letters compared: " + ("all as in undisturbed runs" if not self.problems else "; ".join(self.problems))
        )


def batch_phase(checkpoint: Path, outputs: Sequence[Path], since: float = 0.0) -> tuple[int, Phase]:
    """The last planned batch (-1: none) and its phase.

    Spark writes `offsets/N` first and `commits/N` last; in between, the operators write version N + 1 of each bucket's state, and the
    sink one file for each output. A batch that is repeated finds files of its first try: only those count that were written later than
    `since`, in seconds since the epoch. `outputs`: the folders of the sinks.
    """

    def numbers(name: str) -> list[int]:
        return [int(path.name) for path in checkpoint.glob(f"query*/{name}/[0-9]*")]

    def written(folder: Path, name: str) -> bool:
        """True if there is a file of this name, or one that will be given it."""
        with suppress(FileNotFoundError), os.scandir(folder) as entries:
            found = [Path(entry) for entry in entries if entry.name.removeprefix(".").startswith(name)]
            return any(status.st_mtime >= since for path in found if (status := _status(path)) is not None)
        return False

    batch = max(numbers("offsets"), default=-1)
    if batch <= max(numbers("commits"), default=-1):
        return batch, Phase.BETWEEN
    if any(written(folder, f"{batch:012d}") for folder in outputs):
        return batch, Phase.OUTPUT
    if any(written(folder, f"{batch + 1}.changelog") for folder in checkpoint.glob("query*/state/*/[0-9]*")):
        return batch, Phase.STATE
    return batch, Phase.TASKS


def _status(path: Path) -> os.stat_result | None:
    """The status of a file, if it is still there."""
    try:
        return path.stat()
    except FileNotFoundError:
        return None


class Run:
    """The command, restarted after each death; all its processes are in one session. `module`: the module of the command line."""

    def __init__(self, config: Path, found: Found, module: str = "dotr") -> None:
        self.config = config
        self.module = module
        self.found = found
        self.stderr_text = ""
        self.started = 0.0
        self._log = config.with_suffix(".log")
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, *options: str, standard: int = subprocess.DEVNULL) -> subprocess.Popen[bytes]:
        self.found.starts += 1
        self.started = time.time()
        command = [sys.executable, "-m", self.module, "run", self.config.name, "--engine", "spark", *options]
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                command, start_new_session=True, stdin=standard, stderr=log, env=environment, cwd=self.config.parent
            )
        return self._process

    @property
    def process(self) -> subprocess.Popen[bytes]:
        assert self._process is not None
        return self._process

    def kill(self, who: str, choose: random.Random, moment: Callable[[], tuple[int, Phase]], phases: Sequence[Phase]) -> bool:
        """Kill one of its processes in one of the phases; False if there is no such process, or none of the phases.

        All processes are stopped meanwhile, so the batch has the phase in which the process is killed.
        """
        there = processes(self.process.pid)
        if not (mine := self._victims(who, there, choose)):
            return False
        for pid in there:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGSTOP)
        try:
            batch, phase = moment()
            if phase not in phases:
                return False
            for pid in mine if who == "all" else [choose.choice(mine)]:
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    if who != "all":
                        return False
        finally:
            for pid in there:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGCONT)
        self.found.kills.append(Kill(who, batch, phase))
        return True

    def _victims(self, who: str, there: dict[int, tuple[int, list[str]]], choose: random.Random) -> list[int]:
        """The processes of a kind among those of the session."""
        jvms = [pid for pid, (_, words) in there.items() if "java" in words[0]]
        of_workers = {pid: parent for pid, (parent, words) in there.items() if words[-2:] in _DAEMONS}
        daemons = sorted(pid for pid, parent in of_workers.items() if parent in jvms)
        victims = {
            "all": list(there),
            "driver": [self.process.pid],
            "jvm": jvms,
            "planner": [pid for pid, (_, words) in there.items() if words[-1].endswith("python_streaming_source_runner")],
            "daemon": daemons,
            "worker": [pid for pid, parent in of_workers.items() if parent in daemons],
        }
        return victims[who]

    def ended(self) -> int:
        """Waits for the command and all its processes; returns the exit code."""
        code = self.process.wait()
        deadline = time.monotonic() + PATIENCE
        while processes(self.process.pid) and time.monotonic() < deadline:
            time.sleep(0.05)
        self.stderr_text = output = self._log.read_text(errors="replace")
        for mark in ("Traceback", "\tat ", "fault of dotr's own"):
            if mark in output:
                self.found.problems.append(f"its log has {mark!r}: {output[-2000:]}")
        self.found.recoveries += output.count("It goes on from its checkpoint")
        self._log.unlink()
        return code


def processes(session: int) -> dict[int, tuple[int, list[str]]]:
    """The living processes of a session: their parents and their command lines."""
    found = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                state, parent, _, of = (entry / "stat").read_text().rpartition(")")[2].split()[:4]
                words = (entry / "cmdline").read_bytes().decode(errors="replace").rstrip("\0").split("\0")
            except OSError:
                continue
            if int(of) == session and state != "Z":
                found[int(entry.name)] = int(parent), words
    return found
