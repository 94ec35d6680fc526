"""Metadata requests to a Kafka cluster: the partitions of an input, their offsets, and new, replaced
and deleted partitions during a run.

A request is repeated until the cluster answers, or until a permanent error occurs.
"""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

from dotr.errors.diagnostics import DotrError, InputFailed, did_you_mean
from dotr.streams.connectors.kafka.client import ClientEvents, admin, error_text, kafka, permanent_failure
from dotr.streams.connectors.kafka.topics import EARLIEST, EARLIEST_OFFSET, LATEST_OFFSET, KafkaInput, Partition

if TYPE_CHECKING:
    from confluent_kafka import KafkaError, TopicPartition
    from confluent_kafka.admin._listoffsets import OffsetSpec
    from confluent_kafka.admin._topic import TopicDescription
import threading

from dotr.errors.diagnostics import Refused

_LOG: Final = logging.getLogger("dotr")
_T = TypeVar("_T")

_SECONDS: Final = 5.0
"""Longest wait for one response."""

_FIRST_PAUSE: Final = 1.0
_LONGEST_PAUSE: Final = 60.0

Key = tuple[str, int]
"""A topic and the number of a partition."""


class FoundPartition(NamedTuple):
    """An existing partition: topic, number, and the id of the topic."""

    topic: str
    number: int
    identity: str

    @property
    def key(self) -> Key:
        """The topic and the number."""
        return self.topic, self.number


class UnknownTopic(InputFailed):
    """A topic or partition that the cluster does not have."""


