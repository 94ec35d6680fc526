"""Destinations of outputs and dead letters, and the opening of their sinks.

The sinks of a kind of broker or server are loaded where a run has such a destination.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self, TypeAlias, TypeVar, assert_never

from dotr.errors.diagnostics import Diagnostic
from dotr.evaluation.files.environment import revealed
from dotr.model import dataclass
from dotr.model.stream import DeadLetter, Firing
from dotr.model.terms import Label, Variable
from dotr.streams.formats.writing import StreamFormat
from dotr.streams.records import LaterModule
from dotr.streams.sinks.batches import BatchHistory, BatchSink, Check, Reject, RunSink, ServedCounts, check_nothing
from dotr.streams.sinks.events import DeadLetterFile, DeadLetterFiles, FileBatches, OutputFormat, OutputTerms, open_file
from dotr.streams.sinks.files import PathDestination, check_new
from dotr.streams.sinks.messages import Encoder, MessageFormat, NumberedFiring, dead_letter_encoder, event_encoder, numbering
from dotr.syntax.sections import SectionPlace

if TYPE_CHECKING:
    from dotr.streams.connectors.http import addresses as http
    from dotr.streams.connectors.kafka import topics as kafka
    from dotr.streams.connectors.mqtt import broker as mqtt
    from dotr.streams.connectors.registry import HttpOutputSection, KafkaOutputSection, MqttOutputSection, ServeSection, SparkOutputSection
    from dotr.streams.connectors.serve import section as serve
    from dotr.streams.connectors.serve.server import StreamServer
    from dotr.streams.connectors.serve.sink import ServedEvents
    from dotr.streams.connectors.serve.stream import PublishedStream
    from dotr.streams.connectors.spark import tables
else:
    http, kafka, mqtt, serve, tables = (
        LaterModule(f"dotr.streams.connectors.{name}")
        for name in ("http.addresses", "kafka.topics", "mqtt.broker", "serve.section", "spark.tables")
    )

_LOG: Final = logging.getLogger("dotr")
_LOOK_SECONDS: Final = 0.1

T = TypeVar("T")

Destination: TypeAlias = (
    "PathDestination | kafka.KafkaDestination | http.HttpDestination | mqtt.MqttDestination"
    " | serve.ServeDestination | tables.TableDestination"
)
"""Destinations of outputs and dead letters: a closed union."""


def needs_identity(destination: Destination) -> bool:
    """True if batches in a destination are identified by the ID of their checkpoint."""
    match destination:
        case PathDestination() | mqtt.MqttDestination():
            return False
        case kafka.KafkaDestination():
            return destination.exactly_once
        case http.HttpDestination() | serve.ServeDestination() | tables.TableDestination():
            return True
        case _:
            assert_never(destination)


def sent_to(
    section: KafkaOutputSection | MqttOutputSection | HttpOutputSection | ServeSection | SparkOutputSection,
    place: SectionPlace,
    number: int,
    pipeline: str,
    *,
    on_spark: bool,
) -> Destination:
    """The destination of the output `number`, from 0 on, to a broker or server.

    `pipeline` is the name of the configuration, `on_spark` the runtime. Raises `Refused` (C204,
    C227, C301) where the section cannot be used.
    """
    from dotr.streams.connectors.http.section import HttpOutputSection, http_destination
    from dotr.streams.connectors.kafka.section import KafkaOutputSection, kafka_destination
    from dotr.streams.connectors.mqtt.section import MqttOutputSection, mqtt_destination
    from dotr.streams.connectors.serve.section import ServeSection, serve_destination
    from dotr.streams.connectors.spark.section import SparkOutputSection, table_destination

    match section:
        case KafkaOutputSection():
            return kafka_destination(section, place, on_spark=on_spark)
        case MqttOutputSection():
            return mqtt_destination(section, place, f"dotr-{pipeline}-output-{number}")
        case HttpOutputSection():
            return http_destination(section, place, number)
        case ServeSection():
            return serve_destination(section, place, number, pipeline)
        case SparkOutputSection():
            return table_destination(section, place, on_spark=on_spark)
        case _:
            assert_never(section)


def destination_problems(destinations: Iterable[Destination]) -> Iterator[Diagnostic]:
    """Problems (C204) of destinations that exclude each other."""
    destinations = [each for each in destinations if not isinstance(each, PathDestination)]
    if not destinations:
        return
    yield from serve.serve_problems([each for each in destinations if isinstance(each, serve.ServeDestination)])
    written = [each for each in destinations if isinstance(each, tables.TableDestination)]
    for number, each in enumerate(written):
        if str(each) in map(str, written[:number]):
            hint = "Name all events in one output; or write the others to a table of their own."
            yield Diagnostic("C204", f"two outputs write to {each}", each.span, hint)


Chooser: TypeAlias = Callable[[Iterable[Firing]], Sequence[Firing] | Sequence[NumberedFiring]]
"""A function from firings to those that an output has."""


@dataclass(frozen=True, slots=True)
class ChosenEvents:
    """Labels of the events, and names of the inputs, that an output has, and the attributes of these
    events, sorted."""

    labels: frozenset[Label]
    attributes: tuple[Variable, ...]

    def of(self, firings: Iterable[Firing]) -> list[Firing]:
        """The firings that the output has.

        >>> fires = [Firing(12, "R", event, (), (), 0) for event in ("Fire", "Level")]
        >>> [firing.event for firing in ChosenEvents(frozenset(["Fire"]), ()).of(fires)]
        ['Fire']
        """
        return [firing for firing in firings if firing.event in self.labels]


@dataclass(frozen=True, slots=True)
class Output:
    """Output of a pipeline: events and elements in one format to one destination. `chosen`: None for
    all; `by_executors`: tasks of Spark write it, and not the driver."""

    format: OutputFormat
    destination: Destination
    chosen: ChosenEvents | None = None
    by_executors: bool = False

    def own_terms(self, terms: OutputTerms) -> OutputTerms:
        """The settings with the attributes of this output's events."""
        return terms if self.chosen is None else replace(terms, attributes=self.chosen.attributes)

    def chooser(self) -> Chooser | None:
        """The function that chooses the firings of the output from consecutive blocks of all firings,
        with their ordinals where its messages have IDs; None: it has all, without ordinals."""
        has_ids = not isinstance(self.destination, PathDestination) and isinstance(
            self.destination, kafka.KafkaDestination | mqtt.MqttDestination | serve.ServeDestination
        )
        if has_ids:
            return numbering(None if self.chosen is None else self.chosen.labels)
        return None if self.chosen is None else self.chosen.of


