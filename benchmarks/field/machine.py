"""The machine, versions, and commit that a result belongs to."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from benchmarks.field.peers import ROOT


@dataclass(frozen=True, slots=True)
class Machine:
    """The environment of a figure: everything that it depends on except the program."""

    processor: str
    cores: int
    memory_gigabytes: float
    system: str
    python: str
    java: str
    node: str


def this_machine() -> Machine:
    """The machine that this process runs on."""
    models = [line.partition(":")[2].strip() for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name")]
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return Machine(
        processor=models[0] if models else platform.machine(),
        cores=os.cpu_count() or 1,
        memory_gigabytes=round(memory, 1),
        system=platform.platform(),
        python=f"{platform.python_implementation()} {platform.python_version()}",
        java=_first_line("java", "-version"),
        node=_first_line("node", "--version"),
    )


def load() -> list[float]:
    """Runnable processes on the average of 1, 5 and 15 minutes."""
    return [round(each, 2) for each in os.getloadavg()]


OWN: Final = ("dotr", "benchmarks", ":(exclude)benchmarks/results")
"""All that a figure of dotr is made by: the program, and what measures it."""


def commit() -> str:
    """The commit that is checked out, and whether tracked files of the program or of the benchmarks differ from it."""
    changed = git("status", "--porcelain", "--untracked-files=no", "--", *OWN)
    return (git("rev-parse", "HEAD") or "") + ("+changes" if changed else "")


def git(*arguments: str, root: Path = ROOT) -> str | None:
    """The output of a git command in a repository, None where it fails."""
    done = subprocess.run(("git", *arguments), cwd=root, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    return done.stdout.strip() if done.returncode == 0 else None


def is_stale(measured_at: str, packages: Sequence[str], root: Path = ROOT) -> bool:
    """True if one of the packages was changed (but for its Markdown) after the commit of a result, or that commit is not known here."""
    changed = git("log", "-1", "--format=%H", f"{measured_at}..HEAD", "--", *packages, ":(exclude)*.md", root=root)
    return changed is None or changed != ""


def is_as_now(measured_at: str) -> bool:
    """True if a result was measured with the present program and benchmarks."""
    now = commit()
    return now == measured_at or ("+" not in now + measured_at and git("diff", "--quiet", measured_at, "HEAD", "--", *OWN) is not None)


def _first_line(program: str, option: str) -> str:
    if shutil.which(program) is None:
        return "none"
    done = subprocess.run((program, option), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    return done.stdout.partition("\n")[0].strip()