class Cluster:
    """The cluster of an input; `events` receives the errors of its client.

    Raises `Refused` where no client can be created.
    """

    def __init__(self, topics: KafkaInput, events: ClientEvents) -> None:
        self.topics = topics
        self.events = events
        self._admin = admin(topics, events)

    def request(self, send: Callable[[], _T], wait: Callable[[float], object] = time.sleep) -> _T:
        """The response to a request, which is sent again after 1, 2, 4 … 60 s while no broker
        answers.

        Raises `InputFailed` for a permanent error.
        """
        pause = 0.0
        while True:
            try:
                response = self.request_once(send)
            except NoResponse as error:
                if not pause:
                    _LOG.warning("Input %s: no answer from %s: %s. Trying again.", self.topics.name, self.topics.servers, error)
                pause = min(_LONGEST_PAUSE, 2 * pause) or _FIRST_PAUSE
                wait(pause)
            else:
                if pause:
                    _LOG.warning("Input %s: %s answers.", self.topics.name, self.topics.servers)
                return response

    def request_once(self, send: Callable[[], _T]) -> _T:
        """Response to a request; raises `NoResponse`, or `InputFailed` for a permanent error."""
        try:
            response = send()
        except kafka().KafkaException as failed:
            error: KafkaError = failed.args[0]
            self._admin.poll(0)
            self.events.check()
            failure = permanent_failure(self.topics, error)
            if failure is not None:
                raise failure from None
            self.events.is_connected = False
            raise NoResponse(self.events.reason or error_text(self.topics, error)) from None
        self._admin.poll(0)
        self.events.is_connected = True
        return response

    def partitions(self) -> list[FoundPartition]:
        """The present partitions of the input, ordered by topic and number: a request to send by
        `request` or `request_once`. Raises `UnknownTopic`."""
        topics = self.topics
        names = set(topics.names) or {topic for topic, _ in topics.assigned}
        if topics.pattern:
            matches = re.compile(topics.pattern).fullmatch
            names = {name for name in self._topic_names() if matches(name) and not name.startswith("__")}
            if not names:
                raise UnknownTopic("S126", f"input {topics.name}: no topic of {topics.servers} matches {topics.pattern}", _CREATE_TOPIC)
        found: list[FoundPartition] = []
        for name in sorted(names):
            description = self._described(name, names)
            numbers = sorted(each.id for each in description.partitions)
            found += [FoundPartition(name, number, str(description.topic_id)) for number in numbers]
        if not topics.assigned:
            return found
        known = {each.key: each for each in found}
        for topic, number in topics.assigned:
            if (topic, number) not in known:
                raise UnknownTopic("S126", f"input {topics.name}: the topic {topic} has no partition {number}", "Correct `assign`.")
        return [known[key] for key in sorted(topics.assigned)]

    def _topic_names(self) -> list[str]:
        return sorted(self._admin.list_topics(timeout=_SECONDS).topics)

    def _described(self, name: str, subscribed: Iterable[str]) -> TopicDescription:
        library = kafka()
        try:
            description: TopicDescription = self._admin.describe_topics(library.TopicCollection([name]), request_timeout=_SECONDS)[
                name
            ].result()
        except library.KafkaException as failed:
            if failed.args[0].name() in ("UNKNOWN_TOPIC_OR_PART", "_UNKNOWN_TOPIC"):
                hint = did_you_mean(name, [other for other in self._topic_names() if other not in subscribed]) or _CREATE_TOPIC
                raise UnknownTopic("S126", f"input {self.topics.name}: {self.topics.servers} has no topic {name}", hint) from None
            raise
        return description

    def offsets(self, keys: Sequence[Key], at: OffsetSpec) -> dict[Key, int]:
        """The offset of each partition at a specification: earliest, latest, or that of a time.

        -1 where a partition has no record at or after the time.
        """
        library = kafka()
        if not keys:
            return {}
        places = {library.TopicPartition(topic, number): at for topic, number in keys}
        committed = dict(self.topics.properties).get("isolation.level", "read_committed") == "read_committed"
        level = library.IsolationLevel.READ_COMMITTED if committed else library.IsolationLevel.READ_UNCOMMITTED
        responses: Mapping[TopicPartition, object] = self._admin.list_offsets(places, isolation_level=level, request_timeout=_SECONDS)
        return {(place.topic, place.partition): response.result().offset for place, response in responses.items()}  # type: ignore[attr-defined]

    def resolved(self, found: Sequence[FoundPartition], *, later: bool = False) -> list[Partition]:
        """The partitions with their first offsets, and their ends where the input is bounded.

        A request to send by `request` or `request_once`. `later`: the partitions have appeared
        during the run, and are read from their first record on. Raises `InputFailed` (S121) where
        an offset is beyond the end.
        """
        from confluent_kafka.admin._listoffsets import OffsetSpec

        topics = self.topics
        keys = [each.key for each in found]
        low = self.offsets(keys, OffsetSpec.earliest())  # type: ignore[no-untyped-call]
        high = self.offsets(keys, OffsetSpec.latest())  # type: ignore[no-untyped-call]
        special = {EARLIEST_OFFSET: low, LATEST_OFFSET: high}
        firsts = dict(low if later or topics.start == EARLIEST else high)
        if topics.start_time is not None and not later:
            timed = self.offsets(keys, OffsetSpec.for_timestamp(topics.start_time))
            firsts = {key: high[key] if timed[key] < 0 else timed[key] for key in keys}
        named = {(each.topic, each.partition): each.offset for each in topics.start_offsets}
        ended = {(each.topic, each.partition): each.offset for each in topics.end_offsets}
        resolved = []
        for each in found:
            key = each.key
            first = named.get(key, firsts[key]) if not later else firsts[key]
            first = special[first][key] if first in special else first
            end = ended.get(key, LATEST_OFFSET)
            end = special[end][key] if end in special else end
            for offset, setting in ((first, "startingOffsets"), (end, "endingOffsets")):
                if offset > high[key]:
                    raise another_topic(topics, each, f"{setting} names offset {offset:,}, and it ends at {high[key]:,}")
            resolved.append(Partition(each.topic, each.number, each.identity, first, end if topics.is_bounded else None))
        unknown = sorted(key for key in {**named, **ended} if key not in keys) if not later else []
        if unknown:
            topic, number = unknown[0]
            message = f"input {topics.name}: an offset is given for partition {number} of {topic}, which it does not read"
            raise UnknownTopic("S126", message, "Correct startingOffsets or endingOffsets.")
        return resolved


class NoResponse(DotrError):
    """No broker has answered; the message is the reason."""


_CREATE_TOPIC: Final = "Make it first: dotr makes no topics."


