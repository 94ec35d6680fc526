"""Measuring of systems that take turns: cold, warm, count against the definition.

A system is a process (`serve.py`, or a driver of a peer). Cold is the CPU of its process from its
start to the end of its first run. It is warm when three runs in a row differ by less than 5 %; the
repeats of all systems are then interleaved. A system has no time if a count of it differs from the
definition, or if its first results differ, where a case has the expected ones.
"""

from __future__ import annotations

import json
import signal
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from benchmarks.field.peers import Command, Missing, before, ours, program

OURS: Final = "dotr"
BEFORE: Final = "dotr before"
"""The beginning of the name of dotr at an earlier commit, which `--against` lets take part in turns with the present one."""
ALIKE: Final = 1.05
"""The greatest ratio of the longest to the shortest of three runs of a system that is warm."""

TO_FIRST_BATCH: Final = ", to the end of the first batch"
"""End of the names of the parts of a run on Spark that are seconds of CPU, by kind of process."""
FROM_SECOND_BATCH: Final = "µs an element from the second batch on"

Start = Callable[[], Command]
"""Fetches what a system needs and tells how it is started; raises `Missing`."""


@dataclass(frozen=True, slots=True)
class Repeat:
    """One run: seconds of CPU of the working thread (None: there are several) and of all its processes, and of the clock.

    `parts`: further figures of a run that the work returns.
    """

    thread: float | None
    process: float
    clock: float
    parts: Mapping[str, float] = field(default_factory=dict)

    @property
    def work(self) -> float:
        """Seconds of the working thread, or of the process where there are several."""
        return self.process if self.thread is None else self.thread


@dataclass(frozen=True, slots=True)
class Effort:
    """The number of runs of a case.

    A system runs three times at least before the repeats, a peer `least_peer_runs` times. `warm_runs`
    end the warm-up (of dotr `own_warm_runs`, if that is more, since its runs are short), and so do
    `warm_seconds` of CPU once the least are done.
    """

    repeats: int = 5
    warm_runs: int = 20
    warm_seconds: float = 15.0
    least_peer_runs: int = 3
    own_warm_runs: int = 12


DEFAULT_EFFORT: Final = Effort()


@dataclass(frozen=True, slots=True)
class Case:
    """One row of a table: the same input for all systems, and how many results the definition gives.

    `units` is the number of events, elements or graphs that a figure is divided by; `own` is what
    `serve.py` runs of dotr, `others` how the peers are started, and `cannot` why others are left out.
    `rows` are the results by definition, as texts, each with its kind, which is reported for a wrong
    system; empty if the number is enough. `against` names the case whose figure this one is a multiple of. `needs_java`: dotr runs
    on Spark.
    """

    name: str
    parameters: Mapping[str, str | int]
    unit: str
    units: int
    expected: int
    own: tuple[str, ...]
    others: Mapping[str, Start] = field(default_factory=dict)
    cannot: Mapping[str, str] = field(default_factory=dict)
    effort: Effort = DEFAULT_EFFORT
    rows: Mapping[str, str] = field(default_factory=dict)
    against: str = ""
    needs_java: bool = False

    def systems(self) -> dict[str, Start]:
        """All systems that take part, dotr first."""
        return {OURS: self._own, **self.others}

    def beside(self, commit: str) -> Case:
        """The case with dotr at another commit, too."""
        start = {f"{BEFORE}, {commit[:9]}": lambda: self._own()._replace(folder=before(commit))}
        return replace(self, others={**start, **self.others})

    def _own(self) -> Command:
        if self.needs_java:
            program("java", "Java")
        return ours(*self.own)


@dataclass(frozen=True, slots=True)
class Measured:
    """A system in a case. `reason` says why it has no time: it is missing, cannot express the work, or has another count."""

    system: str
    reason: str | None = None
    cold: Repeat | None = None
    warm_up: tuple[Repeat, ...] = ()
    is_warm: bool = False
    repeats: tuple[Repeat, ...] = ()
    peak_megabytes: float = 0.0


class _Wrong(Exception):
    """A system with another count, or without one."""


def difference(found: Sequence[str], rows: Mapping[str, str]) -> str | None:
    """The way in which results differ from those by definition, by their kinds; None if they do not.

    >>> difference(["a", "c", "c"], {"a": "in a gap", "b": "in a gap", "c": "at the end"})
    'wrong: 2 of 3 (in a gap 1 of 2, at the end 1 of 1; 1 other)'
    >>> difference(["b", "a"], {"a": "in a gap", "b": "in a gap"}) is None
    True
    """
    right = Counter(rows[row] for row in set(found) if row in rows)
    others = len(found) - right.total()
    if right.total() == len(rows) and not others:
        return None
    kinds = ", ".join(f"{kind} {right[kind]:,} of {count:,}" for kind, count in Counter(rows.values()).items())
    return f"wrong: {right.total():,} of {len(rows):,} ({kinds}{f'; {others:,} other' if others else ''})"


