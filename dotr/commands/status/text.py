"""`dotr status`: progress stored in a checkpoint, as text or as one JSON object."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, TypeAlias

from dotr.errors.diagnostics import Refused
from dotr.evaluation.expressions.values.times import format_time
from dotr.model.time import LAST_MICRO, Micros
from dotr.runtimes.monitoring.display import count_text, dead_letters_line
from dotr.streams.formats.segments import RECEIVED

if TYPE_CHECKING:
    from dotr.runtimes.spark.figures.status import CheckpointStatus, ReadPosition, StoredSummary

StoreReading: TypeAlias = "StoredSummary | str | None"
"""The content of the state store, the reason why it is unreadable, or None if it is not read."""


def status(folder: str, form: str, *, quick: bool) -> str:
    """Status of the checkpoint in `folder`; `form` is `text` or `json`. Raises `Refused` where
    there is no checkpoint.

    `quick` leaves out the state store, which needs Java.
    """
    from dotr.runtimes.spark.start.installation import java_problem, pyspark_problem

    problem = pyspark_problem()
    if problem is not None:
        from dotr.errors.diagnostics import refuse

        raise refuse("S101", f"a checkpoint of Spark cannot be read here: {problem}", hint="Install pip install 'dotr[spark]'.")
    from dotr.runtimes.spark.figures.status import status_of, stored_summary

    checkpoint = status_of(folder)
    state: StoreReading = None
    if not quick and checkpoint.batch is not None and checkpoint.layout.layers and not checkpoint.layout.tables:
        state = java_problem()
        if state is None:
            try:
                state = stored_summary(checkpoint)
            except Refused as refused:
                state = refused.diagnostics[0].message
    return _as_json(checkpoint, state) if form == "json" else "\n".join(_lines(checkpoint, state))


def _time_text(checkpoint: CheckpointStatus, moment: Micros | None) -> str | int | None:
    return None if moment is None or abs(moment) >= LAST_MICRO else format_time(moment, checkpoint.clock)


def _lines(checkpoint: CheckpointStatus, state: StoreReading) -> Iterator[str]:
    yield f"Pipeline {checkpoint.layout.pipeline}, checkpoint {checkpoint.folder}"
    if checkpoint.batch is None:
        yield "No batch is written yet."
    else:
        ago = "" if checkpoint.written_at is None else f" {_age_text(time.time() - checkpoint.written_at)} ago"
        yield f"Last batch: {checkpoint.batch}, " + (
            f"and the state moved{ago}, for other rules" if checkpoint.is_moved_state else f"written{ago}"
        )
    if checkpoint.under_way is not None:
        rest = "it is under way, or was cut off and is done again at the next start."
        yield f"Batch {checkpoint.under_way} is planned and not written: {rest}"
    if checkpoint.ended:
        yield "The stream has ended: all instants are closed."
    elif checkpoint.closed is not None:
        yield f"Closed up to {_time_text(checkpoint, checkpoint.closed)}"
    if checkpoint.heartbeat is not None:
        yield f"Last heartbeat of the clock: {_time_text(checkpoint, checkpoint.heartbeat)}"
    if checkpoint.totals is None:
        yield "Totals: none stored."
    else:
        totals = checkpoint.totals.totals
        yield (
            f"Totals of all runs: {count_text(totals.elements, 'element')}, {count_text(totals.instants, 'instant')}, "
            f"{count_text(totals.facts, 'fact')}, {count_text(totals.events, 'event')}, {dead_letters_line(totals)}"
            + (f", {totals.inconsistent:,} inconsistent" if totals.inconsistent else "")
        )
    yield "Inputs:"
    for each in checkpoint.inputs:
        passed = _time_text(checkpoint, each.watermark)
        yield f"  {each.name}: {'all read' if each.ended else 'nothing passed yet' if passed is None else f'passed {passed}'}"
        files = [reached for reached in checkpoint.positions if reached.input == each.name]
        going = [reached for reached in files if reached.position is not None]
        yield from (f"    {_place(checkpoint, reached)}" for reached in going[:5])
        if len(going) > 5:
            yield f"    and {len(going) - 5} more {'partitions' if going[-1].is_partition else 'files'}"
        if len(files) > len(going):
            noun = "partition" if files[-1].is_partition else "file"
            yield f"    {count_text(len(files) - len(going), noun)} read to the end"
    if checkpoint.streams:
        yield "Published streams:"
        yield from (f"  {base}: {count_text(end, 'element')}; the last {end - first:,} are kept" for base, first, end in checkpoint.streams)
    yield from _state(checkpoint, state)


def _place(checkpoint: CheckpointStatus, reached: ReadPosition) -> str:
    place, copied = reached.position, checkpoint.copied_lines
    assert place is not None
    if reached.path == RECEIVED:
        return f"{count_text(checkpoint.received[reached.input], 'message')} received; {place.line - 1:,} of them read"
    if reached.is_partition:
        return f"{reached.path}: offset {place.offset}"
    where = f"file {place.file}, " if place.file else ""
    if not reached.path:
        return f"standard input: {count_text(copied or 0, 'line')} copied; {where}line {place.line}, byte {place.offset}"
    return f"{reached.path}: {where}line {place.line}, byte {place.offset}"


def _state(checkpoint: CheckpointStatus, state: StoreReading) -> Iterator[str]:
    layout = checkpoint.layout
    if not layout.layers:
        yield "The rules keep no state: there is none in the store."
        return
    partitions = f"{count_text(layout.layers, 'layer')} of rules, {count_text(layout.buckets, 'bucket')} each"
    if state is None or isinstance(state, str):
        if isinstance(state, str):
            yield f"The state store was not read: {state}"
        if checkpoint.totals is None:
            return
        yield f"State as the last batch counted it ({partitions}): {checkpoint.totals.bytes:,} bytes"
        for layer, (ports, numbers) in enumerate(zip(checkpoint.totals.ports, checkpoint.totals.event_counts, strict=True)):
            yield from (
                f"  layer {layer}, {port.label}: {count_text(number, 'event')}{_copies_text(port.copies(number, layout.buckets))}"
                for port, number in zip(ports, numbers, strict=True)
                if number
            )
        return
    where = "that was moved" if checkpoint.is_moved_state else "in the store"
    yield f"State {where} ({partitions}): {count_text(state.values, 'value')}, {state.bytes:,} bytes"
    for kept in state.ports:
        keys = "" if kept.keys is None else f", {count_text(kept.keys, 'key')}"
        yield f"  layer {kept.layer}, {kept.label}: {count_text(kept.events, 'event')}{keys}{_copies_text(kept.copies)}"


def _copies_text(copies: int) -> str:
    """
    >>> _copies_text(0), _copies_text(1200)
    ('', ', 1,200 of them copies')
    """
    return f", {copies:,} of them copies" if copies else ""


def _age_text(seconds: float) -> str:
    """
    >>> _age_text(5.2), _age_text(100), _age_text(7200), _age_text(200_000), _age_text(-1)
    ('5 s', '2 min', '2 h', '2 d', '0 s')
    """
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if seconds >= 1.5 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{max(0.0, seconds):.0f} s"


def _as_json(checkpoint: CheckpointStatus, state: StoreReading) -> str:
    totals = None
    if checkpoint.totals is not None:
        all_runs = checkpoint.totals.totals
        totals = {
            "elements": all_runs.elements,
            "instants": all_runs.instants,
            "facts": all_runs.facts,
            "events": all_runs.events,
            "dead": {reason.value: count for reason, count in all_runs.dead_letters.items() if count},
            "dropped": all_runs.dropped,
            "inconsistent": all_runs.inconsistent,
        }
    inputs = []
    for each in checkpoint.inputs:
        files = [
            {
                "path": reached.path,
                "read": reached.position is None,
                "file": reached.position and reached.position.file,
                "offset": reached.position and reached.position.offset,
                "line": reached.position and reached.position.line,
                **({} if reached.path else {"copied": checkpoint.copied_lines}),
                **({"received": checkpoint.received[reached.input]} if reached.path == RECEIVED else {}),
            }
            for reached in checkpoint.positions
            if reached.input == each.name
        ]
        inputs.append({"name": each.name, "watermark": _time_text(checkpoint, each.watermark), "ended": each.ended, "files": files})
    return json.dumps(
        {
            "pipeline": checkpoint.layout.pipeline,
            "checkpoint": str(checkpoint.folder),
            "batch": checkpoint.batch,
            "written_at": checkpoint.written_at,
            "under_way": checkpoint.under_way,
            "closed": _time_text(checkpoint, checkpoint.closed),
            **({} if checkpoint.heartbeat is None else {"heartbeat": _time_text(checkpoint, checkpoint.heartbeat)}),
            "ended": checkpoint.ended,
            "totals": totals,
            "inputs": inputs,
            **(
                {"streams": [dict(zip(("base", "first", "next"), each, strict=True)) for each in checkpoint.streams]}
                if checkpoint.streams
                else {}
            ),
            "state": _state_json(checkpoint, state),
        },
        ensure_ascii=False,
    )


def _state_json(checkpoint: CheckpointStatus, state: StoreReading) -> dict[str, object]:
    if not checkpoint.layout.layers:
        return {"source": "none", "values": 0, "bytes": 0, "held": []}
    if state is not None and not isinstance(state, str):
        held = [_held_json(each.layer, each.label, each.events, each.keys, each.copies) for each in state.ports]
        return {"source": "moved" if checkpoint.is_moved_state else "store", "values": state.values, "bytes": state.bytes, "held": held}
    parts: dict[str, object] = {"source": "last batch", "why": state}
    if checkpoint.totals is not None:
        parts["bytes"] = checkpoint.totals.bytes
        parts["held"] = [
            _held_json(layer, port.label, number, None, port.copies(number, checkpoint.layout.buckets))
            for layer, (ports, numbers) in enumerate(zip(checkpoint.totals.ports, checkpoint.totals.event_counts, strict=True))
            for port, number in zip(ports, numbers, strict=True)
            if number
        ]
    return parts


def _held_json(layer: int, label: str, events: int, keys: int | None, copies: int) -> dict[str, object]:
    return {"layer": layer, "label": label, "events": events, "keys": keys, **({"copies": copies} if copies else {})}
