"""The six operations of a store: the same on a disk and on a server of objects."""

from __future__ import annotations

import errno
import gzip
import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from dotr.evaluation.files.stores import Location, configure_storage
from dotr.evaluation.files.webhdfs import WebHdfs
from tests.support.hadoop import Hadoop
from tests.support.object_server import S3

STORES = ["disk", "s3", pytest.param("hdfs", marks=pytest.mark.hadoop)]


@pytest.fixture(params=STORES)
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Location]:
    """A folder of each store, which is not there yet."""
    if request.param == "disk":
        yield Location.of(f"{tmp_path}/of/mine")
        return
    if request.param == "hdfs":
        hdfs: Hadoop = request.getfixturevalue("hdfs")
        configure_storage({"hdfs": {"webhdfs": hdfs.webhdfs}})
        yield Location.of(f"{hdfs.folder()}/of/mine")
        configure_storage({})
        return
    s3: S3 = request.getfixturevalue("s3")
    configure_storage(s3.settings())
    yield Location.of(f"s3a://{s3.bucket()}/of/mine")
    configure_storage({})


def names(found: Iterator[object]) -> list[str]:
    return [str(getattr(each, "location", each)) for each in found]


def test_file_is_read_whole_and_in_ranges(folder: Location) -> None:
    file = folder / "a.txt"
    file.put(b"0123456789")
    assert file.read() == b"0123456789"
    assert file.read(3, 6) == b"345"
    assert file.read(3) == b"3456789"
    assert file.read(8, 20) == b"89"
    assert file.read(10) == file.read(10, 12) == file.read(30) == file.read(30, 40) == file.read(4, 4) == b""


def test_empty_file_is_read(folder: Location) -> None:
    file = folder / "empty"
    file.put(b"")
    found = file.look()
    assert found is not None
    assert found.size == 0
    assert file.read() == file.read(0, 5) == b""
    with file.open() as reader:
        assert reader.read() == b""
    assert names(folder.list()) == [str(file)]


def test_missing_file_is_told_by_its_name(folder: Location) -> None:
    file = folder / "none"
    assert file.look() is None
    for act in (file.read, lambda: file.read(3, 5), file.open):
        with pytest.raises(FileNotFoundError) as error:
            act()
        assert (error.value.errno, error.value.filename) == (errno.ENOENT, str(file))
    file.remove()
    (folder / "below").remove_below()
    assert names(folder.list(recursive=True)) == []


def test_reader_has_lines_and_seeks(folder: Location) -> None:
    lines = [b"%d %s\n" % (number, b"x" * (number % 97)) for number in range(20_000)]
    text = b"".join(lines)
    file = folder / "lines"
    file.put(text)
    with file.open() as reader:
        assert list(reader) == lines
        reader.seek(100_003)
        assert reader.tell() == 100_003
        assert reader.read(50) == text[100_003:100_053]
        assert reader.seek(-7, os.SEEK_END) == len(text) - 7
        assert reader.read() == text[-7:]
    with file.open(500_000) as reader:
        assert reader.tell() == 500_000
        assert reader.read() == text[500_000:]
    with file.open(len(text) + 5) as reader:
        assert reader.read() == b""


def test_compressed_file_is_read_through_a_reader(folder: Location) -> None:
    file = folder / "a.gz"
    file.put(gzip.compress(os.urandom(300_000) + b"end"))
    with file.open() as reader, gzip.open(reader) as text:
        assert text.read().endswith(b"end")


def test_file_replaced_amid_reading_is_an_error_and_no_mixture(folder: Location) -> None:
    file = folder / "big"
    file.put(b"a" * 3_000_000)
    with file.open() as reader:
        reader.read(10)
        file.put(b"b" * 3_000_000)
        if not file.is_url:
            assert set(reader.read()) == {ord("a")}  # the descriptor keeps the old file
            return
        with pytest.raises(OSError, match="replaced while it was read") as error:
            reader.read()
    assert error.value.errno == errno.ESTALE


def test_tag_differs_once_a_file_was_replaced(folder: Location) -> None:
    file = folder / "a"
    first = file.put(b"one")
    found = file.look()
    assert found is not None
    assert (found.tag, found.size) == (first, 3)
    assert next(folder.list()) == found
    second = file.put(b"two")
    assert second != first


