"""A run's progress on stderr: a line that is rewritten on a terminal, and a line every ten seconds elsewhere."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.live import Live
from rich.text import Text

from dotr.model.stream import Reason
from dotr.runtimes.letters import LOG
from dotr.runtimes.totals import Progress, Totals

_EVERY_SECONDS = 10.0


@contextmanager
def progress(name: str, *, quiet: bool) -> Iterator[Progress]:
    """A function to be told the totals, now and then; what a run logs goes above its line. Quiet: nothing but errors is said."""
    console = Console(stderr=True, highlight=False)
    with _logging(console, logging.ERROR if quiet else logging.WARNING):
        if quiet:
            yield lambda totals: None
        elif console.is_terminal:
            yield from _live(name, console)
        else:
            yield _lines(name, console)


def _live(name: str, console: Console) -> Iterator[Progress]:
    started = time.monotonic()
    with Live(Text(f"{name}: starting"), console=console, refresh_per_second=4, transient=True) as live:
        yield lambda totals: live.update(Text(line(name, totals, time.monotonic() - started)))


def _lines(name: str, console: Console) -> Progress:
    started = last = time.monotonic()

    def report(totals: Totals) -> None:
        nonlocal last
        now = time.monotonic()
        if now - last >= _EVERY_SECONDS:
            last = now
            console.print(line(name, totals, now - started), markup=False, soft_wrap=True)

    return report


class _Handler(logging.Handler):
    """Prints what is logged on the console that has the progress."""

    def __init__(self, console: Console, level: int) -> None:
        super().__init__(level)
        self._console = console

    def emit(self, record: logging.LogRecord) -> None:
        self._console.print(record.getMessage(), markup=False, soft_wrap=True)


@contextmanager
def _logging(console: Console, level: int) -> Iterator[None]:
    handler = _Handler(console, level)
    kept = LOG.level, LOG.propagate
    LOG.addHandler(handler)
    LOG.setLevel(level)
    LOG.propagate = False
    try:
        yield
    finally:
        LOG.removeHandler(handler)
        LOG.level, LOG.propagate = kept


def line(name: str, totals: Totals, seconds: float) -> str:
    """What a run has done, in a line.

    >>> line("city", Totals(7416, 432, 22959, 168, {Reason.LATE: 3}), 2.0)
    'city: 7,416 elements (3,708/s), 432 instants, 168 events, 3 late, 2 s'
    """
    rate = totals.elements / seconds if seconds >= 0.1 else 0.0
    parts = [
        f"{counted(totals.elements, 'element')} ({rate:,.0f}/s)" if rate >= 1 else counted(totals.elements, "element"),
        counted(totals.instants, "instant"),
        counted(totals.events, "event"),
        dead(totals),
        *([f"{totals.inconsistent:,} inconsistent"] if totals.inconsistent else []),
        f"{seconds:,.0f} s",
    ]
    return f"{name}: {', '.join(parts)}"


def dead(totals: Totals) -> str:
    """The dead letters by reason.

    >>> dead(Totals())
    '0 late'
    """
    return ", ".join(f"{totals.dead[reason]:,} {reason.value}" for reason in Reason if totals.dead.get(reason)) or "0 late"


def counted(number: int, noun: str) -> str:
    """
    >>> counted(1, "event"), counted(1200, "event")
    ('1 event', '1,200 events')
    """
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
