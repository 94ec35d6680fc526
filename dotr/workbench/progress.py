"""A run's progress on stderr: a line that is rewritten on a terminal, and a line every ten seconds elsewhere."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.live import Live
from rich.text import Text

from dotr.runtimes.totals import Progress, Totals

_EVERY_SECONDS = 10.0


@contextmanager
def progress(name: str, *, quiet: bool) -> Iterator[Progress]:
    """A function to be told the totals, now and then; quiet: it says nothing."""
    if quiet:
        yield lambda totals: None
        return
    console = Console(stderr=True)
    started = time.monotonic()
    if console.is_terminal:
        with Live(Text(f"{name}: starting"), console=console, refresh_per_second=4, transient=True) as live:
            yield lambda totals: live.update(Text(_line(name, totals, time.monotonic() - started)))
        return
    last = [started]

    def report(totals: Totals) -> None:
        now = time.monotonic()
        if now - last[0] >= _EVERY_SECONDS:
            last[0] = now
            console.print(_line(name, totals, now - started), highlight=False, soft_wrap=True)

    yield report


def _line(name: str, totals: Totals, seconds: float) -> str:
    dead = sum(totals.dead.values())
    rate = totals.elements / seconds if seconds > 0 else 0.0
    return (
        f"{name}: {totals.elements:,} elements ({rate:,.0f}/s), {totals.instants:,} instants, {totals.events:,} events, "
        f"{dead:,} dead letters ({', '.join(f'{count:,} {reason.value}' for reason, count in totals.dead.items()) or 'none'}), "
        f"{seconds:,.0f} s"
    )
