"""Stores that fail for a moment, amid a request, or for good; and answers that are lost."""

from __future__ import annotations

import errno
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from dotr.evaluation.files.stores import Location, configure_storage
from tests.support.hadoop import Hadoop
from tests.support.object_server import S3, SECRET, broken_connection


class Breaks:
    """Ways in which the next requests are broken, one each in turn; the last way goes on."""

    def __init__(self) -> None:
        self.ways: list[str] = [""]
        self.seen: list[str] = []

    def __call__(self, method: str, path: str) -> str:
        self.seen.append(method)
        return self.ways.pop(0) if len(self.ways) > 1 else self.ways[0]


@pytest.fixture(params=["s3", pytest.param("hdfs", marks=pytest.mark.hadoop)])
def broken(request: pytest.FixtureRequest) -> Iterator[tuple[Location, Breaks]]:
    """A folder of a store behind a connection that breaks; a request is repeated for a second."""
    breaks = Breaks()
    if request.param == "hdfs":
        hdfs: Hadoop = request.getfixturevalue("hdfs")
        with broken_connection(hdfs.webhdfs, breaks) as endpoint:
            configure_storage({"hdfs": {"webhdfs": endpoint}, "retry": {"seconds": "1"}})
            yield Location.of(hdfs.folder()), breaks
    else:
        s3: S3 = request.getfixturevalue("s3")
        bucket = s3.bucket()
        with broken_connection(s3.endpoint, breaks) as endpoint:
            configure_storage({**s3.settings(endpoint), "retry": {"seconds": "1"}})
            yield Location.of(f"s3://{bucket}/f"), breaks
    configure_storage({})


@pytest.mark.parametrize("way", ["500", "503", "cut", "short"])
def test_failure_of_a_moment_is_passed_over(broken: tuple[Location, Breaks], way: str) -> None:
    folder, breaks = broken
    file = folder / "a"
    tag = file.put(b"0123456789" * 1000)
    breaks.ways = [way, way, ""]
    assert file.read() == b"0123456789" * 1000
    breaks.ways = [way, ""]
    found = file.look()
    assert found is not None
    assert found.tag == tag
    breaks.ways = [way, ""]
    assert [each.location for each in folder.list()] == [file]
    breaks.ways = [way, ""]
    new = file.put(b"new")
    breaks.ways = [way, ""]
    assert file.put_unchanged(b"newer", new) is not None
    breaks.ways = [way, ""]
    assert (folder / "b").put_new(b"1") is not None
    breaks.ways = [way, ""]
    folder.remove_below()
    assert list(folder.list(recursive=True)) == []


@pytest.mark.parametrize("way", ["500", "cut"])
def test_failure_that_lasts_is_an_error_of_its_file(broken: tuple[Location, Breaks], way: str) -> None:
    folder, breaks = broken
    file = folder / "a"
    tag = file.put(b"old")
    breaks.ways = [way]
    for act in (file.read, file.look, lambda: list(folder.list()), lambda: file.put(b"1"), lambda: file.put_unchanged(b"1", tag)):
        begin = time.monotonic()
        with pytest.raises(OSError, match=r"the store|HDFS") as error:
            act()
        assert time.monotonic() - begin < 10
        assert str(folder) in str(error.value.filename)
        assert error.value.errno in (errno.EIO, errno.EHOSTUNREACH)
        assert SECRET not in f"{error.value!r} {error.value}"
    breaks.ways = [""]
    assert file.read() == b"old"


def test_own_put_counts_where_its_answer_was_lost(broken: tuple[Location, Breaks]) -> None:
    folder, breaks = broken
    lock = folder / "lock"
    breaks.ways = ["lost", ""]
    first = lock.put_new(b"run 1")
    assert first is not None
    assert lock.put_new(b"run 2") is None
    for ways in (["", "lost", ""], ["", "", "lost", ""], ["", "", "", "lost", ""], ["lost", ""]):
        found = lock.look()
        assert found is not None
        breaks.ways = list(ways)
        assert lock.put_unchanged(b"run 1 " + repr(ways).encode(), found.tag) is not None
        assert lock.read() == b"run 1 " + repr(ways).encode()
    breaks.ways = ["lost", ""]
    lock.put(b"whole")
    assert lock.read() == b"whole"


def test_put_of_another_does_not_count_where_an_answer_was_lost(broken: tuple[Location, Breaks]) -> None:
    folder, breaks = broken
    lock = folder / "lock"
    tag = lock.put(b"run 1")
    lock.put(b"run 2")
    breaks.ways = ["500", ""]
    assert lock.put_new(b"run 3") is None
    breaks.ways = ["500", ""]
    assert lock.put_unchanged(b"run 3", tag) is None
    assert lock.read() == b"run 2"


def test_reader_goes_on_after_a_failure(broken: tuple[Location, Breaks]) -> None:
    folder, breaks = broken
    text = bytes(range(256)) * 4000
    file = folder / "a"
    file.put(text)
    with file.open() as reader:
        found = reader.read(1000)
        breaks.ways = ["cut", "500", ""]
        found += reader.read(500_000)
        breaks.ways = ["short", ""]
        found += reader.read()
        assert found == text
        breaks.ways = ["500"]
        reader.seek(0)
        with pytest.raises(OSError, match=r"fails|reached"):
            reader.read()


def test_failed_parts_leave_the_object_as_it_was(s3: S3) -> None:
    """A file in parts, of which one is refused for good."""
    bucket, breaks = s3.bucket(), Breaks()
    with broken_connection(s3.endpoint, breaks) as endpoint:
        configure_storage({**s3.settings(endpoint), "retry": {"seconds": "1"}})
        file = Location(f"s3://{bucket}/big")
        file.put(b"old")
        breaks.ways = ["", "", "500"]
        with pytest.raises(OSError, match="the store fails"):
            file.put(b"x" * 5_000_000 for _ in range(8))
        breaks.ways = [""]
        assert file.read() == b"old"
    configure_storage({})


def test_full_disk_leaves_the_file_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = Location(f"{tmp_path}/a")
    file.put(b"old")

    def full(number: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    acts: tuple[Callable[[], object], ...] = (
        lambda: file.put(b"new"),
        lambda: file.put_new(b"new"),
        lambda: (file.parent / "b").put_new(b"new"),
    )
    for act in acts:
        with pytest.raises(OSError, match="No space left"):
            act()
    assert [each.location.read() for each in file.parent.list()] == [b"old"]
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


@pytest.mark.hadoop
def test_lost_data_node_is_an_error_until_it_is_back(hdfs: Hadoop) -> None:
    configure_storage({"hdfs": {"webhdfs": hdfs.webhdfs}, "retry": {"seconds": "1"}})
    file = Location(hdfs.folder()) / "a"
    file.put(b"old")
    hdfs.kill_data_node()
    for act in (file.read, lambda: file.put(b"new"), lambda: (file.parent / "b").put_new(b"new")):
        with pytest.raises(OSError, match="HDFS") as error:
            act()
        assert error.value.filename in (str(file), f"{file.parent}/b")
    found = file.look()
    assert found is not None
    assert found.size == 3
    hdfs.start_data_node()
    configure_storage({"hdfs": {"webhdfs": hdfs.webhdfs}})
    assert file.read() == b"old"
    assert file.put_unchanged(b"new", found.tag) is not None
    assert [each.location for each in file.parent.list()] == [file]
    configure_storage({})