def check_no_older_output(destination: Destination) -> None:
    """Check that a destination has no older output; raises `Refused` (I201, I202)."""
    if isinstance(destination, PathDestination):
        check_new(destination.path, destination.span)


def check_secrets(destination: Destination) -> None:
    """Check that the environment has the secrets of a destination; raises `Refused` (S124)."""
    match destination:
        case PathDestination():
            pass
        case kafka.KafkaDestination():
            for _, text in destination.properties:
                revealed(text)
        case http.HttpDestination():
            destination.url()
            if destination.token is not None:
                destination.token()
        case mqtt.MqttDestination():
            destination.broker.credentials()
        case serve.ServeDestination():
            if destination.tokens is not None:
                destination.tokens()
        case tables.TableDestination():
            destination.revealed_options()
        case _:
            assert_never(destination)


def open_sinks(
    outputs: Sequence[Output],
    dead_letters: Destination | None,
    terms: OutputTerms,
    check: Check = check_nothing,
    published: PublishedOutputs | None = None,
) -> OpenedSinks:
    """Open the sinks of a run in process: all of them, or none. `published`: the servers of outputs
    that are served.

    Raises `Refused`, or what `check` raises, which is called while a sink waits for a broker.
    """
    opened: list[RunSink[Firing]] = []
    served: list[ServedEvents] = []
    refused: list[DeadLetter] = []
    try:
        for output in outputs:
            own = None if published is None else published.sink(output, terms)
            if own is not None:
                served.append(own)
            opened.append(_chosen(own or _event_sink(output, output.own_terms(terms), check, refused.append), output))
        rejected = None if dead_letters is None else _dead_letter_sink(dead_letters, terms, check)
        return OpenedSinks(opened, rejected, refused, served)
    except BaseException:
        for each in opened:
            each.discard()
        raise


def _served(output: Output) -> serve.ServeDestination | None:
    """The destination of an output that is served; None for others."""
    to = output.destination
    return to if not isinstance(to, PathDestination) and isinstance(to, serve.ServeDestination) else None


def renewed_streams(outputs: Sequence[Output], checkpoint: Path) -> Iterator[Diagnostic]:
    """Warnings (S161) of outputs whose streams in a checkpoint are made anew under old names."""
    from dotr.streams.connectors.serve.kept_files import renewed

    for output in outputs:
        if (to := _served(output)) is not None:
            yield from renewed(checkpoint, to.base, to.span)


