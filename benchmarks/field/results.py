"""A result: written as JSON, with every repeat, and read again for tables and plots."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from benchmarks.field.machine import Machine
from benchmarks.field.measuring import BEFORE, TO_FIRST_BATCH, Case, Measured, Repeat, spread
from benchmarks.field.peers import ROOT

RESULTS: Final = ROOT / "benchmarks" / "results"


@dataclass(frozen=True, slots=True)
class Figures:
    """Least, median and greatest of the repeats, in microseconds a unit."""

    least: float
    median: float
    greatest: float

    @classmethod
    def of(cls, seconds: Sequence[float], units: int) -> Figures:
        return cls(*(round(each * 1e6 / units, 3) for each in spread(seconds)))


@dataclass(frozen=True, slots=True)
class SystemResult:
    """A system in a case; `reason`: it has no figures.

    CPU of the working thread (where there is one), CPU of all its processes, and the clock are
    microseconds a unit; `cold_seconds` are of the process from its start to the end of its first run.
    """

    system: str
    reason: str | None
    thread: Figures | None
    process: Figures | None
    clock: Figures | None
    cold_seconds: float | None
    cold_clock: float | None
    warm_up_runs: int
    is_warm: bool
    peak_megabytes: float
    repeats: tuple[Repeat, ...]
    warm_up: tuple[Repeat, ...]
    cold_parts: Mapping[str, float] = field(default_factory=dict)

    @property
    def work(self) -> Figures | None:
        """CPU of the working thread, or of the process where there are several."""
        return self.thread or self.process


@dataclass(frozen=True, slots=True)
class CaseResult:
    """A case with all systems, dotr first.

    `against` names another case of the work, and `times` is dotr's cost as a multiple of its cost there.
    """

    name: str
    parameters: Mapping[str, str | int]
    unit: str
    units: int
    expected: int
    systems: tuple[SystemResult, ...]
    against: str = ""
    times: float | None = None

    def of(self, system: str) -> SystemResult | None:
        """The result of a system, None if it is not in this case."""
        return next((each for each in self.systems if each.system == system), None)


@dataclass(frozen=True, slots=True)
class Result:
    """A run of a work."""

    work: str
    title: str
    command: str
    scale: str
    packages: tuple[str, ...]
    axis: str | None
    commit: str
    date: str
    seconds: float
    load_before: tuple[float, ...]
    load_after: tuple[float, ...]
    machine: Machine
    cases: tuple[CaseResult, ...]

    def systems(self) -> list[str]:
        """Names of all systems, in the order in which they appear."""
        return list(dict.fromkeys(each.system for case in self.cases for each in case.systems))

    def present(self) -> Result:
        """The result without dotr at an earlier commit, for the pages and the plots."""
        kept = ((case, tuple(each for each in case.systems if not each.system.startswith(BEFORE))) for case in self.cases)
        return replace(self, cases=tuple(replace(case, systems=systems) for case, systems in kept))


def case_result(case: Case, measured: Sequence[Measured]) -> CaseResult:
    """Figures of a case from its repeats."""
    return CaseResult(
        case.name,
        dict(case.parameters),
        case.unit,
        case.units,
        case.expected,
        tuple(_system(case, each) for each in measured),
        case.against,
    )


def with_multiples(cases: Sequence[CaseResult]) -> tuple[CaseResult, ...]:
    """The cases with their cost as a multiple of that of the case that they name, if both have figures."""
    by_name = {case.name: case.systems[0].work for case in cases}
    found = []
    for case in cases:
        own, other = case.systems[0].work, by_name.get(case.against)
        found.append(replace(case, times=round(own.median / other.median, 2)) if own and other else case)
    return tuple(found)


def _system(case: Case, measured: Measured) -> SystemResult:
    repeats, cold = measured.repeats, measured.cold
    if measured.reason is not None or cold is None:
        return SystemResult(measured.system, measured.reason, None, None, None, None, None, 0, False, 0.0, (), ())
    threads = [repeat.thread for repeat in repeats if repeat.thread is not None]
    return SystemResult(
        measured.system,
        None,
        Figures.of(threads, case.units) if threads else None,
        Figures.of([repeat.process for repeat in repeats], case.units),
        Figures.of([repeat.clock for repeat in repeats], case.units),
        round(cold.process, 2),
        round(cold.clock, 2),
        len(measured.warm_up),
        measured.is_warm,
        measured.peak_megabytes,
        repeats,
        measured.warm_up,
        dict(cold.parts),
    )


def by_kind(parts: Mapping[str, float]) -> dict[str, float]:
    """Seconds of CPU up to the end of the first batch, by kind of process.

    >>> by_kind({"JVM, to the end of the first batch": 3.0, "µs an element from the second batch on": 28.0})
    {'JVM': 3.0}
    """
    return {name.removesuffix(TO_FIRST_BATCH): value for name, value in parts.items() if name.endswith(TO_FIRST_BATCH) and value}


def write(result: Result, path: Path) -> None:
    """Writes a result as JSON."""
    write_whole(path, json.dumps(asdict(result), indent=1, default=str) + "\n")


def write_whole(path: Path, text: str) -> None:
    """Writes a file atomically: it is complete or absent if the process is stopped."""
    path.parent.mkdir(parents=True, exist_ok=True)
    half = path.with_name(f".{path.name}.half")
    half.write_text(text, encoding="utf-8")
    half.replace(path)


def read(path: Path) -> Result:
    """A result that was written."""
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    cases = tuple(CaseResult(**{**case, "systems": tuple(map(_read_system, case["systems"]))}) for case in found["cases"])
    lists = {name: tuple(found[name]) for name in ("packages", "load_before", "load_after")}
    return Result(**{**found, **lists, "machine": Machine(**found["machine"]), "cases": cases})


def _read_system(found: dict[str, Any]) -> SystemResult:
    figures = {name: None if found[name] is None else Figures(**found[name]) for name in ("thread", "process", "clock")}
    runs = {name: tuple(Repeat(**each) for each in found[name]) for name in ("repeats", "warm_up")}
    return SystemResult(**{**found, **figures, **runs})


def all_results(folder: Path = RESULTS) -> Iterator[Result]:
    """The results of a folder."""
    for path in sorted(folder.glob("*.json")):
        yield read(path)
