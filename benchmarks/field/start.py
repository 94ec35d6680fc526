"""The start of a command: CPU of the whole process, on inputs whose work takes 30 ms, or 100 (the city).

The first command finds no kept programs, the second those of the one before; compiled modules are
there for both. Each command is a process of its own, as a shell starts it.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from resource import RUSAGE_CHILDREN, getrusage
from typing import Final, NamedTuple

from benchmarks.field.measuring import Case, Effort
from benchmarks.field.serve import Prepared
from benchmarks.field.works import Scale, Work


class _Command(NamedTuple):
    """A command: its arguments for an example, the number of its report for each example, and where this number stands."""

    words: str
    counts: dict[str, int]
    report: str


_OUTPUTS: Final = (
    "--set output.0.path={folder}/events.ndjson --set output.1.path={folder}/events.trig --set dead_letter={folder}/dead.ndjson"
)
_COMMANDS: Final = {
    "run": _Command(f"run configs/{{example}}.yaml --engine local --fresh {_OUTPUTS}", {"fire": 2, "city": 168}, r"([\d,]+) events ->"),
    "check": _Command("check configs/{example}.yaml", {"fire": 1, "city": 1}, r"(\d+) file checked: no errors"),
    "test": _Command("test tests/rules/{example}.yaml", {"fire": 4, "city": 7}, r"(\d+) passed, 0 failed"),
}


def command(name: str, example: str, which: str, folder: str) -> Prepared:
    """A command on an example: the first, or a later one on unchanged texts; caches and outputs are in a folder."""
    found = _COMMANDS[name]
    words = [sys.executable, "-m", "dotr", *(word.format(example=example, folder=folder) for word in found.words.split())]
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"} | {"XDG_CACHE_HOME": folder}

    def run() -> int:
        done = subprocess.run(words, env=environment, capture_output=True, text=True, check=False)
        report = re.search(found.report, done.stdout + done.stderr)
        if done.returncode or report is None:
            raise ValueError(f"{' '.join(words)} ended with {done.returncode}: {done.stderr}")
        return int(report[1].replace(",", ""))

    def before() -> None:
        if which == "first":
            shutil.rmtree(Path(folder, "dotr", "programs"), ignore_errors=True)

    Path(folder).mkdir(parents=True, exist_ok=True)
    run()
    return Prepared(run, _seconds, before, is_one_thread=False, peak=lambda: getrusage(RUSAGE_CHILDREN).ru_maxrss)


def _seconds() -> float:
    """Seconds of CPU of the commands so far."""
    used = getrusage(RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def cases(scale: Scale, folder: Path) -> Iterator[Case]:
    """Each command on each example, first and second; the fire alone, and first, where only results are compared."""
    small = scale is Scale.HUNDREDTH
    for example in ("fire",) if small else ("fire", "city"):
        for name, found in _COMMANDS.items():
            for which in ("first",) if small else ("first", "second"):
                yield Case(
                    name=f"{name} of the {example}: {which} command",
                    parameters={"command": name, "example": example, "which": which},
                    unit="command",
                    units=1,
                    expected=found.counts[example],
                    effort=Effort(warm_runs=3, own_warm_runs=3),
                    own=("benchmarks.field.start:command", name, example, which, str(folder / f"{name}-{example}-{which}")),
                )


WORK: Final = Work(
    name="start",
    title="Start of a command: the whole process, first and second command",
    packages=("dotr",),
    minutes=2,
    cases=cases,
)