def published_streams(checkpoint: Path) -> list[tuple[str, int, int]]:
    """The streams in a checkpoint: their bases, and the numbers of the first kept element and of the
    next one."""
    from dotr.streams.connectors.serve.kept_files import SERVE, extents

    return [(each.base, each.first, each.next) for each in extents(checkpoint / SERVE).values()]


class PublishedOutputs:
    """The outputs of a run that are served: a context, at whose exit their servers stop. The servers
    listen from its creation on, and answer from `begin` or `read` on. Raises `Refused` (C226,
    C228); no server listens then."""

    def __init__(self, outputs: Sequence[Output]) -> None:
        self._served = [(each, to) for each in outputs if (to := _served(each)) is not None]
        self._servers: dict[str, StreamServer] = {}
        self.streams: dict[int, PublishedStream] = {}
        for _, destination in self._served:
            from dotr.streams.connectors.serve.server import StreamServer

            address = destination.listen.authority
            if address not in self._servers:
                try:
                    self._servers[address] = StreamServer([other for _, other in self._served if other.listen.authority == address])
                except BaseException:
                    self.__exit__()
                    raise

    def serve(self, streams: Sequence[PublishedStream]) -> None:
        """Answer requests for the streams of all outputs."""
        self.streams = {each.destination.number: each for each in streams}
        for address, server in self._servers.items():
            server.start([each for each in streams if each.destination.listen.authority == address])
        for each in streams:
            _LOG.warning("Serving %s", each.base)

    def begin(self, terms: OutputTerms) -> None:
        """Serve streams of a run in process, which are empty; their terms may change until `sink`."""
        if self._served:
            from dotr.streams.connectors.serve.kept import KeptElements
            from dotr.streams.connectors.serve.stream import PublishedStream

            self.serve([PublishedStream(to, output.own_terms(terms), KeptElements(to.keep)) for output, to in self._served])

    def read(self, terms: OutputTerms, checkpoint: Path, history: BatchHistory) -> list[str]:
        """Serve what is kept in a checkpoint.

        Returns what the user should know. Raises `Refused` (I202, S114, S160) and `WriteFailed`.
        """
        if not self._served:
            return []
        from dotr.streams.connectors.serve.kept_files import SERVE, StreamExtent, opened, stream_folders
        from dotr.streams.connectors.serve.stream import PublishedStream

        told: list[str] = []
        streams = []
        wanted = [StreamExtent(to.base, of=None if output.chosen is None else sorted(output.chosen.labels)) for output, to in self._served]
        folders = stream_folders(checkpoint / SERVE, wanted, history)
        for folder, extent, (output, to) in zip(folders, wanted, self._served, strict=True):
            kept, lines = opened(folder, to.keep, extent, history)
            told += lines
            streams.append(PublishedStream(to, output.own_terms(terms), kept, is_durable=True))
        self.serve(streams)
        return told

    def sink(self, output: Output, terms: OutputTerms) -> ServedEvents | None:
        """The sink of an output in process; None where it is not served."""
        if (to := _served(output)) is None:
            return None
        from dotr.streams.connectors.serve.sink import ServedEvents

        stream = self.streams[to.number]
        stream.begin(output.own_terms(terms))
        return ServedEvents(stream)

    def batches(self, output: Output, terms: OutputTerms) -> BatchSink[Any] | None:
        """The sink of an output on Spark; None where it is not served."""
        if (to := _served(output)) is None:
            return None
        from dotr.streams.connectors.serve.sink import ServedBatches

        return ServedBatches(self.streams[to.number], output.own_terms(terms))

    @property
    def counts(self) -> tuple[ServedCounts, ...]:
        """The counts of the streams, which go on."""
        return tuple([stream.counts for stream in self.streams.values()])

    @property
    def failure(self) -> str | None:
        """The error that has ended a server; None if there is none."""
        return next((server.failure for server in self._servers.values() if server.failure is not None), None)

    def linger(self, check: Check = check_nothing) -> None:
        """End the streams, and go on serving what is kept for as long as they say, or until Ctrl-C, which
        `check` may raise."""
        self._end(is_stopped=False)
        end = time.monotonic() + max([to.linger for _, to in self._served], default=0) / 1_000_000
        with suppress(KeyboardInterrupt):
            while (left := end - time.monotonic()) > 0:
                check()
                time.sleep(min(left, _LOOK_SECONDS))

    def _end(self, *, is_stopped: bool) -> None:
        for stream in self.streams.values():
            stream.end(is_stopped=is_stopped)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._end(is_stopped=True)
        for server in self._servers.values():
            server.stop()


