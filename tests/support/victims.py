"""A run on Spark with processes that can be killed, and the observed results."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from tests.support.paths import ROOT

WHO = ("all", "driver", "jvm", "reader", "stateful", "daemon", "planner")
SURVIVED = {"reader", "stateful", "daemon", "planner"}
"""Processes whose death a run survives without a restart."""
_DAEMONS = [[daemon, "pyspark.worker"] for daemon in ("dotr.runtimes.spark.daemon", "pyspark.daemon")]
"""The last arguments of the command line of a daemon and its workers: on local masters, and on others."""


@dataclass
class Found:
    """Observations of a soak test."""

    kills: Counter[str] = field(default_factory=Counter)
    starts: int = 0
    recoveries: int = 0
    events: int = 0
    dead: int = 0
    batches: int = 0
    rounds: int = 0
    seconds: float = 0.0
    problems: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        kinds = ", ".join(f"{name} {self.kills[name]}" for name in WHO if self.kills[name])
        return (
            f"{sum(self.kills.values())} kills ({kinds}) in {self.seconds:.0f} s: {self.rounds} rounds, {self.starts} starts, "
            f"{self.recoveries} times a run went on by itself, {self.batches} files of batches, {self.events} events and {self.dead} dead "
            f"letters compared: " + ("all as in undisturbed runs" if not self.problems else "; ".join(self.problems))
        )


class Run:
    """The command, restarted after each death; all its processes are in one session. `module`: the module of the command line."""

    def __init__(self, config: Path, found: Found, module: str = "dotr") -> None:
        self.config = config
        self.module = module
        self.found = found
        self.stderr_text = ""
        self._log = config.with_suffix(".log")
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, *options: str, standard: int = subprocess.DEVNULL) -> subprocess.Popen[bytes]:
        self.found.starts += 1
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

    def kill(self, who: str, choose: random.Random) -> bool:
        """Kill one of its processes; False if there is no such process."""
        there = processes(self.process.pid)
        victims = {
            "all": list(there),
            "driver": [self.process.pid],
            "jvm": [pid for pid, (_, words) in there.items() if "java" in words[0]],
            "planner": [pid for pid, (_, words) in there.items() if words[-1].endswith("python_streaming_source_runner")],
        }
        jvms = set(victims["jvm"])
        of_workers = {pid: parent for pid, (parent, words) in there.items() if words[-2:] in _DAEMONS}
        daemons = sorted(pid for pid, parent in of_workers.items() if parent in jvms)
        victims["daemon"] = daemons[-1:] if choose.random() < 0.5 else daemons[:1]
        victims["reader"] = [pid for pid, parent in of_workers.items() if parent in daemons[:1]]
        victims["stateful"] = [pid for pid, parent in of_workers.items() if parent in daemons[1:]]
        mine = victims[who]
        if not mine:
            return False
        for pid in mine if who == "all" else [choose.choice(mine)]:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                if who != "all":
                    return False
        self.found.kills[who] += 1
        return True

    def ended(self) -> int:
        """Waits for the command and all its processes; returns the exit code."""
        code = self.process.wait()
        deadline = time.monotonic() + 60
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
