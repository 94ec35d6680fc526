"""Channels of a pipeline: its inputs as read in process, existing files and growing ones."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager

from dotr.runtimes.pipeline import Pipeline
from dotr.sources.feeds import AppearingFiles, Feed, FilesFeed, OneFile, StandardInput
from dotr.sources.lateness import Lateness
from dotr.sources.live_merge import Channel
from dotr.sources.rate_limits import NoRateLimit, RateLimit
from dotr.sources.receivers import MessageQueue
from dotr.sources.records import InputFile
from dotr.sources.watched_folders import GrowingInput


@contextmanager
def receiving_in_process(pipeline: Pipeline) -> Iterator[list[MessageQueue]]:
    """Receive the messages of a pipeline's inputs that have a source, into queues, while the context
    is open.

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


def channels_of(pipeline: Pipeline, received: Sequence[MessageQueue] = ()) -> list[Channel]:
    """One channel for each existing file, then one for each growing input; `received` are the queues
    of those that have a source. Files of an input share its rate limit."""
    rate_limits: dict[str, RateLimit | NoRateLimit] = {name: RateLimit(rate) for name, rate in pipeline.rates.items()}

    def channel(file: InputFile, feed: Feed, growing: GrowingInput | None = None) -> Channel:
        lateness = Lateness(file.delay, single=file.single)
        idle = None if growing is None else growing.idle
        return Channel(feed, lateness, idle, rate_limits.setdefault(file.input, NoRateLimit()), growing is not None)

    queues = iter(received)

    def feed(growing: GrowingInput) -> Feed:
        if growing.source is not None:
            return next(queues)
        if growing.standard:
            return StandardInput(growing.like)
        known = [file.path for file in pipeline.inputs if file.input == growing.like.input]
        return FilesFeed(AppearingFiles(growing, known))

    channels = [channel(file, FilesFeed(OneFile(file))) for file in pipeline.inputs]
    return channels + [channel(growing.like, feed(growing), growing) for growing in pipeline.growing]
