"""Channels of a pipeline: its inputs as they are read in process, existing files and growing
inputs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager

from dotr.runtimes.pipeline.build import Pipeline
from dotr.streams.connectors.kafka.channels import TopicChannels
from dotr.streams.connectors.receivers import QUEUED_MESSAGES, MessageQueue
from dotr.streams.lateness import Lateness
from dotr.streams.merge.feeds import AppearingFiles, Feed, FilesFeed, OneFile, StandardInput
from dotr.streams.merge.folders import GrowingInput
from dotr.streams.merge.live import Channel
from dotr.streams.merge.paces import EventClock, NoRateLimit, PacedFeed, RateLimit
from dotr.streams.records import InputFile


@contextmanager
def receiving_in_process(pipeline: Pipeline) -> Iterator[list[MessageQueue]]:
    """Receive the messages of a pipeline's inputs that have a source, into queues, while the
    context is open.

    Raises `Refused` where a receiver cannot start.
    """
    with ExitStack() as stack:
        queues = []
        for growing in pipeline.growing:
            if growing.source is not None:
                queue = MessageQueue(growing.like, growing.source.receiver())
                stack.callback(queue.close)
                queue.start()
                queues.append(queue)
        yield queues


def first_has_dates(queues: Sequence[MessageQueue]) -> bool | None:
    """True where the first readable message has date-times; None where there is none yet."""
    return next((dates for queue in queues if (dates := queue.first_has_dates()) is not None), None)


class PipelineChannels:
    """One channel for each existing file, then one for each growing input, then one for each
    partition of a topic; files and partitions of an input share its rate limit. `received` are the
    queues of the growing inputs that have a source, in their order.
    """

    def __init__(self, pipeline: Pipeline, received: Sequence[MessageQueue] = ()) -> None:
        self._rates: dict[str, RateLimit | NoRateLimit] = {name: RateLimit(rate) for name, rate in pipeline.rates.items()}
        self._clocks = {name: EventClock(pace) for name, pace in pipeline.paces.items()}
        self.channels = [self._channel(file, FilesFeed(OneFile(file))) for file in pipeline.inputs]
        queues = iter(received)
        self._received = {queue.name: queue for queue in received}
        for each in pipeline.growing:
            self.channels.append(self._channel(each.like, next(queues) if each.source is not None else _feed(pipeline, each), each))
        self._topics = {
            each.topics.name: TopicChannels(each, self._rate(each.topics.name), self._clocks.get(each.topics.name))
            for each in pipeline.topics
        }
        for topics in self._topics.values():
            self.channels += topics.channels

    def appeared(self) -> Iterator[Channel]:
        """The channels of the partitions that have appeared since the last call."""
        for topics in self._topics.values():
            yield from topics.appeared()

    def connections(self) -> dict[str, bool]:
        """The connections by name of input: True if the broker answers, or the server listens."""
        topics = {name: topics.is_connected for name, topics in self._topics.items()}
        return topics | {name: queue.connected for name, queue in self._received.items()}

    def close(self) -> None:
        """Close the clients of brokers."""
        for topics in self._topics.values():
            topics.close()

    def _rate(self, name: str) -> RateLimit | NoRateLimit:
        return self._rates.setdefault(name, NoRateLimit())

    def _channel(self, file: InputFile, feed: Feed, growing: GrowingInput | None = None) -> Channel:
        lateness = Lateness.of(file)
        idle = None if growing is None else growing.idle
        clock = self._clocks.get(file.input)
        paced = feed if clock is None else PacedFeed(feed, clock)
        channel = Channel(paced, lateness, idle, self._rate(file.input), growing is not None, name=file.input)
        if growing is not None and growing.source is not None:
            channel.ahead = QUEUED_MESSAGES
        return channel


def _feed(pipeline: Pipeline, growing: GrowingInput) -> Feed:
    if growing.standard:
        return StandardInput(growing.like)
    known: Sequence[str] = [file.path for file in pipeline.inputs if file.input == growing.like.input]
    return FilesFeed(AppearingFiles(growing, list(known)))