def another_topic(topics: KafkaInput, place: FoundPartition | Partition, reason: str) -> InputFailed:
    """The failure where a topic was replaced, so that the offsets belong to another one (S121)."""
    hint = (
        "Was the topic deleted and made again? To read it from its beginning start over with --fresh (it removes this pipeline's output "
        "and checkpoint)."
    )
    return InputFailed("S121", f"input {topics.name}: partition {place.number} of {place.topic} is not what it was: {reason}", hint)


def data_lost(topics: KafkaInput, place: Partition, first: int, end: int) -> InputFailed:
    """The failure where the broker has deleted the unread records [first, end) (S120)."""
    message = (
        f"input {topics.name}: the records {first:,} to {end - 1:,} of partition {place.number} of {place.topic} are lost: "
        "the broker has deleted them before they were read"
    )
    hint = "Give the topic a longer retention (retention.ms, retention.bytes). "
    if topics.fails_on_loss:
        hint += "With failOnDataLoss: false a run goes on behind them, with one dead letter (reason lost)."
    else:
        hint += "A batch that was planned is never done again smaller: start over with --fresh, or from a copy of the checkpoint."
    return InputFailed("S120", message, hint)


EVERY_SECONDS: Final = 3.0
_DISCONNECTED_SECONDS: Final = 1.0
_MISSING_SECONDS: Final = 15.0
"""Time after which a topic missing from the metadata counts as deleted: the metadata of a cluster
that has just started may be incomplete."""


class TopicWatch:
    """A thread that requests the partitions of an input every few seconds (`every`).

    `known` are the partitions that are read already. A permanent error, a deleted topic and a topic
    replaced by another one of its name become `failure` of the cluster's `events`.
    """

    def __init__(self, cluster: Cluster, known: Iterable[Partition], every: float = EVERY_SECONDS) -> None:
        self._cluster = cluster
        self._known = {each.key: each for each in known}
        self._every = every
        self._found: list[Partition] = []
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._missing_since: float | None = None
        threading.Thread(target=self._run, daemon=True, name=f"watch {cluster.topics.name}").start()

    def appeared(self) -> list[Partition]:
        """The partitions that have appeared since the last call."""
        if not self._found:
            return []
        with self._lock:
            found, self._found = self._found, []
        return found

    def stop(self) -> None:
        """Stop the thread after its present request."""
        self._stop.set()

    def _run(self) -> None:
        events = self._cluster.events
        while not self._stop.wait(self._every if events.is_connected else _DISCONNECTED_SECONDS):
            try:
                self._check()
            except NoResponse:
                continue
            except InputFailed as failed:
                events.failure = failed
                return
            except Refused as refused:
                first = refused.diagnostics[0]
                events.failure = InputFailed(first.code, first.message, first.hint)
                return

    def _check(self) -> None:
        cluster = self._cluster
        try:
            found = cluster.request_once(cluster.partitions)
            missing = self._known.keys() - {each.key for each in found}
            if missing:
                topic, number = min(missing)
                raise UnknownTopic("S126", f"input {cluster.topics.name}: partition {number} of {topic} is no longer there")
        except UnknownTopic:
            now = time.monotonic()
            self._missing_since = self._missing_since or now
            if now - self._missing_since >= _MISSING_SECONDS:
                raise
            return
        self._missing_since = None
        check_identities(cluster, self._known.values(), {each.key: each.identity for each in found})
        new = [each for each in found if each.key not in self._known]
        if new and not cluster.topics.is_bounded:
            partitions = cluster.request_once(lambda: cluster.resolved(new, later=True))
            self._known |= {each.key: each for each in partitions}
            with self._lock:
                self._found += partitions


def check_identities(cluster: Cluster, known: Iterable[Partition], found: dict[tuple[str, int], str]) -> None:
    """Check that no topic was replaced by another one of its name.

    `found` has the present topic ids by partition. Raises `InputFailed` (S121).
    """
    for each in known:
        identity = found.get(each.key, each.identity)
        if each.identity and identity and identity != each.identity:
            raise another_topic(cluster.topics, each, "its topic has another id")
