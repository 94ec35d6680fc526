"""Totals of a pipeline over all its runs: `progress.json` beside `dotr.json`, written after every
batch.

Spark stores positions in the inputs, but no totals. The file has the totals before the last batch
and those of the batch, so that a batch replayed after a crash counts once. It is for display only;
a damaged file is replaced by a new one.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import field
from pathlib import Path
from types import MappingProxyType
from typing import Final, NamedTuple

from dotr.errors.fallbacks import FallbackKind, record_fallback, reraise_in_tests
from dotr.evaluation.files.private_files import replace_file
from dotr.evaluation.files.stores import Location
from dotr.model import dataclass
from dotr.model.time import Micros
from dotr.runtimes.monitoring.totals import Totals
from dotr.runtimes.spark.exchange.positions import BEGINNING
from dotr.runtimes.spark.exchange.rows import BucketSize, decode_totals, encode_totals
from dotr.streams.sinks.files import WriteFailed

NAME: Final = "progress.json"


@dataclass(frozen=True, slots=True)
class PortTotals:
    """A port: the label of its events, the index of the key attribute among the values (None: no
    key), and whether every bucket has all its events."""

    label: str
    key: int | None
    is_replicated: bool = False

    def copies(self, events: int, buckets: int) -> int:
        """The number of copies among the events of all buckets.

        >>> PortTotals("Parking", None, True).copies(6, 3), PortTotals("Parking", 0).copies(6, 3)
        (4, 0)
        """
        return events - events // buckets if self.is_replicated else 0

    def to_json(self) -> list[object]:
        """JSON data; `is_replicated` is left out where it is false."""
        return [self.label, self.key, True] if self.is_replicated else [self.label, self.key]


@dataclass(frozen=True, slots=True)
class StoredTotals:
    """`before` are the totals of all batches before number `batch`, `last` those of it. `sizes` are
    those of the state's buckets by layer and bucket, and `ports` the ports of each layer."""

    batch: int | None = None
    before: Totals = field(default_factory=Totals)
    last: Totals = field(default_factory=Totals)
    sizes: Mapping[tuple[int, int], BucketSize] = field(default_factory=dict)
    ports: Sequence[Sequence[PortTotals]] = ()

    @property
    def totals(self) -> Totals:
        """The totals of all batches."""
        return self.before + self.last

    def with_batch(self, number: int, counted: Totals, sizes: Sequence[BucketSize]) -> StoredTotals:
        """The totals with a further batch, or with the last one replayed.

        >>> totals = StoredTotals().with_batch(0, Totals(elements=2), []).with_batch(1, Totals(elements=3), [])
        >>> totals.with_batch(1, Totals(elements=3), []).totals.elements, totals.with_batch(2, Totals(elements=5), []).totals.elements
        (5, 10)
        """
        before = self.before if number == self.batch else self.totals
        return StoredTotals(number, before, counted, {**self.sizes, **{(each.layer, each.bucket): each for each in sizes}}, self.ports)

    @property
    def event_counts(self) -> tuple[tuple[int, ...], ...]:
        """The events of each port of each layer, over all buckets."""
        return tuple(
            tuple(sum(counts) for counts in zip(*found, strict=True))
            for layer in range(len(self.ports))
            if (found := [size.event_counts for size in self.sizes.values() if size.layer == layer] or [(0,) * len(self.ports[layer])])
        )

    @property
    def bytes(self) -> int:
        """The bytes of all buckets."""
        return sum(size.bytes for size in self.sizes.values())


def read_totals(home: Location) -> StoredTotals | None:
    """The totals of a checkpoint; None where they are missing or unreadable."""
    try:
        data = json.loads((home / NAME).read())
        sizes = [BucketSize(layer, bucket, tuple(event_counts), size) for layer, bucket, event_counts, size in data["sizes"]]
        before, last = (decode_totals(json.dumps(data[name]).encode()) for name in ("before", "last"))
        ports = tuple(tuple(PortTotals(str(label), *rest) for label, *rest in layer) for layer in data["ports"])
        return StoredTotals(data["batch"], before, last, {(size.layer, size.bucket): size for size in sizes}, ports)
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError) as error:
        reraise_in_tests(error, FallbackKind.TOTALS)
        record_fallback(error, FallbackKind.TOTALS)
        return None