NONE_SERVED: Final = PublishedOutputs(())


@dataclass(frozen=True, slots=True)
class OpenedSinks:
    """The sinks of a run in process.

    `dead_letters` is None where they are only counted. `refused` is appended to by the sinks: the
    dead letters of events that they cannot write. `served`: the sinks among them that are
    told the end of an instant.
    """

    events: Sequence[RunSink[Firing]]
    dead_letters: RunSink[DeadLetter] | None
    refused: list[DeadLetter]
    served: Sequence[ServedEvents] = ()


def rechosen(sinks: Sequence[RunSink[Firing]], outputs: Sequence[Output]) -> list[RunSink[Firing]]:
    """The open sinks of some outputs, each for the events that its output has now."""
    plain = [sink.inner if isinstance(sink, _ChosenSink) else sink for sink in sinks]
    return [_chosen(sink, output) for sink, output in zip(plain, outputs, strict=True)]


def _chosen(sink: RunSink[Any], output: Output) -> RunSink[Firing]:
    choose = output.chooser()
    return sink if choose is None else _ChosenSink(sink, choose)


class _ChosenSink:
    """The `RunSink` of an output that has some of the events, or whose events have IDs; `sink` takes
    what `choose` returns."""

    def __init__(self, sink: RunSink[Any], choose: Chooser) -> None:
        self._choose = choose
        self.inner = sink
        self.flush, self.mark, self.truncate, self.discard = sink.flush, sink.mark, sink.truncate, sink.discard

    def write_items(self, items: Sequence[Firing]) -> None:
        """Add the chosen ones of some firings."""
        if firings := self._choose(items):
            self.inner.write_items(firings)

    def __enter__(self) -> Self:
        self.inner.__enter__()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /) -> None:
        self.inner.__exit__(kind, error, trace)


class _ChosenBatches:
    """The `BatchSink` of an output that has some of the events, or whose events have IDs; `sink`
    takes what its chooser returns."""

    def __init__(self, sink: BatchSink[Any], output: Output) -> None:
        self._output = output
        self._sink = sink
        self.open, self.close = sink.open, sink.close

    def write_batch(self, number: int, blocks: Iterable[Sequence[Firing]], check: Check) -> Sequence[DeadLetter]:
        """Write the chosen firings of a batch."""
        return self._sink.write_batch(number, _ChosenBlocks(blocks, self._output), check)


@dataclass(frozen=True, slots=True)
class _ChosenBlocks:
    """The chosen firings of the blocks of a batch, which may be iterated again."""

    blocks: Iterable[Sequence[Firing]]
    output: Output

    def __iter__(self) -> Iterator[Sequence[Firing] | Sequence[NumberedFiring]]:
        choose = self.output.chooser()
        assert choose is not None, "an output that has all without ordinals has no wrapper"
        return filter(None, map(choose, self.blocks))


def _event_sink(output: Output, terms: OutputTerms, check: Check, reject: Reject) -> RunSink[Firing] | RunSink[NumberedFiring]:
    destination = output.destination
    match destination:
        case PathDestination(path, span):
            return open_file(path, output.format, terms, span)
        case kafka.KafkaDestination():
            from dotr.streams.connectors.kafka.producing import TopicSink

            return TopicSink(destination, _encoder(output, terms, destination.key), check, reject)
        case http.HttpDestination():
            from dotr.streams.connectors.http.sink import PostedEvents

            return PostedEvents(destination, _text_format(output), terms, check)
        case mqtt.MqttDestination():
            from dotr.streams.connectors.mqtt.sink import PublishedMessages

            return PublishedMessages(destination, _encoder(output, terms, None), reject)
        case serve.ServeDestination():
            raise AssertionError("its server is opened before")
        case tables.TableDestination():
            raise AssertionError("a table is refused in process")
        case _:
            assert_never(destination)


