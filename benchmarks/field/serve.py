"""One system in a process of its own, which repeats its work at each line "run" of standard input.

    python -m benchmarks.field.serve MODULE:FUNCTION ARGUMENT…

The function prepares the work and returns a function that runs it once and returns its count. The answer to each
line is a JSON object: count, seconds of CPU of the working thread and of the whole process, of the
clock, CPU of the process since it began, and its peak of memory in kilobytes; the first answer also
has the results as texts, where the work compares more than their number. Peers written in Java
and JavaScript use the same protocol (`drivers/`). Imports nothing but the standard library: it also runs under
the interpreters that hold other systems.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from importlib import import_module
from typing import NamedTuple


def nothing() -> None:
    """Prepares nothing."""


def no_rows() -> list[str] | None:
    """No rows: only the count is compared."""
    return None


def peak_kilobytes(process: str = "self") -> int:
    """The most memory that this process, or one with a number, has held."""
    with open(f"/proc/{process}/status", encoding="utf-8") as status:
        return next((int(line.split()[1]) for line in status if line.startswith("VmHWM")), 0)


class Prepared(NamedTuple):
    """A work that is ready to run, and the clock of the CPU of all processes that do it.

    `before` is called before each run, outside the time, if a run consumes what was prepared. `parts`
    gives further figures of the last run, and `rows` its results as texts, outside the time.
    """

    run: Callable[[], int]
    process: Callable[[], float] = time.process_time
    before: Callable[[], None] = nothing
    parts: Callable[[], dict[str, float]] = dict
    is_one_thread: bool = True
    rows: Callable[[], list[str] | None] = no_rows
    peak: Callable[[], int] = peak_kilobytes


def prepare(function: str, arguments: tuple[str, ...]) -> Prepared:
    """The result of `MODULE:FUNCTION` for its arguments."""
    module, _, name = function.partition(":")
    found = getattr(import_module(module), name)(*arguments)
    return found if isinstance(found, Prepared) else Prepared(found)


def run_once(function: str, *arguments: str) -> tuple[int, list[str] | None]:
    """The count of one run in this process, and its results as texts."""
    prepared = prepare(function, arguments)
    prepared.before()
    return prepared.run(), prepared.rows()


def main() -> None:
    """Serve until standard input ends."""
    output, sys.stdout = sys.stdout, sys.stderr
    function, *arguments = sys.argv[1:]
    prepared = prepare(function, tuple(arguments))
    output.write(json.dumps({"ready": sys.version.split()[0]}) + "\n")
    output.flush()
    is_first = True
    for line in sys.stdin:
        if line.strip() != "run":
            break
        prepared.before()
        clock, process, thread = time.perf_counter(), prepared.process(), time.thread_time()
        count = prepared.run()
        thread, process, clock = time.thread_time() - thread, prepared.process() - process, time.perf_counter() - clock
        found = {
            "count": count,
            "thread": thread if prepared.is_one_thread else None,
            "process": process,
            "clock": clock,
            "total": prepared.process(),
            "peak": prepared.peak(),
            "parts": prepared.parts(),
            "rows": prepared.rows() if is_first else None,
        }
        is_first = False
        output.write(json.dumps(found) + "\n")
        output.flush()


if __name__ == "__main__":
    # The module that works import, not the copy of it that runs under the name __main__.
    import_module("benchmarks.field.serve").main()
