"""Channels of a pipeline: its inputs as read in process, existing files and growing ones."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from dotr.runtimes.pipeline import Pipeline
from dotr.sources.feeds import AppearingFiles, Feed, FilesFeed, OneFile, StandardInput
from dotr.sources.kafka.channels import TopicChannels
from dotr.sources.lateness import Lateness
from dotr.sources.live_merge import Channel
from dotr.sources.paces import EventClock, PacedFeed
from dotr.sources.rate_limits import NoRateLimit, RateLimit
from dotr.sources.records import InputFile
from dotr.sources.watched_folders import GrowingInput


class PipelineChannels:
    """One channel for each existing file, then one for each growing input, then one for each
    partition of a topic; files and partitions of an input share its rate limit.

    `channels` grows with `appeared`.
    """

    def __init__(self, pipeline: Pipeline) -> None:
        self._paces: dict[str, RateLimit | NoRateLimit] = {name: RateLimit(rate) for name, rate in pipeline.rates.items()}
        self._clocks = {name: EventClock(pace) for name, pace in pipeline.paces.items()}
        self.channels = [self._channel(file, FilesFeed(OneFile(file))) for file in pipeline.inputs]
        self.channels += [self._channel(each.like, _feed(pipeline, each), each) for each in pipeline.growing]
        self._topics = {
            each.topics.name: TopicChannels(each, self._pace(each.topics.name), self._clocks.get(each.topics.name))
            for each in pipeline.topics
        }
        for topics in self._topics.values():
            self.channels += topics.channels

    def appeared(self) -> Iterator[Channel]:
        """The channels that have come since the last call."""
        for topics in self._topics.values():
            yield from topics.appeared()

    def connections(self) -> dict[str, bool]:
        """Whether a broker answers, by name of input."""
        return {name: topics.is_connected for name, topics in self._topics.items()}

    def close(self) -> None:
        """Close the clients of brokers."""
        for topics in self._topics.values():
            topics.close()

    def _pace(self, name: str) -> RateLimit | NoRateLimit:
        return self._paces.setdefault(name, NoRateLimit())

    def _channel(self, file: InputFile, feed: Feed, growing: GrowingInput | None = None) -> Channel:
        lateness = Lateness(file.delay, single=file.single)
        idle = None if growing is None else growing.idle
        paced = self._paced(file.input, feed)
        return Channel(paced, lateness, idle, self._pace(file.input), growing is not None, name=file.input)

    def _paced(self, name: str, feed: Feed) -> Feed:
        return PacedFeed(feed, self._clocks[name]) if name in self._clocks else feed


def _feed(pipeline: Pipeline, growing: GrowingInput) -> Feed:
    if growing.standard:
        return StandardInput(growing.like)
    known: Sequence[str] = [file.path for file in pipeline.inputs if file.input == growing.like.input]
    return FilesFeed(AppearingFiles(growing, list(known)))
