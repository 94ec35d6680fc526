"""A published stream: what its clients are sent of a batch."""

from __future__ import annotations

import json
import threading
import time
from urllib.request import urlopen

import pytest

from dotr.streams.connectors.serve.kept import Keep, KeptElement
from tests.support.patience import PATIENCE
from tests.support.published import GRAPH, event_at, published

pytestmark = pytest.mark.core


def test_clients_are_sent_elements_of_a_batch_that_leave_at_once() -> None:
    with published(keep=Keep(elements=1)) as on, urlopen(f"{on.address}stream?format=ndjson", timeout=PATIENCE) as answer:
        until = time.monotonic() + PATIENCE
        while not on.stream.broadcast.has_clients and time.monotonic() < until:
            time.sleep(0.002)
        blocks = [[event_at(at, on.stream.clock, GRAPH) for at in range(start, start + 100)] for start in range(0, 700, 100)]
        on.stream.publish_batch(7, iter(blocks))
        ids = [json.loads(answer.readline())["id"] for _ in range(700)]
    assert ids == [f"{each.time}-0" for block in blocks for each in block]
    assert on.stream.kept.first == 500


def test_clients_are_told_once_of_all_that_came_since_the_loop_last_looked(monkeypatch: pytest.MonkeyPatch) -> None:
    with published() as on:
        told: list[list[str]] = []
        done, waits = threading.Event(), threading.Event()

        def tell(elements: list[KeptElement]) -> None:
            told.append([each.id for each in elements])
            done.set()

        monkeypatch.setattr(on.stream.broadcast, "publish", tell)
        on.stream.broadcast.has_clients = True
        assert on.stream._loop is not None
        on.stream._loop.call_soon_threadsafe(waits.wait, PATIENCE)
        for second in range(3):
            on.add([second])
        waits.set()
        assert done.wait(PATIENCE)
        on.stream.broadcast.has_clients = False
    assert told[0] == ["0-0", "1000000-0", "2000000-0"]
