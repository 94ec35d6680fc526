"""Destinations of outputs and dead letters, and the opening of their sinks.

The sinks of a kind of broker or server are loaded where a run has such a destination.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from types import TracebackType
from typing import Self, TypeAlias, TypeVar, assert_never

from dotr.model.stream import DeadLetter, Firing
from dotr.model.terms import Label, Variable
from dotr.streams.connectors.http.addresses import HttpDestination
from dotr.streams.connectors.http.section import HttpOutputSection, http_destination
from dotr.streams.connectors.kafka.section import KafkaOutputSection, kafka_destination
from dotr.streams.connectors.kafka.topics import KafkaDestination
from dotr.streams.connectors.mqtt.broker import MqttDestination
from dotr.streams.connectors.mqtt.section import MqttOutputSection, mqtt_destination
from dotr.streams.formats.writing import StreamFormat
from dotr.streams.sinks.batches import BatchHistory, BatchSink, Check, Reject, RunSink, check_nothing
from dotr.streams.sinks.events import DeadLetterFile, DeadLetterFiles, FileBatches, OutputFormat, OutputTerms, open_file
from dotr.streams.sinks.files import PathDestination, check_new
from dotr.streams.sinks.messages import Encoder, MessageFormat, dead_letter_encoder, event_encoder
from dotr.syntax.environment import revealed
from dotr.syntax.sections import SectionPlace

T = TypeVar("T")

Destination: TypeAlias = PathDestination | KafkaDestination | HttpDestination | MqttDestination
"""Destinations of outputs and dead letters: a closed union."""


def needs_identity(destination: Destination) -> bool:
    """True if batches in a destination are identified by the ID of their checkpoint."""
    match destination:
        case PathDestination() | MqttDestination():
            return False
        case KafkaDestination():
            return destination.exactly_once
        case HttpDestination():
            return True
        case _:
            assert_never(destination)


def sent_to(
    section: KafkaOutputSection | MqttOutputSection | HttpOutputSection, place: SectionPlace, number: int, pipeline: str, *, on_spark: bool
) -> Destination:
    """The destination of the output `number`, from 0 on, to a broker or server.

    `pipeline` is the name of the configuration, `on_spark` the runtime. Raises `Refused` (C204,
    C227, C301) where the section cannot be used.
    """
    match section:
        case KafkaOutputSection():
            return kafka_destination(section, place, on_spark=on_spark)
        case MqttOutputSection():
            return mqtt_destination(section, place, f"dotr-{pipeline}-output-{number}")
        case HttpOutputSection():
            return http_destination(section, place, number)
        case _:
            assert_never(section)


@dataclass(frozen=True, slots=True)
class ChosenEvents:
    """Labels of the events that an output has, and the attributes of these events, sorted."""

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
    """Output of a pipeline: events in one format to one destination. `chosen`: None for all."""

    format: OutputFormat
    destination: Destination
    chosen: ChosenEvents | None = None

    def own_terms(self, terms: OutputTerms) -> OutputTerms:
        """The settings with the attributes of this output's events."""
        return terms if self.chosen is None else replace(terms, attributes=self.chosen.attributes)


def check_no_older_output(destination: Destination) -> None:
    """Check that a destination has no older output; raises `Refused` (I201, I202)."""
    if isinstance(destination, PathDestination):
        check_new(destination.path, destination.span)


def check_secrets(destination: Destination) -> None:
    """Check that the environment has the secrets of a destination; raises `Refused` (S124)."""
    match destination:
        case PathDestination():
            pass
        case KafkaDestination():
            for _, text in destination.properties:
                revealed(text)
        case HttpDestination():
            destination.url()
            if destination.token is not None:
                destination.token()
        case MqttDestination():
            destination.broker.credentials()
        case _:
            assert_never(destination)


def open_sinks(
    outputs: Sequence[Output], dead_letters: Destination | None, terms: OutputTerms, check: Check = check_nothing
) -> OpenedSinks:
    """Open the sinks of a run in process: all of them, or none.

    Raises `Refused`, or what `check` raises, which is called while a sink waits for a broker.
    """
    opened: list[RunSink[Firing]] = []
    refused: list[DeadLetter] = []
    try:
        for output in outputs:
            sink = _event_sink(output, output.own_terms(terms), check, refused.append)
            opened.append(sink if output.chosen is None else _ChosenSink(sink, output.chosen))
        rejected = None if dead_letters is None else _dead_letter_sink(dead_letters, terms, check)
        return OpenedSinks(opened, rejected, refused)
    except BaseException:
        for sink in opened:
            sink.discard()
        raise


@dataclass(frozen=True, slots=True)
class OpenedSinks:
    """The sinks of a run in process.

    `dead_letters` is None where they are only counted. `refused` is appended to by the sinks: the
    dead letters of events that they cannot write.
    """

    events: Sequence[RunSink[Firing]]
    dead_letters: RunSink[DeadLetter] | None
    refused: list[DeadLetter]


def rechosen(sinks: Sequence[RunSink[Firing]], outputs: Sequence[Output]) -> list[RunSink[Firing]]:
    """The open sinks of some outputs, each for the events that its output has now."""
    plain = [sink.inner if isinstance(sink, _ChosenSink) else sink for sink in sinks]
    return [sink if output.chosen is None else _ChosenSink(sink, output.chosen) for sink, output in zip(plain, outputs, strict=True)]


