"""Plots of results as SVG, without a library: lines over a parameter, and bars."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Final
from xml.sax.saxutils import escape

from benchmarks.field.results import CaseResult, Result, by_kind
from benchmarks.field.tables import number

COLOURS: Final = ("#1b6ca8", "#d1495b", "#66a182", "#edae49", "#7d5ba6", "#8c6d46", "#4a4e69", "#00798c")
_WIDTH, _LEFT, _RIGHT, _TOP = 720, 70, 160, 44
Lines = Mapping[str, Sequence[tuple[float, float]]]


def plot(result: Result) -> str:
    """Lines over the axis of a work, or a bar for each system of each case."""
    return line_plot(f"{result.title}", f"{result.axis}", _unit(result), lines(result, result.axis)) if result.axis else bar_plot(result)


def starts(result: Result) -> str:
    """CPU of the start on Spark by kind of process: the first run of each case up to the end of its first batch."""
    rows = {case.name: by_kind(case.systems[0].cold_parts) for case in result.cases if case.systems[0].cold_parts}
    return stacked_bars("CPU of a first run up to the end of its first batch, by kind of process", "seconds", rows)


def lines(result: Result, axis: str) -> Lines:
    """Medians by the parameter, for each system and each group of the cases' other parameters that is measured more than once."""
    found: dict[str, list[tuple[float, float]]] = {}
    for case in result.cases:
        x = case.parameters.get(axis)
        for system in case.systems if isinstance(x, int) else ():
            if system.work is not None and isinstance(x, int):
                words = [str(value) for name, value in case.parameters.items() if name != axis and isinstance(value, str)]
                found.setdefault(", ".join([system.system, *words]), []).append((x, system.work.median))
    return {name: sorted(points) for name, points in found.items() if points}


def line_plot(title: str, x_name: str, y_name: str, series: Lines) -> str:
    """Lines over two logarithmic axes."""
    height = max(380, 60 + 18 * len(series))
    xs = [x for points in series.values() for x, _ in points] or [1]
    ys = [y for points in series.values() for _, y in points] or [1]
    x_of = _scale(min(xs), max(xs), _LEFT, _WIDTH - _RIGHT)
    y_of = _scale(10 ** math.floor(math.log10(min(ys))), 10 ** math.ceil(math.log10(max(ys))), height - 50, _TOP)
    parts = list(_frame(title, height))
    parts += [_text(x_of(x), height - 32, f"{x:,.0f}", "middle") for x in sorted(set(xs))]
    for exponent in range(math.floor(math.log10(min(ys))), math.ceil(math.log10(max(ys))) + 1):
        y = y_of(10.0**exponent)
        parts.append(f'<line x1="{_LEFT}" y1="{y:.1f}" x2="{_WIDTH - _RIGHT}" y2="{y:.1f}" stroke="#ddd"/>')
        parts.append(_text(_LEFT - 8, y + 4, f"{10.0**exponent:g}", "end"))
    parts += [_text((_LEFT + _WIDTH - _RIGHT) / 2, height - 12, x_name, "middle"), _text(_LEFT, _TOP - 10, y_name, "start")]
    for place, (name, points) in enumerate(series.items()):
        colour = COLOURS[place % len(COLOURS)]
        dash = ' stroke-dasharray="5 3"' if name.endswith("each") else ""
        path = " ".join(f"{x_of(x):.1f},{y_of(y):.1f}" for x, y in points)
        parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"{dash}/>')
        parts += [f'<circle cx="{x_of(x):.1f}" cy="{y_of(y):.1f}" r="3" fill="{colour}"/>' for x, y in points]
        at = _TOP + 10 + 18 * place
        parts.append(
            f'<line x1="{_WIDTH - _RIGHT + 12}" y1="{at}" x2="{_WIDTH - _RIGHT + 32}" y2="{at}" stroke="{colour}" stroke-width="2"{dash}/>'
        )
        parts.append(_text(_WIDTH - _RIGHT + 38, at + 4, name, "start"))
    return "\n".join([*parts, "</svg>"]) + "\n"