class Participant:
    """A system in a process of its own."""

    def __init__(self, name: str, command: Command, folder: Path, rows: Mapping[str, str] | None = None) -> None:
        self.name = name
        self._rows = rows or {}
        self.peak = 0
        self.warm_up: list[Repeat] = []
        self.repeats: list[Repeat] = []
        self.is_warm = False
        self.cold: Repeat | None = None
        self._errors = (folder / f"{name.replace('/', ' ')}.err").open("w+", encoding="utf-8")
        self._began = time.perf_counter()
        self._process = subprocess.Popen(
            command.words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._errors, text=True, cwd=command.folder
        )

    def wait_until_ready(self) -> None:
        """Returns when the work is prepared."""
        self._answer()

    def run(self, expected: int) -> Repeat:
        """One run; its count has to be that of the definition."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write("run\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            raise _Wrong(self._failure()) from None
        found = self._answer()
        if self._rows and (texts := found.get("rows")) is not None and (wrong := difference(texts, self._rows)):
            raise _Wrong(wrong)
        if found["count"] != expected:
            raise _Wrong(f"wrong: {found['count']:,.0f} of {expected:,}")
        self.peak = max(self.peak, int(found["peak"] or 0))
        thread, process, clock, total, parts = found["thread"], found["process"], found["clock"], found["total"], found.get("parts")
        if self.cold is None:
            self.cold = Repeat(None, total, time.perf_counter() - self._began, parts or {})
        return Repeat(thread, process, clock, parts or {})

    def warm(self, expected: int, effort: Effort) -> None:
        """Runs until three runs in a row are alike, or there is no more time."""
        is_own = self.name.startswith(OURS)
        least = 3 if is_own else max(3, effort.least_peer_runs)
        most = max(effort.warm_runs, effort.own_warm_runs) if is_own else effort.warm_runs
        while not self.is_warm and len(self.warm_up) < most and (len(self.warm_up) < least or self._used() < effort.warm_seconds):
            self.warm_up.append(self.run(expected))
            last = [repeat.work for repeat in self.warm_up[-3:]]
            self.is_warm = len(self.warm_up) >= least and max(last) < ALIKE * min(last)

    def _used(self) -> float:
        return sum(repeat.process for repeat in self.warm_up)

    def stop(self, patience: float = 20) -> None:
        """Ends the process, after a grace period in seconds."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            self._process.stdin.close()
            self._process.wait(patience)
        except (subprocess.TimeoutExpired, BrokenPipeError):
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()
        self._errors.close()

    def measured(self, reason: str | None = None) -> Measured:
        if reason is not None:
            return Measured(self.name, reason)
        return Measured(self.name, None, self.cold, tuple(self.warm_up), self.is_warm, tuple(self.repeats), round(self.peak / 1024, 1))

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith("{"):
                found: dict[str, Any] = json.loads(line)
                return found
        raise _Wrong(self._failure())

    def _failure(self) -> str:
        self._process.wait()
        self._errors.seek(0)
        lines = [line.strip() for line in self._errors if line.strip() and not line.startswith((" ", "\t"))]
        errors = [line for line in lines if "Error" in line or "Exception" in line] or lines or [""]
        return f"failed: {errors[-1][:200]}"


def measure(case: Case, say: Callable[[str], None]) -> list[Measured]:
    """All systems of a case, in turns."""
    results: dict[str, Measured] = {name: Measured(name, f"cannot say it: {why}") for name, why in case.cannot.items()}
    running: list[Participant] = []
    with tempfile.TemporaryDirectory() as folder:
        try:
            for name, start in case.systems().items():
                try:
                    command = start()
                    with _interrupts_deferred():
                        running.append(participant := Participant(name, command, Path(folder), case.rows))
                except Missing as missing:
                    results[name] = Measured(name, f"missing: {missing}")
                    continue
                _try(participant, running, results, lambda each: _warm(each, case))
            for _ in range(case.effort.repeats):
                for participant in running:
                    _try(participant, running, results, lambda each: each.repeats.append(each.run(case.expected)))
        except KeyboardInterrupt:
            for participant in running:
                participant.stop(patience=0)
            raise
        for participant in running:
            participant.stop()
            results[participant.name] = participant.measured()
    found = [results[name] for name in (*case.systems(), *case.cannot)]
    for each in found:
        say(f"  {each.system:<24} {describe(each, case)}")
    return found


@contextmanager
def _interrupts_deferred() -> Iterator[None]:
    """Signals SIGINT and SIGTERM that come within the block take effect at its end: a process that is being started is known by then."""
    arrived: list[int] = []
    handlers = {number: signal.signal(number, lambda came, _: arrived.append(came)) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
        for came in arrived:
            signal.raise_signal(came)


def _warm(participant: Participant, case: Case) -> None:
    participant.wait_until_ready()
    participant.warm(case.expected, case.effort)


def _try(participant: Participant, running: list[Participant], results: dict[str, Measured], do: Callable[[Participant], None]) -> None:
    try:
        do(participant)
    except _Wrong as wrong:
        participant.stop()
        running.remove(participant)
        results[participant.name] = participant.measured(str(wrong))


def describe(measured: Measured, case: Case) -> str:
    """A line on a system in a case."""
    if measured.reason is not None:
        return measured.reason
    assert measured.cold is not None
    low, middle, high = spread([repeat.work for repeat in measured.repeats])
    scale = 1e6 / case.units
    warm = f"{'' if measured.is_warm else 'not '}warm after {len(measured.warm_up)}"
    return (
        f"{middle * scale:9.2f} µs of CPU, one {case.unit} ({low * scale:.2f} to {high * scale:.2f}; {warm}), "
        f"cold {measured.cold.process:.2f} s, {measured.peak_megabytes:.0f} MB"
    )


def spread(values: Sequence[float]) -> tuple[float, float, float]:
    """Least, median and greatest.

    >>> spread([3.0, 1.0, 2.0])
    (1.0, 2.0, 3.0)
    """
    ordered = sorted(values)
    middle = len(ordered) // 2
    median = ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2
    return ordered[0], median, ordered[-1]