def _dead_letter_sink(destination: Destination, terms: OutputTerms, check: Check) -> RunSink[DeadLetter]:
    match destination:
        case PathDestination(path, span):
            return DeadLetterFile(path, terms.clock, span)
        case kafka.KafkaDestination():
            from dotr.streams.connectors.kafka.producing import TopicSink

            return TopicSink(destination, partial(dead_letter_encoder, terms), check, ignore_letter)
        case http.HttpDestination() | mqtt.MqttDestination() | serve.ServeDestination() | tables.TableDestination():
            raise AssertionError("dead letters are neither posted nor published, and no table is written in process")
        case _:
            assert_never(destination)


def ignore_letter(letter: DeadLetter) -> None:
    """Discard the dead letter of a dead letter that is too long."""


def _encoder(output: Output, terms: OutputTerms, key: Variable | None) -> Callable[[], Encoder[NumberedFiring]]:
    """The factory of encoders of an output of messages."""
    return partial(event_encoder, MessageFormat(_text_format(output), terms, key))


def _text_format(output: Output) -> StreamFormat:
    """The format of an output of messages."""
    assert isinstance(output.format, StreamFormat), "a table is refused when the configuration is read"
    return output.format


def event_batches(
    outputs: Sequence[Output], terms: OutputTerms, history: BatchHistory, published: PublishedOutputs = NONE_SERVED
) -> list[BatchSink[Firing]]:
    """The sinks of events on Spark that the driver writes, not yet open: one for all files with all
    events, one for each other output. Those that are served are the last: what is served is in the
    others."""
    files: list[tuple[str, OutputFormat]] = []
    others: list[BatchSink[Firing]] = []
    served: list[BatchSink[Firing]] = []
    for number, output in enumerate(outputs):
        if output.by_executors:
            continue
        if (sink := published.batches(output, terms)) is not None:
            served.append(_ChosenBatches(sink, output))
        elif output.chooser() is not None:
            others.append(chosen_batches(output, str(number), output.own_terms(terms), history))
        elif isinstance(output.destination, PathDestination):
            files.append((output.destination.path, output.format))
        else:
            others.append(_batches(output, str(number), terms, history))
    return [*([FileBatches(files, terms)] if files else []), *others, *served]


def chosen_batches(output: Output, number: str, terms: OutputTerms, history: BatchHistory) -> BatchSink[Firing]:
    """The sink on Spark of an output that has some of the events, or whose events have IDs, not yet
    open. `number` identifies the output."""
    sink = _batches(output, number, terms, history)
    return sink if output.chooser() is None else _ChosenBatches(sink, output)


def _batches(output: Output, number: str, terms: OutputTerms, history: BatchHistory) -> BatchSink[Any]:
    destination = output.destination
    match destination:
        case PathDestination(path):
            return FileBatches([(path, output.format)], terms)
        case kafka.KafkaDestination():
            return _topic_batches(destination, number, _encoder(output, terms, destination.key), terms, history)
        case http.HttpDestination():
            from dotr.streams.connectors.http.sink import PostedBatches

            return PostedBatches(destination, _text_format(output), terms, history.identity)
        case mqtt.MqttDestination():
            from dotr.streams.connectors.mqtt.sink import PublishedBatches

            return PublishedBatches(destination, _encoder(output, terms, None))
        case serve.ServeDestination() | tables.TableDestination():
            raise AssertionError("a server is opened before, and a table is written by executors")
        case _:
            assert_never(destination)


def dead_letter_batches(destination: Destination, terms: OutputTerms, history: BatchHistory) -> BatchSink[DeadLetter]:
    """The sink of the dead letters of a run on Spark, not yet open."""
    match destination:
        case PathDestination(path):
            return DeadLetterFiles(path, terms.clock)
        case kafka.KafkaDestination():
            return _topic_batches(destination, "dead", partial(dead_letter_encoder, terms), terms, history)
        case http.HttpDestination() | mqtt.MqttDestination() | serve.ServeDestination() | tables.TableDestination():
            raise AssertionError("dead letters are neither posted nor published, and a table is written by executors")
        case _:
            assert_never(destination)


def _topic_batches(
    destination: kafka.KafkaDestination, number: str, new_encoder: Callable[[], Encoder[T]], terms: OutputTerms, history: BatchHistory
) -> BatchSink[T]:
    """The sink of a topic; `number` identifies the output in the name of its transactions."""
    from dotr.streams.connectors.kafka.producing import RepeatedBatches, TransactionBatches, transaction_name

    if not destination.exactly_once:
        return RepeatedBatches(destination, new_encoder)
    return TransactionBatches(destination, transaction_name(terms.pipeline, number, history.identity), new_encoder, history)