def test_pieces_make_one_file(folder: Location) -> None:
    file = folder / "pieces"
    pieces = [bytes([number % 251]) * 1_000_003 for number in range(20)]
    tag = file.put(iter(pieces))
    found = file.look()
    assert found is not None
    assert (found.tag, found.size) == (tag, 20_000_060)
    assert file.read() == b"".join(pieces)
    assert file.put(iter([]))
    assert file.read() == b""


@pytest.mark.parametrize("size", [10, 9_000_000])
def test_failed_pieces_leave_the_file_as_it_was(folder: Location, size: int) -> None:
    def pieces() -> Iterator[bytes]:
        yield b"new" * size
        raise RuntimeError("mine")

    file = folder / "a"
    file.put(b"old")
    with pytest.raises(RuntimeError, match="mine"):
        file.put(pieces())
    assert file.read() == b"old"
    assert names(folder.list()) == [str(file)]


def test_new_file_is_written_once(folder: Location) -> None:
    file = folder / "lock"
    tag = file.put_new(b"a")
    found = file.look()
    assert found is not None
    assert found.tag == tag
    assert file.put_new(b"a") is None
    assert file.put_new(b"b") is None
    assert file.read() == b"a"
    file.remove()
    assert file.put_new(b"b") is not None


def test_unchanged_file_alone_is_replaced(folder: Location) -> None:
    file = folder / "dotr.json"
    first = file.put(b"1")
    second = file.put_unchanged(b"2", first)
    assert second is not None
    assert file.put_unchanged(b"3", first) is None
    assert file.put_unchanged(b"2", first) is None
    third = file.put_unchanged(b"4", second)
    assert third is not None
    assert file.read() == b"4"
    file.remove()
    assert file.put_unchanged(b"5", third) is None
    assert file.look() is None


def contended(act: Callable[[int], object], writers: int = 8) -> list[object]:
    barrier = threading.Barrier(writers)

    def run(number: int) -> object:
        barrier.wait()
        return act(number)

    with ThreadPoolExecutor(writers) as pool:
        return list(pool.map(run, range(writers)))


def test_of_several_writers_of_a_new_file_one_wins(folder: Location) -> None:
    for round_ in range(5):
        file = folder / f"lock-{round_}"
        tags = contended(lambda number, file=file: file.put_new(b"%d" % number))  # type: ignore[misc]
        winner = next(number for number, tag in enumerate(tags) if tag is not None)
        assert sum(tag is not None for tag in tags) == 1
        assert file.read() == b"%d" % winner


def test_of_several_writers_of_an_unchanged_file_one_wins(folder: Location) -> None:
    file = folder / "dotr.json"
    file.put(b"0")

    def count(number: int) -> int:
        """Adds one ten times, each time to what is there."""
        tries = 0
        for _ in range(5):
            while True:
                tries += 1
                found = file.look()
                assert found is not None
                data = file.read()
                if file.put_unchanged(b"%d %d.%d" % (int(data.split()[0]) + 1, number, tries), found.tag) is not None:
                    break
        return tries

    contended(count, 4)
    assert file.read().split()[0] == b"20"


def test_files_are_listed_by_name(folder: Location) -> None:
    for name in ("b", "a/x", "a/y/z", "c d", "a.txt", "ü", "100%", "p%20q"):
        (folder / name).put(b"1")
    assert names(folder.list()) == [str(folder / name) for name in ("100%", "a.txt", "b", "c d", "p%20q", "ü")]
    everything = ["100%", "a.txt", "a/x", "a/y/z", "b", "c d", "p%20q", "ü"]
    assert names(folder.list(recursive=True)) == [str(folder / name) for name in everything]
    assert [found.location.read() for found in folder.list()] == [b"1"] * 6
    assert names((folder / "b").list()) == names((folder / "a/x").list(recursive=True)) == []
    assert names((folder.parent / "min").list(recursive=True)) == []  # no prefix of a name


def test_files_that_match_a_pattern_are_listed(folder: Location) -> None:
    for name in ("a.ttl", "b.ttl", "c.txt", ".h.ttl", "d/e.ttl", "d/f/g.ttl", "d/.i/j.ttl", "x[1].ttl"):
        (folder / name).put(b"1")

    def matching(pattern: str) -> list[str]:
        found = [name.removeprefix(f"{folder}/") for name in names(folder.glob(pattern))]
        assert found == [name.removeprefix(f"{folder}/") for name in names((folder / pattern).matching())]
        return found

    assert matching("*.ttl") == ["a.ttl", "b.ttl", "x[1].ttl"]
    assert matching("a.ttl") == ["a.ttl"]
    assert matching("[ab].*") == ["a.ttl", "b.ttl"]
    assert matching("*/e.ttl") == ["d/e.ttl"]
    assert matching("d/*/g.t?l") == ["d/f/g.ttl"]
    assert matching("**/*.ttl") == ["a.ttl", "b.ttl", "d/e.ttl", "d/f/g.ttl", "x[1].ttl"]
    assert matching("d/**") == ["d/e.ttl", "d/f/g.ttl"]
    assert matching("x[[]1].ttl") == ["x[1].ttl"]
    assert matching("nothing/*") == matching("nothing") == []