def bar_plot(result: Result) -> str:
    """A bar for each system of each case, on a logarithmic axis."""
    rows = [(case, system) for case in result.cases for system in case.systems if system.work is not None]
    values = [system.work.median for _, system in rows if system.work is not None] or [1.0]
    colours = {name: COLOURS[place % len(COLOURS)] for place, name in enumerate(result.systems())}
    height, left = _TOP + 20 * len(rows) + 14 * len(result.cases) + 30, 275
    x_of = _scale(min(values) / 2, max(values), left, _WIDTH - 180)
    parts, y, before = list(_frame(result.title, height)), _TOP + 10, None
    parts.append(_text(left, _TOP - 8, _unit(result), "start"))
    for case, system in rows:
        assert system.work is not None
        if case is not before:
            y += 14
            parts.append(_text(8, y + 11, _short(case), "start"))
            before = case
        parts.append(
            f'<rect x="{left}" y="{y}" width="{x_of(system.work.median) - left:.1f}" height="15" fill="{colours[system.system]}"/>'
        )
        parts.append(_text(x_of(system.work.median) + 5, y + 12, f"{number(system.work.median)} {system.system}", "start"))
        y += 20
    return "\n".join([*parts, "</svg>"]) + "\n"


def stacked_bars(title: str, unit: str, rows: Mapping[str, Mapping[str, float]]) -> str:
    """A bar a row, made of parts."""
    names = list(dict.fromkeys(name for parts in rows.values() for name in parts))
    most = max((sum(parts.values()) for parts in rows.values()), default=1.0)
    height, left, width = _TOP + 34 * len(rows) + 40, 190, _WIDTH - _RIGHT - 190
    out = [*_frame(title, height), _text(left, _TOP - 8, unit, "start")]
    for place, (row, parts) in enumerate(rows.items()):
        x, y = float(left), _TOP + 6 + 34 * place
        out.append(_text(8, y + 16, row, "start"))
        for name, value in parts.items():
            wide = value / most * width
            out.append(f'<rect x="{x:.1f}" y="{y}" width="{wide:.1f}" height="24" fill="{COLOURS[names.index(name) % len(COLOURS)]}"/>')
            if wide > 30:
                out.append(_text(x + wide / 2, y + 16, number(value), "middle", "#fff"))
            x += wide
    for place, name in enumerate(names):
        y = _TOP + 10 + 18 * place
        out.append(f'<rect x="{_WIDTH - _RIGHT + 14}" y="{y - 8}" width="12" height="12" fill="{COLOURS[place % len(COLOURS)]}"/>')
        out.append(_text(_WIDTH - _RIGHT + 32, y + 3, name, "start"))
    return "\n".join([*out, "</svg>"]) + "\n"


class _scale:
    """Place of a value on a logarithmic axis.

    >>> _scale(1, 100, 0, 10)(10)
    5.0
    """

    def __init__(self, low: float, high: float, start: float, end: float) -> None:
        self._low = math.log10(low)
        self._range = (math.log10(high) - self._low) or 1.0
        self._start, self._length = start, end - start

    def __call__(self, value: float) -> float:
        return self._start + (math.log10(value) - self._low) / self._range * self._length


def _frame(title: str, height: float) -> Iterator[str]:
    yield (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{height}" viewBox="0 0 {_WIDTH} {height}" '
        'font-family="sans-serif" font-size="12">'
    )
    yield f'<rect width="{_WIDTH}" height="{height}" fill="#fff"/>'
    yield f'<text x="8" y="18" font-weight="bold">{escape(title)}</text>'


def _text(x: float, y: float, text: str, anchor: str, colour: str = "#222") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{colour}">{escape(text)}</text>'


def _unit(result: Result) -> str:
    units = " or ".join(dict.fromkeys(case.unit for case in result.cases))
    return f"µs of CPU, one {units}"


def _short(case: CaseResult) -> str:
    return case.name if len(case.name) < 40 else case.name[:38] + "…"
