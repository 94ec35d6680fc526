"""Where a run stands, beside what it has counted: how far time is closed, how far each input is, what the state holds.

A *watermark* is what semantics.md, section 6, calls passed: no element of that time or of an earlier one can come any more from the
input. The *lag* of an input is how far its watermark stands behind that of the input that is furthest: the one that lags is the one that
all others wait for. Both are of event time, so that nothing here looks at a clock.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from dotr.layout.layers import Layer
from dotr.layout.retention import roles
from dotr.model.terms import Label
from dotr.model.time import LAST_MICRO, Micros


@dataclass(frozen=True, slots=True)
class InputProgress:
    """An input by its name in the configuration: its watermark (None: nothing was read yet), and whether all of it is read."""

    name: str
    watermark: Micros | None
    ended: bool = False


@dataclass(frozen=True, slots=True)
class HeldEvents:
    """How many events of a label a layer of rules remembers."""

    layer: int
    label: str
    events: int


@dataclass(frozen=True, slots=True)
class BatchFigures:
    """What Spark says of its last batch: its number, how long it took, and what its state stores hold."""

    number: int
    milliseconds: int
    state_rows: int
    state_memory: int


@dataclass(frozen=True, slots=True)
class RunProgress:
    """`closed`: all instants up to it are closed and processed; `written` is the bytes of the state as written (None in process)."""

    closed: Micros | None = None
    inputs: Sequence[InputProgress] = ()
    stored: Sequence[HeldEvents] = ()
    state_bytes: int | None = None
    batch: BatchFigures | None = None

    def lag(self, each: InputProgress) -> Micros | None:
        """How far an input stands behind the one that is furthest; nothing once it has ended.

        >>> slow, fast, new = InputProgress("slow", 5), InputProgress("fast", 12), InputProgress("new", None)
        >>> standing = RunProgress(inputs=[slow, fast, new])
        >>> standing.lag(slow), standing.lag(fast), standing.lag(new)
        (7, 0, None)
        """
        if each.watermark is None:
            return None
        return 0 if each.ended else max(0, max(other.watermark for other in self.inputs if other.watermark is not None) - each.watermark)


ReportProgress: TypeAlias = Callable[[RunProgress], None]
"""Told where the run stands, now and then."""


def ignore_progress(standing: RunProgress) -> None:
    """For a run that nobody watches."""


def by_name(files: Iterable[tuple[str, Micros, bool]], closed: Micros | None) -> tuple[InputProgress, ...]:
    """The inputs by their names, from their files' names, watermarks and whether they have ended: an input is as far as the slowest of its
    files that have not ended, and at least as far as time is closed.

    >>> by_name([("a", 5, False), ("a", 9, False), ("b", 3, True)], 4)
    (InputStanding(name='a', watermark=5, ended=False), InputStanding(name='b', watermark=4, ended=True))
    """
    found: dict[str, list[tuple[Micros, bool]]] = {}
    for name, watermark, ended in files:
        found.setdefault(name, []).append((watermark, ended))
    standing = []
    for name, each in found.items():
        going = [watermark for watermark, ended in each if not ended]
        watermark = min(going) if going else max(watermark for watermark, _ in each)
        if closed is not None and abs(closed) < LAST_MICRO:
            watermark = max(watermark, closed)
        standing.append(InputProgress(name, watermark if abs(watermark) < LAST_MICRO // 2 else None, not going))
    return tuple(standing)


def port_labels(layers: Sequence[Layer]) -> tuple[tuple[str, ...], ...]:
    """For each layer, what its ports are called: by the queries or events that its rules read there."""
    return tuple(map(_labels, layers))


def _labels(layer: Layer) -> tuple[str, ...]:
    found: list[set[Label]] = [set() for _ in layer.ports]
    for placed in layer.rules:
        for role, port in zip(roles(placed.rule), placed.ports, strict=True):
            found[port].add(role.origin)
    return tuple(map(_named, map(sorted, found)))


def _named(names: Sequence[Label]) -> str:
    """
    >>> _named(["A", "B"]), _named(["A", "B", "C", "D"])
    ('A, B', 'A, B, C and 1 more')
    """
    return ", ".join(names) if len(names) <= 3 else f"{', '.join(names[:3])} and {len(names) - 3} more"


def stored_events(labels: Sequence[Sequence[str]], counts: Sequence[Sequence[int]]) -> tuple[HeldEvents, ...]:
    """What the ports of each layer hold; what anchors alone read holds nothing and is left out. Several ports of a label are one.

    >>> held([["A", "B", "B"]], [[0, 2, 3]])
    (Held(layer=0, label='B', events=5),)
    """
    found: dict[tuple[int, str], int] = {}
    for layer, (names, numbers) in enumerate(zip(labels, counts, strict=True)):
        for name, number in zip(names, numbers, strict=True):
            if number:
                found[layer, name] = found.get((layer, name), 0) + number
    return tuple(HeldEvents(layer, name, number) for (layer, name), number in found.items())
