"""Monitoring of the topics of an input during a run: new, replaced and deleted partitions."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable
from typing import Final

from dotr.errors.diagnostics import Refused
from dotr.streams.connectors.kafka.cluster import Cluster, NoResponse, UnknownTopic, another_topic
from dotr.streams.connectors.kafka.topics import Partition
from dotr.streams.failures import InputFailed

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
