"""Channels of a pipeline in process: its existing files and its growing inputs."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

from dotr.model.time import Micros
from dotr.runtimes.monitoring.dead_letter_log import LOG
from dotr.runtimes.pipeline.build import Pipeline
from dotr.streams.connectors.receivers import QUEUED_MESSAGES, MessageQueue
from dotr.streams.lateness import Lateness
from dotr.streams.merge.feeds import AppearingFiles, Feed, FilesFeed, StandardInput
from dotr.streams.merge.file_marks import FoundFile
from dotr.streams.merge.folders import GrowingInput
from dotr.streams.merge.live import Channel
from dotr.streams.merge.paces import EventClock, NoRateLimit, PacedFeed, RateLimit
from dotr.streams.merge.replays import files_of_input
from dotr.streams.merge.tails import NoFileYet, TailedFolder, TailFeed
from dotr.streams.records import AllEnded, InputFile

if TYPE_CHECKING:
    from dotr.streams.connectors.kafka.channels import TopicChannels


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
    """True where the first readable message has date-times; None where there is none yet. Raises
    AllEnded."""
    all_ended = all(queue.has_ended for queue in queues)
    found = next((dates for queue in queues if (dates := queue.first_has_dates()) is not None), None)
    if found is None and all_ended:
        raise AllEnded
    return found


class PipelineChannels:
    """One channel for each existing file, then one for each growing input, then one for each
    partition of a topic; files and partitions of an input share its rate limit. `received` are the
    queues of the growing inputs that have a source, in their order. `watched` are the files of
    watched folders, by name of input.
    """

    def __init__(self, pipeline: Pipeline, received: Sequence[MessageQueue] = ()) -> None:
        self._rates: dict[str, RateLimit | NoRateLimit] = {name: RateLimit(rate) for name, rate in pipeline.rates.items()}
        self._clocks = {name: EventClock(pace) for name, pace in pipeline.paces.items()}
        self.machine: Callable[[], Micros | None] = lambda: time.time_ns() // 1_000
        if pipeline.clock_delay is not None and self._clocks:
            # All have one pace, and one clock, which begins at the first time in their files.
            shared = EventClock.of_files(next(iter(pipeline.paces.values())), pipeline.inputs)
            self._clocks, self.machine = dict.fromkeys(pipeline.paces, shared), lambda: shared.time(time.monotonic())
        elif replayed := [file for file in pipeline.inputs if file.replayed is not None]:
            clock = EventClock.of_files(pipeline.paces[replayed[0].input], replayed)
            self._clocks |= {file.input: clock for file in replayed}
        self.channels = [self._channel(file, FilesFeed(files_of_input(file))) for file in pipeline.inputs]
        self.watched: dict[str, AppearingFiles] = {}
        queues = iter(received)
        self._received = {queue.name: queue for queue in received}
        self._tails = [(each, TailedFolder(each, tell=LOG.warning)) for each in pipeline.growing if each.tail]
        self.channels += [self._channel(each.like, NoFileYet(folder), each, folder.is_drained) for each, folder in self._tails]
        for each in pipeline.growing:
            if each.source is not None:
                queue = next(queues)
                self.channels.append(self._channel(each.like, queue, each, queue.is_drained))
            elif each.standard:
                piped = StandardInput(each.like)
                self.channels.append(self._channel(each.like, piped, each, piped.is_drained))
            elif not each.tail:
                known = [FoundFile(file.path, file.mark) for file in pipeline.inputs if file.input == each.like.input]
                files = self.watched[each.like.input] = AppearingFiles(each, known)
                self.channels.append(self._channel(each.like, FilesFeed(files), each, files.is_drained))
        self._topics: dict[str, TopicChannels] = {}
        for opened in pipeline.topics:
            from dotr.streams.connectors.kafka.channels import TopicChannels

            name = opened.topics.name
            self._topics[name] = TopicChannels(opened, self._rate(name), self._clocks.get(name))
            self.channels += self._topics[name].channels

    def appeared(self) -> Iterator[Channel]:
        """The channels of the partitions, and of the series of files, that have appeared since the
        last call."""
        for topics in self._topics.values():
            yield from topics.appeared()
        for each, folder in self._tails:
            for series in folder.appeared():
                yield self._channel(each.like, TailFeed(series, folder.like), each, folder.is_drained)

    def connections(self) -> dict[str, bool]:
        """The connections by name of input: True if the broker answers, or the server listens."""
        topics = {name: topics.is_connected for name, topics in self._topics.items()}
        return topics | {name: queue.connected for name, queue in self._received.items()}

    def close(self) -> None:
        """Close the clients of brokers, and the files that go on."""
        for topics in self._topics.values():
            topics.close()
        for _, folder in self._tails:
            folder.close()

    def _rate(self, name: str) -> RateLimit | NoRateLimit:
        return self._rates.setdefault(name, NoRateLimit())

    def _channel(
        self, file: InputFile, feed: Feed, growing: GrowingInput | None = None, is_drained: Callable[[], bool] | None = None
    ) -> Channel:
        lateness = Lateness.of(file)
        idle = None if growing is None else growing.idle
        clock = self._clocks.get(file.input)
        paced = feed if clock is None else PacedFeed(feed, clock)
        channel = Channel(paced, lateness, idle, self._rate(file.input), growing is not None, name=file.input, is_drained=is_drained)
        if growing is not None and growing.source is not None:
            channel.ahead = QUEUED_MESSAGES
        return channel
