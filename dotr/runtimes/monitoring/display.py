"""Progress of a run on stderr: a rewritten line on a terminal, a line every ten seconds elsewhere.

JSON progress is one object a line: reports (fields in docs/operation.md), the last with
`"final": true`, and log messages between them as `{"level": …, "message": …}`.
"""

from __future__ import annotations

import json
import logging
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from dotr.errors.terminal import escape_controls, print_stderr, stderr_is_terminal
from dotr.evaluation.expressions.values.times import format_time
from dotr.model.stream import Reason
from dotr.model.time import LAST_MICRO, Micros
from dotr.runtimes.monitoring.dead_letter_log import LOG
from dotr.runtimes.monitoring.progress import Figures, LatestFigures
from dotr.runtimes.monitoring.progress import InputProgress as InputProgress
from dotr.runtimes.monitoring.progress import RunProgress as RunProgress
from dotr.runtimes.monitoring.progress import StoredCount as StoredCount
from dotr.runtimes.monitoring.totals import Totals
from dotr.streams.sinks.batches import ServedCounts
from dotr.temporal.matching.rule_counts import RuleCounts

_EVERY_SECONDS = 10.0
_AS_TERMINAL = ("FORCE_COLOR", "TTY_COMPATIBLE")
"""Variables of the environment by which rich takes standard error for a terminal."""


@contextmanager
def progress_line(name: str, *, quiet: bool) -> Iterator[ProgressLine]:
    """Context with a line of progress on stderr, below the log messages; `name` is the pipeline's.

    With `quiet` only errors are printed. Yields the callable that receives the totals.
    """
    level = logging.ERROR if quiet else logging.WARNING
    if not any(map(os.environ.get, _AS_TERMINAL)) and not stderr_is_terminal():
        with _handled(_Handler(_print_plain, level), level):
            yield ProgressLine(name, _no_text) if quiet else ProgressLine(name, _print_plain, _EVERY_SECONDS)
        return
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

    console = Console(stderr=True, highlight=False)

    def print_above(text: str) -> None:
        """Print a text literally, without markup and emoji codes."""
        console.print(escape_controls(text), markup=False, emoji=False, soft_wrap=True)

    with _handled(_Handler(print_above, level), level):
        if quiet:
            yield ProgressLine(name, _no_text)
        elif console.is_terminal:
            with Live(Text(escape_controls(f"{name}: starting")), console=console, refresh_per_second=4, transient=True) as live:
                yield ProgressLine(name, lambda text: live.update(Text(escape_controls(text))))
        else:
            yield ProgressLine(name, print_above, _EVERY_SECONDS)


class ProgressLine:
    """Line of a run's progress, passed to `show` at least `interval` seconds apart.

    The line is called with the totals so far; `report_activity` is called before the first totals.
    `heartbeat`: the text of the clock's last heartbeat, set by the run.
    """

    def __init__(self, name: str, show: Callable[[str], None], interval: float = 0.0) -> None:
        self._name = name
        self._show = show
        self._interval = interval
        self._activity = ""
        self.heartbeat = ""
        self._totals = Totals()
        self._started = self._last = time.monotonic()

    def __call__(self, totals: Totals) -> None:
        self._totals = totals
        self._refresh()

    def report_activity(self, activity: str) -> None:
        """Show an activity in place of the totals, until it is replaced by an empty text."""
        self._activity = activity
        self._refresh()

    def _refresh(self) -> None:
        now = time.monotonic()
        if now - self._last >= self._interval:
            self._last = now
            self._show(line(self._name, self._totals, now - self._started, self._activity, self.heartbeat))


def _print_plain(text: str) -> None:
    """Print a text where there is no terminal, with spaces for tabs."""
    print_stderr(text.expandtabs())


def _no_text(text: str) -> None:
    """Show nothing."""


class _Handler(logging.Handler):
    """Logging handler that prints above the line of progress."""

    def __init__(self, print_text: Callable[[str], None], level: int) -> None:
        super().__init__(level)
        self._print_text = print_text

    def emit(self, record: logging.LogRecord) -> None:
        self._print_text(record.getMessage())


@contextmanager
def json_progress(latest: LatestFigures) -> Iterator[None]:
    """Context that writes reports as JSON lines to stderr: at the first totals, at most every ten
    seconds, and at the end."""
    last = -_EVERY_SECONDS
    writing = threading.Lock()

    def report() -> None:
        nonlocal last
        with writing:
            now = time.monotonic()
            if now - last < _EVERY_SECONDS:
                return
            last = now
            print_stderr(json_report(latest.read()))

    handler = _JsonHandler(logging.WARNING)
    with _handled(handler, logging.WARNING):
        latest.on_change = report
        try:
            yield
        finally:
            latest.on_change = lambda: None
            with writing:
                print_stderr(json_report(latest.read(), final=True))


def json_message(level: str, message: str) -> str:
    """JSON line of a log message.

    >>> json_message("error", "there is no file")
    '{"level": "error", "message": "there is no file"}'
    """
    return json.dumps({"level": level, "message": message}, ensure_ascii=False)


class _JsonHandler(logging.Handler):
    """Logging handler that prints JSON lines."""

    def emit(self, record: logging.LogRecord) -> None:
        print_stderr(json_message(record.levelname.lower(), record.getMessage()))


