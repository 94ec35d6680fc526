"""Plugin of pytest that writes the CPU time of each test, and of the processes that the test starts.

`python -m pytest -p tests.support.cpu_time` with `DOTR_CPU_TIMES=FILE` appends a line for each test: its name, then seconds of CPU of this
process and of its children, separated by tabs. `python -m tests.support.cpu_time FILE` prints the sums and the twenty longest.

Children are all descendants that live (`/proc`), and those that have ended. A process that outlives its parent becomes a child of this one
(Linux: `PR_SET_CHILD_SUBREAPER`), where it counts, too, since nobody waits for it. A Spark session that several tests share counts for the
test during which it works.
"""

from __future__ import annotations

import ctypes
import os
import resource
import sys
from collections import defaultdict
from collections.abc import Generator
from contextlib import suppress
from pathlib import Path
from typing import Final

import pytest

_TICKS: Final = os.sysconf("SC_CLK_TCK")
_PR_SET_CHILD_SUBREAPER: Final = 36


def pytest_configure() -> None:
    """Become the parent of processes that outlive theirs, as a JVM does that a command has started."""
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, bool | None, bool | None]:
    """Write the line of a test behind its teardown."""
    children, own = _descendants(), _own()
    result = yield
    own_after, children_after = _own(), _descendants()
    if path := os.environ.get("DOTR_CPU_TIMES"):
        with open(path, "a", encoding="utf-8") as file:
            file.write(f"{item.nodeid}\t{own_after - own:.3f}\t{max(0.0, children_after - children):.3f}\n")
    return result


def _own() -> float:
    """CPU seconds of this process since its start."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def _descendants() -> float:
    """CPU seconds of all descendants; the search takes 5 ms of this process's own, which no test is charged with."""
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    return ended.ru_utime + ended.ru_stime + _living_descendants()


def _living_descendants() -> float:
    children: dict[int, list[tuple[int, float]]] = defaultdict(list)
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            with suppress(OSError, IndexError):  # the process has ended since
                fields = (folder / "stat").read_text().rpartition(")")[2].split()
                # behind the name: state, parent, …; the 12th to 15th are the times of the process and of its ended children
                children[int(fields[1])].append((int(folder.name), sum(map(int, fields[11:15])) / _TICKS))
    seconds, parents = 0.0, [os.getpid()]
    while parents:
        for process, used in children.pop(parents.pop(), ()):
            seconds += used
            parents.append(process)
    return seconds


def main(path: str) -> None:
    """Print sums by folder and the longest tests of a file that the plugin wrote."""
    rows: list[tuple[str, float, float]] = []
    for line in Path(path).read_text(encoding="utf-8").splitlines():
        name, own_text, children_text = line.split("\t")
        rows.append((name, float(own_text), float(children_text)))
    folders: dict[str, float] = defaultdict(float)
    files: dict[str, float] = defaultdict(float)
    for name, own, children in rows:
        file = name.partition("::")[0]
        files[file] += own + children
        folders["/".join(file.split("/")[:2])] += own + children
    own_sum, child_sum = sum(own for _, own, _ in rows), sum(children for *_, children in rows)
    lines = [f"{len(rows):,} tests: {own_sum:.0f} s of their own, {child_sum:.0f} s of children"]
    for title, sums in (("folders", folders), ("files", files), ("tests", {name: own + children for name, own, children in rows})):
        lines += ["", title, *(f"{seconds:8.1f}  {name}" for name, seconds in sorted(sums.items(), key=lambda item: -item[1])[:20])]
    sys.stdout.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    main(sys.argv[1])
