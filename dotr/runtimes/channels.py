"""Channels of a pipeline: its inputs as read in process, existing files and growing ones."""

from __future__ import annotations

from dotr.runtimes.pipeline import Pipeline
from dotr.sources.feeds import AppearingFiles, Feed, FilesFeed, OneFile, StandardInput
from dotr.sources.lateness import Lateness
from dotr.sources.live_merge import Channel
from dotr.sources.paces import EventClock, PacedFeed
from dotr.sources.rate_limits import NoRateLimit, RateLimit
from dotr.sources.records import InputFile
from dotr.sources.watched_folders import GrowingInput


def channels_of(pipeline: Pipeline) -> list[Channel]:
    """One channel for each existing file, then one for each growing input. Files of an input share
    its rate limit."""
    rate_limits: dict[str, RateLimit | NoRateLimit] = {name: RateLimit(rate) for name, rate in pipeline.rates.items()}

    def channel(file: InputFile, feed: Feed, growing: GrowingInput | None = None) -> Channel:
        lateness = Lateness(file.delay, single=file.single)
        idle = None if growing is None else growing.idle
        return Channel(feed, lateness, idle, rate_limits.setdefault(file.input, NoRateLimit()), growing is not None)

    def feed(growing: GrowingInput) -> Feed:
        if growing.standard:
            return StandardInput(growing.like)
        known = [file.path for file in pipeline.inputs if file.input == growing.like.input]
        return FilesFeed(AppearingFiles(growing, known))

    clocks = {name: EventClock(pace) for name, pace in pipeline.paces.items()}

    def paced(name: str, feed: Feed) -> Feed:
        return PacedFeed(feed, clocks[name]) if name in clocks else feed

    channels = [channel(file, paced(file.input, FilesFeed(OneFile(file)))) for file in pipeline.inputs]
    return channels + [channel(growing.like, paced(growing.like.input, feed(growing)), growing) for growing in pipeline.growing]
