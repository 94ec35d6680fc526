"""Sinks of destinations: the one place that knows all kinds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import assert_never

from dotr.errors.diagnostics import Refused
from dotr.model.stream import DeadLetter, Firing
from dotr.model.time import Clock
from dotr.outputs.writing import StreamFormat
from dotr.sinks.batches import BatchHistory, BatchSink, Check, RunSink, check_nothing
from dotr.sinks.dead_letters import DeadLetterFile, DeadLetterFiles
from dotr.sinks.destinations import Destination, HttpDestination, PathDestination
from dotr.sinks.events import FileBatches, OutputFormat, OutputTerms, open_file
from dotr.sinks.files import check_new


@dataclass(frozen=True, slots=True)
class Output:
    """Output of a pipeline: all events in one format to one destination."""

    format: OutputFormat
    destination: Destination


def check_free(destination: Destination) -> None:
    """Check that a run that begins anew can write to a destination; raises `Refused` (I201, I202)."""
    if isinstance(destination, PathDestination):
        check_new(destination.path, destination.span)


def open_sinks(
    outputs: Sequence[Output], dead_letters: Destination | None, terms: OutputTerms, check: Check = check_nothing
) -> OpenedSinks:
    """Open the sinks of a run in process: all of them, or none. `check` is called while a sink waits.
    Raises `Refused`."""
    opened: list[RunSink[Firing]] = []
    try:
        for number, output in enumerate(outputs):
            opened.append(_event_sink(number, output, terms, check))  # those opened are discarded if a later one fails
        return OpenedSinks(opened, None if dead_letters is None else _dead_letter_sink(dead_letters, terms.clock))
    except Refused:
        for sink in opened:
            sink.discard()
        raise


@dataclass(frozen=True, slots=True)
class OpenedSinks:
    """The sinks of a run in process; `dead_letters` is None where they are only counted."""

    events: Sequence[RunSink[Firing]]
    dead_letters: RunSink[DeadLetter] | None


def _event_sink(number: int, output: Output, terms: OutputTerms, check: Check) -> RunSink[Firing]:
    """The sink of output `number`, from 0 on."""
    match output.destination:
        case PathDestination(path, span):
            return open_file(path, output.format, terms, span)
        case HttpDestination() as destination:
            from dotr.sinks.http_posts import PostedEvents

            return PostedEvents(destination, _text_format(output), terms, check)
        case _:
            assert_never(output.destination)


def _text_format(output: Output) -> StreamFormat:
    """The format of an output that is messages."""
    assert isinstance(output.format, StreamFormat), "tables are refused when the configuration is read"
    return output.format


def _dead_letter_sink(destination: Destination, clock: Clock) -> RunSink[DeadLetter]:
    match destination:
        case PathDestination(path, span):
            return DeadLetterFile(path, clock, span)
        case HttpDestination():
            raise AssertionError("dead letters are not posted")
        case _:
            assert_never(destination)


def event_batches(outputs: Sequence[Output], terms: OutputTerms, history: BatchHistory) -> list[BatchSink[Firing]]:
    """The sinks of the events of a run on Spark, not yet open: one of all files, then one of each
    other output."""
    files: list[tuple[str, OutputFormat]] = []
    others: list[BatchSink[Firing]] = []
    for output in outputs:
        match output.destination:
            case PathDestination(path):
                files.append((path, output.format))
            case HttpDestination() as destination:
                from dotr.sinks.http_posts import PostedBatches

                others.append(PostedBatches(destination, _text_format(output), terms, history.identity))
            case _:
                assert_never(output.destination)
    return [FileBatches(files, terms), *others] if files else others


def dead_letter_batches(destination: Destination, terms: OutputTerms, history: BatchHistory) -> BatchSink[DeadLetter]:
    """The sink of the dead letters of a run on Spark, not yet open."""
    match destination:
        case PathDestination(path):
            return DeadLetterFiles(path, terms.clock)
        case HttpDestination():
            raise AssertionError("dead letters are not posted")
        case _:
            assert_never(destination)