class _ChosenSink:
    """The `RunSink` of an output that has some of the events."""

    def __init__(self, sink: RunSink[Firing], chosen: ChosenEvents) -> None:
        self._chosen = chosen
        self.inner = sink
        self.flush, self.mark, self.truncate, self.discard = sink.flush, sink.mark, sink.truncate, sink.discard

    def write_items(self, items: Sequence[Firing]) -> None:
        """Add the chosen ones of some firings."""
        if firings := self._chosen.of(items):
            self.inner.write_items(firings)

    def __enter__(self) -> Self:
        self.inner.__enter__()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /) -> None:
        self.inner.__exit__(kind, error, trace)


class _ChosenBatches:
    """The `BatchSink` of an output that has some of the events."""

    def __init__(self, sink: BatchSink[Firing], chosen: ChosenEvents) -> None:
        self._chosen = chosen
        self._sink = sink
        self.open, self.close = sink.open, sink.close

    def write_batch(self, number: int, blocks: Iterable[Sequence[Firing]], check: Check) -> Sequence[DeadLetter]:
        """Write the chosen firings of a batch."""
        return self._sink.write_batch(number, _ChosenBlocks(blocks, self._chosen), check)


@dataclass(frozen=True, slots=True)
class _ChosenBlocks:
    """The chosen firings of the blocks of a batch, which may be iterated again."""

    blocks: Iterable[Sequence[Firing]]
    chosen: ChosenEvents

    def __iter__(self) -> Iterator[Sequence[Firing]]:
        return filter(None, map(self.chosen.of, self.blocks))


def _event_sink(output: Output, terms: OutputTerms, check: Check, reject: Reject) -> RunSink[Firing]:
    destination = output.destination
    match destination:
        case PathDestination(path, span):
            return open_file(path, output.format, terms, span)
        case KafkaDestination():
            from dotr.streams.connectors.kafka.producing import TopicSink

            return TopicSink(destination, _encoder(output, terms, destination.key), check, reject)
        case HttpDestination():
            from dotr.streams.connectors.http.sink import PostedEvents

            return PostedEvents(destination, _text_format(output), terms, check)
        case MqttDestination():
            from dotr.streams.connectors.mqtt.sink import PublishedMessages

            return PublishedMessages(destination, _encoder(output, terms, None), reject)
        case _:
            assert_never(destination)


def _dead_letter_sink(destination: Destination, terms: OutputTerms, check: Check) -> RunSink[DeadLetter]:
    match destination:
        case PathDestination(path, span):
            return DeadLetterFile(path, terms.clock, span)
        case KafkaDestination():
            from dotr.streams.connectors.kafka.producing import TopicSink

            return TopicSink(destination, partial(dead_letter_encoder, terms), check, ignore_letter)
        case HttpDestination() | MqttDestination():
            raise AssertionError("dead letters are neither posted nor published")
        case _:
            assert_never(destination)


def ignore_letter(letter: DeadLetter) -> None:
    """Discard the dead letter of a dead letter that is too long."""


def _encoder(output: Output, terms: OutputTerms, key: Variable | None) -> Callable[[], Encoder[Firing]]:
    """The factory of encoders of an output of messages."""
    return partial(event_encoder, MessageFormat(_text_format(output), terms, key))


def _text_format(output: Output) -> StreamFormat:
    """The format of an output of messages."""
    assert isinstance(output.format, StreamFormat), "a table is refused when the configuration is read"
    return output.format


def event_batches(outputs: Sequence[Output], terms: OutputTerms, history: BatchHistory) -> list[BatchSink[Firing]]:
    """The sinks of events on Spark, not yet open: one for all files with all events, one for each
    other output."""
    files: list[tuple[str, OutputFormat]] = []
    others: list[BatchSink[Firing]] = []
    for number, output in enumerate(outputs):
        if output.chosen is not None:
            others.append(_ChosenBatches(_batches(output, str(number), output.own_terms(terms), history), output.chosen))
        elif isinstance(output.destination, PathDestination):
            files.append((output.destination.path, output.format))
        else:
            others.append(_batches(output, str(number), terms, history))
    return [FileBatches(files, terms), *others] if files else others


def _batches(output: Output, number: str, terms: OutputTerms, history: BatchHistory) -> BatchSink[Firing]:
    destination = output.destination
    match destination:
        case PathDestination(path):
            return FileBatches([(path, output.format)], terms)
        case KafkaDestination():
            return _topic_batches(destination, number, _encoder(output, terms, destination.key), terms, history)
        case HttpDestination():
            from dotr.streams.connectors.http.sink import PostedBatches

            return PostedBatches(destination, _text_format(output), terms, history.identity)
        case MqttDestination():
            from dotr.streams.connectors.mqtt.sink import PublishedBatches

            return PublishedBatches(destination, _encoder(output, terms, None))
        case _:
            assert_never(destination)


def dead_letter_batches(destination: Destination, terms: OutputTerms, history: BatchHistory) -> BatchSink[DeadLetter]:
    """The sink of the dead letters of a run on Spark, not yet open."""
    match destination:
        case PathDestination(path):
            return DeadLetterFiles(path, terms.clock)
        case KafkaDestination():
            return _topic_batches(destination, "dead", partial(dead_letter_encoder, terms), terms, history)
        case HttpDestination() | MqttDestination():
            raise AssertionError("dead letters are neither posted nor published")
        case _:
            assert_never(destination)


def _topic_batches(
    destination: KafkaDestination, number: str, new_encoder: Callable[[], Encoder[T]], terms: OutputTerms, history: BatchHistory
) -> BatchSink[T]:
    """The sink of a topic; `number` identifies the output in the name of its transactions."""
    from dotr.streams.connectors.kafka.producing import RepeatedBatches
    from dotr.streams.connectors.kafka.transactions import TransactionBatches, transaction_name

    if not destination.exactly_once:
        return RepeatedBatches(destination, new_encoder)
    return TransactionBatches(destination, transaction_name(terms.pipeline, number, history.identity), new_encoder, history)
