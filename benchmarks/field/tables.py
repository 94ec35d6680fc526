"""Markdown of a result."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from benchmarks.field.measuring import BEFORE
from benchmarks.field.results import CaseResult, Figures, Result, SystemResult


def number(value: float) -> str:
    """A figure as tables show it: three significant digits, at least to the unit.

    >>> [number(value) for value in (0.6789, 3.456, 34.56, 345.6, 34567.8)]
    ['0.68', '3.46', '34.6', '346', '34,568']
    """
    if value < 10:
        return f"{value:.2f}"
    return f"{value:.1f}" if value < 100 else f"{value:,.0f}"


def span(figures: Figures) -> str:
    """Median, with the range.

    >>> span(Figures(3.1, 3.2, 3.9))
    '3.20 (3.10–3.90)'
    """
    return f"{number(figures.median)} ({number(figures.least)}–{number(figures.greatest)})"


def grid(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table."""
    lines = [header, ["---"] * len(header), *rows]
    return "".join("| " + " | ".join(line) + " |\n" for line in lines)


def comparison(result: Result) -> str:
    """A row a case, a column a system: median of the working thread's CPU, with the range; and the multiples of other rows, if any are."""
    names = result.systems()
    rows = [[case.name, *(_cell(case.of(name)) for name in names)] for case in result.cases]
    units = " or ".join(dict.fromkeys(case.unit for case in result.cases))
    header = [f"µs of CPU, one {units}", *names]
    if any(case.times is not None for case in result.cases):
        header.append("against")
        for row, case in zip(rows, result.cases, strict=True):
            row.append("–" if case.times is None else f"{number(case.times)} × {case.against}")
    return grid(header, rows)


def _cell(system: SystemResult | None) -> str:
    if system is None:
        return "–"
    if system.work is None:
        return system.reason or "–"
    return span(system.work) + ("" if system.thread else " ᵖ") + ("" if system.is_warm else " *")


def details(result: Result) -> str:
    """A row for each system of each case, with all figures."""
    header = ["case", "system", "thread", "process", "clock", "cold: s of CPU", "cold: s of the clock", "peak MB", "warm after"]
    return grid(header, [row for case in result.cases for row in _detail_rows(case)])


def _detail_rows(case: CaseResult) -> Iterator[list[str]]:
    for system in case.systems:
        if system.process is None or system.clock is None:
            yield [case.name, system.system, system.reason or "–", *["–"] * 6]
            continue
        yield [
            case.name,
            system.system,
            span(system.thread) if system.thread else "several",
            span(system.process),
            span(system.clock),
            number(system.cold_seconds or 0),
            number(system.cold_clock or 0),
            f"{system.peak_megabytes:,.0f}",
            f"{system.warm_up_runs} runs" if system.is_warm else f"not, {system.warm_up_runs} runs",
        ]


def ratios(result: Result) -> str:
    """A row for each case that was measured at an earlier commit, too: the ratios of the present figures to the earlier ones."""
    rows = []
    for case in result.cases:
        own = case.systems[0]
        for before in (each for each in case.systems if each.system.startswith(BEFORE)):
            if own.work and before.work:
                cold = (own.cold_seconds or 0) / (before.cold_seconds or 1)
                peak = own.peak_megabytes / before.peak_megabytes
                rows.append([case.name, before.system, number(own.work.median / before.work.median), number(cold), number(peak)])
    if not rows:
        return ""
    table = grid(["case", "measured in turns with", "CPU, median", "cold CPU of the process", "peak of memory"], rows)
    return f"## Ratios of now to before\n\n{table}\n"


def provenance(result: Result) -> str:
    """A line with time, machine and load of a result."""
    machine = result.machine
    before, after = (" ".join(map(str, loads)) for loads in (result.load_before, result.load_after))
    return (
        f"`{result.command}`, {result.date}, commit {result.commit[:9]}{'+changes' if '+' in result.commit else ''}; {machine.processor}, "
        f"{machine.cores} cores, {machine.memory_gigabytes} GB, {machine.system}, {machine.python}, {machine.java}; "
        f"load before {before}, after {after}; {result.seconds:.0f} s."
    )


NOTES = (
    "Median of the repeats, with least and greatest. CPU of the working thread; ᵖ: of the whole process, where several threads work. "
    "*: three runs in a row never were within 5 %."
)


def page(result: Result) -> str:
    """The Markdown file of a result."""
    expected = grid(
        ["case", "unit", "units", "results by definition"], [[c.name, c.unit, f"{c.units:,}", f"{c.expected:,}"] for c in result.cases]
    )
    return (
        f"# {result.title}\n\n{provenance(result)}\n\n{comparison(result)}\n{NOTES}\n\n![{result.work}]({result.work}.svg)\n\n"
        f"{ratios(result)}## All that was measured\n\nMicroseconds a unit; the JSON file has every repeat.\n\n{details(result)}\n{expected}"
    )