def write_totals(home: Location, totals: StoredTotals) -> None:
    """Replace the totals of a checkpoint; errors of writing are ignored."""
    data = {
        "batch": totals.batch,
        "before": json.loads(encode_totals(totals.before)),
        "last": json.loads(encode_totals(totals.last)),
        "sizes": [list(size) for size in totals.sizes.values()],
        "ports": [[port.to_json() for port in layer] for layer in totals.ports],
    }
    text = json.dumps(data).encode()
    with suppress(OSError):
        (home / NAME).put(text) if home.is_url else replace_file(home.path / NAME, [text])


# The least time at which the state acts without arrivals, which the driver writes after each batch,
# before it is committed, and the planner reads to know of which heartbeat to make one. A file that
# is not there, or is damaged, says that the time is not known: the next heartbeat is then a batch.

DUE: Final = "due.json"


def write_due(folder: Path, due: Micros | None, *, known: bool = True) -> None:
    """Write the least time due (µs) after a batch, None for never; or, unless `known`, that it is not.
    Raises WriteFailed."""
    try:
        if known:
            replace_file(folder / DUE, [json.dumps(due).encode()])
        else:
            (folder / DUE).unlink(missing_ok=True)
    except OSError as error:
        raise WriteFailed(f"cannot write {folder}: {(error.strerror or str(error)).lower()}") from None


def read_due(folder: Path) -> Micros | None:
    """The least time due (µs), None where nothing is; `BEGINNING` where it is not known."""
    try:
        due = json.loads((folder / DUE).read_bytes())
        return None if due is None else int(due)
    except (OSError, ValueError, TypeError):
        return BEGINNING


# Watermarks of growing inputs: a small file beside the checkpoint's, written by the planner's
# process.
#
# An offset has the end of a batch only; the records scanned beyond it show which input delays the
# others.

INPUTS: Final = "inputs.json"

EVERY_SECONDS: Final = 1.0


class InputFigures(NamedTuple):
    """Figures of inputs in the planner: `watermarks` has the name of each input, its watermark
    (µs), and True if it has ended; `connections` those to brokers by name, True if the broker
    answers; `heartbeat` is the last one of the clock (µs), and `ahead` the first element that is
    far ahead of the machine's time, as input, file, line and time (µs)."""

    watermarks: Sequence[tuple[str, Micros, bool]] = ()
    connections: Mapping[str, bool] = MappingProxyType({})
    heartbeat: Micros | None = None
    ahead: tuple[str, str, int, Micros] | None = None


def write_inputs(folder: Path, figures: InputFigures) -> None:
    """Write the figures of inputs. Errors of writing are ignored."""
    watermarks, connections, *clock = figures
    further = [each for each in (dict(connections), {"clock": clock} if clock != [None, None] else None) if each]
    with suppress(OSError):
        replace_file(folder / INPUTS, [json.dumps([*watermarks, *further]).encode()])


def read_inputs(folder: Path) -> InputFigures:
    """The figures written last; none where there are none, or they are damaged."""
    try:
        written = json.loads((folder / INPUTS).read_bytes())
        watermarks = [(str(each[0]), int(each[1]), bool(each[2])) for each in written if isinstance(each, list)]
        named = [pair for each in written if isinstance(each, dict) for pair in each.items()]
        heartbeat, ahead = next((value for _, value in named if isinstance(value, list)), (None, None))
        connections = {str(name): value for name, value in named if isinstance(value, bool)}
        return InputFigures(watermarks, connections, heartbeat, None if ahead is None else tuple(ahead))
    except (OSError, ValueError, TypeError, IndexError):
        return InputFigures()