def json_report(figures: Figures, *, final: bool = False) -> str:
    """JSON line of a report.

    >>> totals = Totals(3, 2, 4, 1, {Reason.LATE: 1})
    >>> progress = RunProgress(12_000_000, (InputProgress("a", 12_000_000),), (StoredCount(0, "Smoke", 2),))
    >>> report = json.loads(json_report(Figures("fire", "local", 0.5, totals, progress)))
    >>> report["elements"], report["dead"], report["closed"], report["inputs"], report["state"]["held"]
    (3, {'late': 1}, 12, [{'name': 'a', 'watermark': 12, 'lag': 0.0, 'ended': False}], [{'layer': 0, 'label': 'Smoke', 'events': 2}])
    """
    totals, progress, batch = figures.totals, figures.progress, figures.progress.batch

    def at(time: Micros | None) -> str | int | None:
        return None if time is None or abs(time) >= LAST_MICRO else format_time(time, figures.clock)

    inputs, left_out = [], sorted(totals.left_out.items())
    for each in progress.inputs:
        lag = progress.lag(each)
        inputs.append(
            {
                "name": each.name,
                "watermark": at(each.watermark),
                "lag": None if lag is None else lag / 1_000_000,
                "ended": each.ended,
                **({} if each.connected is None else {"connected": each.connected}),
            }
        )
    report = {
        "pipeline": figures.pipeline,
        "engine": figures.engine,
        "seconds": round(figures.seconds, 3),
        "final": final,
        "elements": totals.elements,
        "instants": totals.instants,
        "facts": totals.facts,
        "events": totals.events,
        "dead": {reason.value: count for reason, count in totals.dead_letters.items() if count},
        **({"left_out": [{"input": each, "column": column, "cells": n} for (each, column), n in left_out]} if left_out else {}),
        "dropped": totals.dropped,
        "inconsistent": totals.inconsistent,
        "fallbacks": totals.fallbacks,
        "rules": [
            {"rule": name, "anchors": counts.anchors, "events": counts.events}
            | ({"errors": {figures.step(name, place): number for place, number in counts.errors.items()}} if counts.errors else {})
            for name in figures.rules
            for counts in [totals.rules.get(name, RuleCounts())]
        ],
        "closed": at(progress.closed),
        **({} if progress.heartbeat is None else {"heartbeat": at(progress.heartbeat)}),
        "inputs": inputs,
        **({"served": [_served(each) for each in progress.served]} if progress.served else {}),
        "state": {
            "events": sum(each.events for each in progress.stored),
            "bytes": progress.state_bytes,
            "held": [{"layer": each.layer, "label": each.label, "events": each.events} for each in progress.stored],
        },
        "batch": batch
        and {
            "number": batch.number,
            "seconds": batch.milliseconds / 1000,
            "store_rows": batch.state_rows,
            "store_memory": batch.state_memory,
        },
    }
    return json.dumps(report, ensure_ascii=False)


def _served(counts: ServedCounts) -> dict[str, object]:
    clients = {kind: number for kind, number in counts.clients.copy().items() if number}
    return {"stream": counts.stream, "elements": counts.elements, "clients": clients, "refusals": counts.refusals.copy().total()}


@contextmanager
def _handled(handler: logging.Handler, level: int) -> Iterator[None]:
    before, propagated = LOG.level, LOG.propagate
    LOG.addHandler(handler)
    LOG.setLevel(level)
    LOG.propagate = False
    try:
        yield
    finally:
        LOG.removeHandler(handler)
        LOG.setLevel(before)  # setLevel clears the logger's cache of levels; an assignment would not
        LOG.propagate = propagated


def line(name: str, totals: Totals, seconds: float, activity: str = "", heartbeat: str = "") -> str:
    """Line of progress: the totals and their rate, or the activity before there are any.

    >>> line("city", Totals(7416, 432, 22959, 168, {Reason.LATE: 3}), 2.0)
    'city: 7,416 elements (3,708/s), 432 instants, 168 events, 3 late, 2 s'
    >>> line("city", Totals(1, 1), 2.0, heartbeat="2026-03-01T07:05:00Z")
    'city: 1 element, 1 instant, 0 events, 0 late, clock at 2026-03-01T07:05:00Z, 2 s'
    >>> line("city", Totals(), 4.0, "starting Spark")
    'city: starting Spark, 4 s'
    """
    if activity:
        return f"{name}: {activity}, {seconds:,.0f} s"
    rate = totals.elements / seconds if seconds >= 0.1 else 0.0
    parts = [
        f"{count_text(totals.elements, 'element')} ({rate:,.0f}/s)" if rate >= 1 else count_text(totals.elements, "element"),
        count_text(totals.instants, "instant"),
        count_text(totals.events, "event"),
        dead_letters_line(totals),
        *([f"{totals.inconsistent:,} inconsistent"] if totals.inconsistent else []),
        *([f"clock at {heartbeat}"] if heartbeat else []),
        f"{seconds:,.0f} s",
    ]
    return f"{name}: {', '.join(parts)}"


def dead_letters_line(totals: Totals) -> str:
    """Numbers of dead letters by reason.

    >>> dead_letters_line(Totals())
    '0 late'
    """
    return ", ".join(f"{totals.dead_letters[reason]:,} {reason.value}" for reason in Reason if totals.dead_letters.get(reason)) or "0 late"


def left_out_lines(totals: Totals) -> list[str]:
    """A line for each column with texts that an optional cell has left out.

    >>> left_out_lines(Totals(left_out={("readings", "Wert"): 3}))
    ['Input readings: 3 cells of Wert are of another type, and were left out.']
    """
    return [
        f"Input {name}: {count_text(cells, 'cell')} of {column} {'is' if cells == 1 else 'are'} of another type, and "
        f"{'was' if cells == 1 else 'were'} left out."
        for (name, column), cells in sorted(totals.left_out.items())
    ]


def count_text(number: int, noun: str) -> str:
    """Number with its noun, in the plural unless it is 1.

    >>> count_text(1, "event"), count_text(1200, "event")
    ('1 event', '1,200 events')
    """
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