def test_what_is_below_a_folder_is_removed(folder: Location) -> None:
    for name in ("a/x", "a/y/z", "ab", "a.txt"):
        (folder / name).put(b"1")
    (folder / "a").remove_below()
    (folder / "a").remove_below()
    assert names(folder.list(recursive=True)) == [str(folder / "a.txt"), str(folder / "ab")]
    (folder / "ab").remove()
    assert names(folder.list(recursive=True)) == [str(folder / "a.txt")]


@pytest.mark.parametrize("folder", ["s3"], indirect=True)
def test_more_objects_than_one_answer_has(folder: Location, s3: S3) -> None:
    expected = [str(folder / f"{number:05}") for number in range(1_003)]
    for name in expected:
        s3.put_at_once(folder.authority, Location(name).key)
    (folder / "sub/x").put(b"")
    assert names(folder.list()) == expected
    assert names(folder.list(recursive=True)) == [*expected, str(folder / "sub/x")]
    folder.remove_below()
    assert names(folder.list(recursive=True)) == []


@pytest.mark.parametrize("folder", ["s3"], indirect=True)
def test_marks_of_folders_are_no_files(folder: Location, s3: S3) -> None:
    for key in ("", "sub/", "empty/"):
        s3.client.put_object(Bucket=folder.authority, Key=f"{folder.key}/{key}".replace("//", "/"), Body=b"")
    for name in ("a", "sub/x", "none"):
        (folder / name).put(b"" if name == "none" else b"1")
    assert names(folder.list()) == [str(folder / "a"), str(folder / "none")]
    assert names(folder.list(recursive=True)) == [str(folder / "a"), str(folder / "none"), str(folder / "sub/x")]
    assert (folder / "sub").look() is None


@pytest.mark.hadoop
@pytest.mark.parametrize("folder", ["hdfs"], indirect=True)
def test_next_writer_ends_what_another_has_begun(folder: Location) -> None:
    """The writer that may replace the file has ended before it did."""
    file = folder / "dotr.json"
    first = file.put(b"1")
    begun = (folder / f".dotr.json.{first.partition('-')[0]}.next").put(b"2")
    assert names(folder.list()) == [str(file)]
    assert file.put_unchanged(b"3", first) is None
    found = file.look()
    assert found is not None
    assert (found.tag, file.read()) == (begun, b"2")
    assert file.put_unchanged(b"3", begun) is not None


@pytest.mark.hadoop
@pytest.mark.parametrize("folder", ["hdfs"], indirect=True)
def test_what_was_begun_too_late_is_not_ended(folder: Location) -> None:
    file = folder / "dotr.json"
    first = file.put(b"1")
    second = file.put(b"2")
    (folder / f".dotr.json.{first.partition('-')[0]}.next").put(b"late")
    assert file.put_unchanged(b"3", first) is None
    assert file.read() == b"2"
    assert file.put_unchanged(b"3", second) is not None
    assert file.read() == b"3"


@pytest.mark.hadoop
@pytest.mark.parametrize("folder", ["hdfs"], indirect=True)
def test_more_files_than_one_answer_has(folder: Location, hdfs: Hadoop) -> None:
    expected = [str(folder / f"{number:05}") for number in range(5)]
    for name in expected:
        Location(name).put(b"")
    store = WebHdfs(folder.authority, {"hdfs": {"webhdfs": hdfs.webhdfs}})
    told = store._json

    def short(method: str, key: str, operation: str, **parameters: str) -> Any:
        """The listing of HDFS, as if it had two entries an answer."""
        listing = told(method, key, operation, **parameters)
        statuses = listing["DirectoryListing"]["partialListing"]["FileStatuses"]["FileStatus"]
        listing["DirectoryListing"]["remainingEntries"] = max(len(statuses) - 2, 0)
        del statuses[2:]
        return listing

    vars(store)["_json"] = short
    assert [f"hdfs://{folder.authority}/{each.key}" for each in store.list(folder.key, False)] == expected
