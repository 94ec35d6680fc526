"""Leases of what is at a URL, over files of this machine: one holder at a time, silent ones are replaced."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from dotr.evaluation.files import lease
from dotr.evaluation.files.lease import Lease, LeaseHeld, LeaseLost
from dotr.evaluation.files.private_files import ForeignFile
from dotr.evaluation.files.stores import Location

pytestmark = pytest.mark.core


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Location:
    monkeypatch.setattr(lease, "SECONDS", 0.6)
    monkeypatch.setattr(lease, "_RENEWED_EVERY", 0.1)
    monkeypatch.setattr(lease, "_LOOKED_EVERY", 0.02)
    return Location(str(tmp_path)) / "lease.json"


@contextmanager
def silent(held: Lease) -> Iterator[None]:
    """A holder that is suspended: its thread does not renew."""
    held._ended.set()
    held._thread.join()
    yield


def test_holder_that_renews_is_left_alone(place: Location) -> None:
    told: list[tuple[Mapping[str, object], float]] = []
    held = Lease(place, {"pipeline": "fire"})
    with pytest.raises(LeaseHeld) as found:
        Lease(place, {"pipeline": "smoke"}, tell=lambda *seen: told.append(seen))
    assert found.value.holder["pipeline"] == "fire"
    assert [(holder["pipeline"], seconds) for holder, seconds in told] == [("fire", 0.6)]
    held.confirm()
    held.release()
    assert place.look() is None


def test_silent_holder_is_replaced_after_its_time_and_ends(place: Location) -> None:
    first = Lease(place, {"pipeline": "fire"})
    with silent(first):
        began = time.monotonic()
        second = Lease(place, {"pipeline": "smoke"})
        assert time.monotonic() - began >= 0.6
    for _ in range(2):
        with pytest.raises(LeaseLost, match="taken over") as lost:
            first.confirm()
        assert lost.value.taken
    first.release()
    second.confirm()
    assert json.loads(place.read())["pipeline"] == "smoke"
    second.release()


def test_holder_that_is_known_to_be_dead_is_replaced_at_once(place: Location, monkeypatch: pytest.MonkeyPatch) -> None:
    first = Lease(place, {"pipeline": "fire"})
    with silent(first):
        monkeypatch.setattr(lease, "SECONDS", 60.0)
        second = Lease(place, {"pipeline": "fire"}, dead=first.id, tell=lambda *seen: pytest.fail(f"it waits: {seen}"))
    second.release()


def test_lease_that_is_given_back_meanwhile_is_taken(place: Location) -> None:
    first = Lease(place, {"pipeline": "fire"})
    second = Lease(place, {"pipeline": "smoke"}, tell=lambda *seen: first.release())
    second.release()


def test_time_is_that_of_the_holder(place: Location) -> None:
    place.put(json.dumps({"pipeline": "fire", "lease": "x", "seconds": 0.1}).encode())
    began = time.monotonic()
    Lease(place, {"pipeline": "smoke"}).release()
    assert 0.1 <= time.monotonic() - began < 0.6


@pytest.mark.parametrize("content", [b"", b"[1]", b'{"pipeline": "fire"}', b"\xff"])
def test_something_else_of_the_name_is_left(place: Location, content: bytes) -> None:
    place.put(content)
    with pytest.raises(ForeignFile, match="no lease of dotr"):
        Lease(place, {"pipeline": "fire"})
    assert place.read() == content


def test_lease_of_a_silent_store_holds_for_its_time_alone(place: Location, monkeypatch: pytest.MonkeyPatch) -> None:
    held = Lease(place, {"pipeline": "fire"})
    with silent(held):

        def fail(*_: object) -> None:
            raise OSError(5, "Input/output error")

        monkeypatch.setattr(Location, "put_unchanged", fail)
        held.confirm()
        time.sleep(0.7)
        with pytest.raises(LeaseLost, match=r"not be renewed for 0\.6 s: input/output error") as lost:
            held.confirm()
        assert not lost.value.taken
