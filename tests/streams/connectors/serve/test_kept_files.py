"""Kept elements in files: restarts, crashes between any two operations on files, and damage."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import tracemalloc
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dotr.errors.diagnostics import Refused
from dotr.evaluation.files.private_files import without_links
from dotr.model.stream import Firing
from dotr.model.time import Clock
from dotr.streams.connectors.serve import kept_files
from dotr.streams.connectors.serve.kept import PAGE, Keep, KeptElements, NewElement
from dotr.streams.connectors.serve.kept_files import SERVE, StreamExtent, opened, renewed, stream_folders
from dotr.streams.formats.writing import StreamFormat, compile_writer
from dotr.streams.sinks.batches import BatchHistory
from dotr.streams.sinks.files import WriteFailed
from tests.support.paths import ROOT
from tests.support.properties import examples
from tests.support.small_disk import small_disk

pytestmark = pytest.mark.core

BASE = "http://127.0.0.1:8080/fire/"
ALL = Keep(elements=None)


def elements(start: int, stop: int) -> list[NewElement]:
    """Elements, of which three have each time; their lines are of different lengths."""
    return [
        NewElement(n // 3, n % 3, ("Fire", "a\tlabel\nof two", "Été")[n % 3], b'{"n": %d%s}' % (n, b" " * (n % 7)))
        for n in range(start, stop)
    ]


def history(written: int, planned: int | None = None, identity: str = "") -> BatchHistory:
    return BatchHistory(identity, written, written if planned is None else planned)


def start(folder: Path, written: int = 0, planned: int | None = None, keep: Keep = ALL, base: str = BASE) -> KeptElements:
    return opened(folder, keep, StreamExtent(base), history(written, planned))[0]


def lines(kept: KeptElements) -> list[tuple[int, str, str, bytes]]:
    return [(each.number, each.id, each.label, each.line) for each in kept.slice(0, kept.next)]


def expected(start: int, stop: int) -> list[tuple[int, str, str, bytes]]:
    return [(n, f"{each.time}-{each.ordinal}", each.label, each.line) for n, each in enumerate(elements(start, stop), start)]


def pages(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if path.name != "stream")


def refusal(folder: Path, written: int = 0, planned: int | None = None) -> str:
    with pytest.raises(Refused) as refused:
        start(folder, written, planned)
    (diagnostic,) = refused.value.diagnostics
    return f"{diagnostic.code} {diagnostic.message}\n{diagnostic.hint}"


def test_a_start_reads_what_was_kept(tmp_path: Path) -> None:
    kept = start(tmp_path / "0")
    kept.append_batch(0, [elements(0, 3), elements(3, PAGE + 7)])
    kept.append_batch(1, [])
    kept.append_batch(2, [elements(PAGE + 7, 2 * PAGE)])
    again = start(tmp_path / "0", 3)
    assert lines(again) == expected(0, 2 * PAGE)
    assert (again.first, again.next, again.last_batch) == (0, 2 * PAGE, 2)
    again.append_batch(3, [elements(2 * PAGE, 2 * PAGE + 1)])
    assert lines(start(tmp_path / "0", 4)) == expected(0, 2 * PAGE + 1)


def test_pages_that_leave_are_removed_and_numbers_go_on(tmp_path: Path) -> None:
    kept = start(tmp_path / "0", keep=Keep(elements=10))
    kept.append_batch(0, [elements(0, 2 * PAGE + 5)])
    assert pages(tmp_path / "0") == ["000000000001.page", "000000000002.page"]
    kept.append_batch(1, [elements(2 * PAGE + 5, 5 * PAGE + 20)])
    assert pages(tmp_path / "0") == ["000000000005.page"]
    again = start(tmp_path / "0", 2, keep=Keep(elements=10))
    assert lines(again) == expected(5 * PAGE, 5 * PAGE + 20)


def test_another_keep_at_a_restart(tmp_path: Path) -> None:
    kept = start(tmp_path / "0", keep=Keep(elements=2 * PAGE))
    kept.append_batch(0, [elements(0, 3 * PAGE + 5)])
    assert kept.first == PAGE
    more = start(tmp_path / "0", 1, keep=ALL)
    assert lines(more) == expected(PAGE, 3 * PAGE + 5)  # what has left does not come back
    fewer = start(tmp_path / "0", 1, keep=Keep(elements=1))
    assert lines(fewer) == expected(3 * PAGE, 3 * PAGE + 5)
    assert pages(tmp_path / "0") == ["000000000003.page"]
    assert lines(start(tmp_path / "0", 1, keep=ALL)) == expected(3 * PAGE, 3 * PAGE + 5)


def test_another_base_is_told(tmp_path: Path) -> None:
    kept = start(tmp_path / "0")
    kept.append_batch(0, [elements(0, 5)])
    kept, told = opened(tmp_path / "0", ALL, StreamExtent("http://b/"), history(1))
    assert told == [f"The elements of {BASE} are called http://b/… from now on: they go on with number 5."]
    assert lines(kept) == expected(0, 5)
    assert opened(tmp_path / "0", ALL, StreamExtent("http://b/"), history(1))[1] == []


def test_a_stream_that_begins_in_an_older_checkpoint_is_told(tmp_path: Path) -> None:
    kept, told = opened(tmp_path / "0", ALL, StreamExtent(BASE), history(7))
    assert told == [f"{BASE} begins with number 0: the checkpoint has 7 batches, and {tmp_path / '0'} was not there."]
    kept.append_batch(7, [elements(0, 1)])
    assert opened(tmp_path / "0", ALL, StreamExtent(BASE), history(8))[1] == []


def named(root: Path, *streams: str, written: int = 0) -> list[str]:
    """The folders of streams, each given by its base and the labels of its elements: `http://a/ Fire Smoke`, or `http://a/` for all."""
    extents = [StreamExtent(base, of=of or None) for base, *of in map(str.split, streams)]
    folders = stream_folders(root, extents, history(written))
    for folder, extent in zip(folders, extents, strict=True):
        opened(folder, ALL, extent, history(written))
    return [folder.name for folder in folders]


def test_streams_keep_their_folders_by_base(tmp_path: Path) -> None:
    assert named(tmp_path, "http://a/", "http://b/ Fire") == ["0", "1"]
    (tmp_path / "0.copy").mkdir()
    assert named(tmp_path, "http://b/ Fire", "http://a/") == ["1", "0"]
    assert named(tmp_path, "http://c/", "http://b/ Smoke", "http://d/") == ["0", "1", "2"]


def test_a_stream_with_another_base_goes_on_where_its_labels_are_the_same(tmp_path: Path) -> None:
    assert named(tmp_path, "http://a/ Fire", "http://b/ Smoke") == ["0", "1"]
    assert named(tmp_path, "http://c/ Smoke") == ["1"], "one is removed, and one has another base"
    assert named(tmp_path, "http://d/ Level", "http://c/ Smoke") == ["2", "1"], "the elements of another one are none of its own"


def test_a_new_stream_begins_where_another_one_was_left_out(tmp_path: Path) -> None:
    assert named(tmp_path, "http://a/", "http://b/") == ["0", "1"]
    for batch, name in enumerate(["0", "1", "1"]):
        start(tmp_path / name, max(0, batch - 1), batch, base=f"http://{'ab'[int(name)]}/").append_batch(batch, [()])
    assert named(tmp_path, "http://b/", "http://c/", written=3) == ["1", "2"]


def test_files_of_another_checkpoint_are_refused(tmp_path: Path) -> None:
    """Both checkpoints have as many batches."""
    opened(tmp_path / "0", ALL, StreamExtent(BASE), history(0, identity="a1"))[0].append_batch(0, [elements(0, 5)])
    with pytest.raises(Refused) as refused:
        opened(tmp_path / "0", ALL, StreamExtent(BASE), history(1, identity="b2"))
    assert str(refused.value).startswith(
        f"S160 the published stream in {tmp_path / '0'} does not belong to the checkpoint: it was made with another checkpoint\n"
    )
    assert lines(opened(tmp_path / "0", ALL, StreamExtent(BASE), history(1, identity="a1"))[0]) == expected(0, 5)


def test_a_first_start_that_was_cut_off_is_made_again(tmp_path: Path) -> None:
    """The checkpoint gets its identity once the session has started."""
    opened(tmp_path / "0", ALL, StreamExtent(BASE), history(0, identity="a1"))
    opened(tmp_path / "0", ALL, StreamExtent(BASE), history(0, identity="b2"))[0].append_batch(0, [elements(0, 5)])
    assert lines(opened(tmp_path / "0", ALL, StreamExtent(BASE), history(1, identity="b2"))[0]) == expected(0, 5)


def test_files_of_a_release_that_knew_no_identity_are_claimed(tmp_path: Path) -> None:
    start(tmp_path / "0").append_batch(0, [elements(0, 5)])
    text = b'{"base": "%b", "first": 0, "next": 5, "open": %d, "batch": 0, "seen": 0}'
    size = (tmp_path / "0" / "000000000000.page").stat().st_size
    (tmp_path / "0" / "stream").write_bytes(kept_files._checked_line(text % (BASE.encode(), size)))
    assert lines(opened(tmp_path / "0", ALL, StreamExtent(BASE), history(1, identity="a1"))[0]) == expected(0, 5)
    with pytest.raises(Refused, match="made with another checkpoint"):
        opened(tmp_path / "0", ALL, StreamExtent(BASE), history(1, identity="b2"))


def test_a_batch_in_doubt_is_known(tmp_path: Path) -> None:
    kept = start(tmp_path / "0")
    kept.append_batch(0, [elements(0, 5)])
    again = start(tmp_path / "0", written=0, planned=1)
    assert again.last_batch == 0
    assert again.append_batch(0, [elements(0, 7)]) == []  # the rules have changed
    again.append_batch(1, [elements(7, 9)])
    assert [each.number for each in again.slice(0, 9)] == [*range(7)]


def test_files_of_another_copy_than_the_checkpoint_are_refused(tmp_path: Path) -> None:
    kept = start(tmp_path / "0")
    kept.append_batch(0, [elements(0, 5)])
    kept.append_batch(1, [elements(5, 6)])
    why = f"S160 the published stream in {tmp_path / '0'} does not belong to the checkpoint: "
    assert refusal(tmp_path / "0", 0, 1).startswith(why + "it has batch 1, which the checkpoint has not begun\n")
    behind = refusal(tmp_path / "0", 9)
    assert behind.startswith(why + "it ends with batch 1, and the checkpoint with batch 8\n")
    assert f"or remove {tmp_path / '0'}: the stream then begins anew with number 0, and should have another base" in behind


def test_names_that_are_given_a_second_time_are_told(tmp_path: Path) -> None:
    public = "https://data.example/fire/"
    for name, base in zip(named(tmp_path / SERVE, BASE, public), (BASE, public), strict=True):
        assert not [*renewed(tmp_path, base, None)]
        start(tmp_path / SERVE / name, base=base).append_batch(0, [elements(0, 5)])
    assert [str(each).partition("\n")[0] for each in renewed(tmp_path, public, None)] == [
        f"S161 warning: --fresh gives the names of the elements at {public} a second time"
    ]
    assert not [*renewed(tmp_path, BASE, None)]
    assert not [*renewed(tmp_path, public + "2/", None)]


def damaged_lines(folder: Path) -> Path:
    kept = start(folder)
    kept.append_batch(0, [elements(0, PAGE + 5)])
    return folder / "000000000000.page"


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda path: path.unlink(), "is missing"),
        (lambda path: path.write_bytes(b""), "is cut or changed: it has 0 lines"),
        (lambda path: path.write_bytes(path.read_bytes()[:-3]), "is cut or changed: it has 249 lines"),
        (lambda path: path.write_bytes(path.read_bytes().replace(b'"n": 77', b'"n": 78')), "does not match its checksum"),
        (lambda path: path.write_bytes(path.read_bytes().replace(b"\n", b"\n\n", 1)), "it has 251 lines"),
        (lambda path: (path.unlink(), path.mkdir()), "cannot be read: is a directory"),
        (lambda path: path.write_bytes(b"".join(sorted(path.read_bytes().splitlines(keepends=True)))), "has element"),
    ],
)
def test_a_damaged_page_is_refused(tmp_path: Path, change: Callable[[Path], object], why: str) -> None:
    path = damaged_lines(tmp_path / "0")
    change(path)
    told = refusal(tmp_path / "0", 1)
    assert told.startswith(f"S114 the checkpoint is damaged: {path} ")
    assert why in told
    assert f"Put the checkpoint back from a copy; or remove {tmp_path / '0'}: " in told


def test_a_cut_open_page_is_refused(tmp_path: Path) -> None:
    path = damaged_lines(tmp_path / "0").with_name("000000000001.page")
    path.write_bytes(path.read_bytes()[:-1])
    assert "is cut: it has " in refusal(tmp_path / "0", 1)


@pytest.mark.parametrize("text", [b"", b"\0" * 80, b"{}", b"a505df1b {}\n", b"0" * 99])
def test_a_damaged_state_is_refused(tmp_path: Path, text: bytes) -> None:
    path = damaged_lines(tmp_path / "0").with_name("stream")
    path.write_bytes(text)
    assert refusal(tmp_path / "0", 1).startswith(f"S114 the checkpoint is damaged: {path} is ")


def test_pages_without_a_state_are_refused(tmp_path: Path) -> None:
    path = damaged_lines(tmp_path / "0").with_name("stream")
    path.unlink()
    assert refusal(tmp_path / "0", 1).startswith(f"S114 the checkpoint is damaged: {path} is missing\n")


def test_no_link_is_written_through(tmp_path: Path) -> None:
    kept = start(tmp_path / "0")
    (tmp_path / "other").write_text("mine")
    (tmp_path / "0" / "000000000000.page").symlink_to(tmp_path / "other")
    with pytest.raises(Refused):
        kept.append_batch(0, [elements(0, 1)])
    assert (tmp_path / "other").read_text() == "mine"


def test_a_start_with_ten_thousand_elements_is_short_and_small(tmp_path: Path) -> None:
    write, quads = (compile_writer(form, Clock(), messages=True) for form in (StreamFormat.NDJSON, StreamFormat.NQUADS))
    graph = tuple(("<http://e/fire>", f"<http://e/p{number}>", f'"{number}"') for number in range(2))
    firings = [Firing(at, "R", "Fire", (), graph, 0) for at in range(10_000)]
    size = sum(map(len, quads(firings)))
    kept = start(tmp_path / "0")
    kept.append_batch(0, [[NewElement(each.time, 0, "Fire", line.encode()) for each, line in zip(firings, write(firings), strict=True)]])
    tracemalloc.start()
    began = time.process_time()
    try:
        again = start(tmp_path / "0", 1)
        memory = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert time.process_time() < began + 1
    assert again.next == 10_000
    assert memory <= 2 * size


def test_a_full_disk_loses_and_doubles_nothing(tmp_path: Path) -> None:
    """The batch is written again once there is space, in the same process or in another one."""
    with small_disk(tmp_path / "d", 1 << 20) as disk:
        kept, size = start(disk.folder / "0"), 2 * PAGE
        for batch, free in enumerate((0, 3 << 12, 7 << 12)):
            disk.leave(free)
            for again in range(2):
                with pytest.raises(WriteFailed, match="full"):
                    kept.append_batch(batch, [elements(batch * size, batch * size + 20 * size)])
                assert lines(kept) == expected(0, batch * size)
                if again:
                    kept = start(disk.folder / "0", batch, batch + 1)
            disk.empty()
            kept.append_batch(batch, [elements(batch * size, (batch + 1) * size)])
            assert lines(kept) == expected(0, (batch + 1) * size)
        assert lines(start(disk.folder / "0", 3)) == expected(0, 3 * size)


class Crash(BaseException):
    """The end of the process."""


@dataclass
class Disk:
    """Operations on files, of which the one of a number does not take place, nor any behind it. What was written to a page and not
    synchronized is then lost in part."""

    left: int
    choose: Random
    dirty: list[tuple[str, int]] = field(default_factory=list)

    def operation(self, real: Callable[..., Any], *arguments: Any, **settings: Any) -> Any:
        if self.left == 0:
            for path, length in self.dirty:
                if os.path.exists(path):
                    os.truncate(path, self.choose.randint(min(length, os.path.getsize(path)), os.path.getsize(path)))
            raise Crash
        self.left -= 1
        return real(*arguments, **settings)


def crashing(patch: pytest.MonkeyPatch, left: int, choose: Random) -> None:
    """Let the process end before its operation `left` (from 0 on) on files."""
    disk = Disk(left, choose)
    real_fsync, real_open, real_replace, real_unlink = os.fsync, without_links, os.replace, Path.unlink

    def opening(path: str, flags: int) -> int:
        number: int = disk.operation(real_open, path, flags)
        disk.dirty.append((path, os.fstat(number).st_size))
        return number

    def syncing(number: int) -> None:
        disk.operation(real_fsync, number)
        disk.dirty = [each for each in disk.dirty if os.path.realpath(each[0]) != os.path.realpath(f"/proc/self/fd/{number}")]

    patch.setattr(kept_files, "without_links", opening)
    patch.setattr(os, "fsync", syncing)
    patch.setattr(os, "replace", lambda *each: disk.operation(real_replace, *each))
    patch.setattr(Path, "unlink", lambda path, **each: disk.operation(real_unlink, path, **each))


class Readers:
    """Everything that was readable at any time: an ID never has two contents, and none is taken back."""

    def __init__(self) -> None:
        self.seen: dict[str, tuple[int, bytes]] = {}
        self.first = self.end = 0

    def read(self, kept: KeptElements) -> None:
        assert kept.first >= self.first
        assert kept.next >= self.end
        self.first, self.end = kept.first, kept.next
        found = kept.slice(0, kept.next)
        assert [each.number for each in found] == [*range(kept.first, kept.next)]
        for each in found:
            assert self.seen.setdefault(each.id, (each.number, each.line)) == (each.number, each.line)


def test_a_batch_that_was_cut_off_may_be_another_one_later(tmp_path: Path) -> None:
    """The rules have changed: the last element of the page is shorter than the one that was cut off."""
    kept = start(tmp_path / "0")
    kept.append_batch(0, [elements(0, PAGE - 1)])
    at = PAGE // 3
    longer = [[NewElement(at, 0, "Fire", b"{}" * 99)]]
    with pytest.MonkeyPatch.context() as patch:
        crashing(patch, 2, Random(0))  # behind the page
        with pytest.raises(Crash):
            kept.append_batch(1, longer)
    kept = start(tmp_path / "0", 1)
    assert lines(kept) == expected(0, PAGE - 1)
    kept.append_batch(1, [[NewElement(at, 1, "Fire", b"{}")]])
    assert lines(start(tmp_path / "0", 2)) == [*expected(0, PAGE - 1), (PAGE - 1, f"{at}-1", "Fire", b"{}")]


keeps = st.builds(
    Keep, elements=st.none() | st.integers(1, 3 * PAGE), time=st.none() | st.integers(0, 300), bytes=st.none() | st.integers(1, 9_000)
)
sizes = st.lists(st.one_of(st.integers(0, 9), st.integers(0, 2 * PAGE), st.just(PAGE)), min_size=1, max_size=7)


@pytest.mark.random
@examples(40)
@given(sizes=sizes, keep=keeps, crashes=st.lists(st.tuples(st.integers(0, 30), keeps), max_size=5), scatter=st.integers())
def test_crashes_between_any_two_operations(
    tmp_path_factory: pytest.TempPathFactory, sizes: Sequence[int], keep: Keep, crashes: list[tuple[int, Keep]], scatter: int
) -> None:
    folder = tmp_path_factory.mktemp("serve") / "serve" / "0"
    ends = [sum(sizes[: number + 1]) for number in range(len(sizes))]
    choose, readers = Random(scatter), Readers()
    committed, planned = 0, 0
    for left, keep_then in [*crashes, (-1, keep)]:
        try:
            with pytest.MonkeyPatch.context() as patch:
                crashing(patch, left, choose)
                kept = start(folder, committed, planned, keep_then)
                readers.read(kept)
                while committed < len(sizes):
                    planned = committed + 1
                    kept.append_batch(committed, [elements(ends[committed] - sizes[committed], ends[committed])])
                    readers.read(kept)
                    if choose.random() < 0.1:
                        raise Crash
                    committed += 1
        except Crash:
            continue
    if committed == len(sizes):
        assert kept.next == ends[-1]
        undisturbed = KeptElements(keep)
        undisturbed.append(elements(0, ends[-1]))
        assert kept.first >= undisturbed.first
        assert lines(start(folder, committed, planned)) == expected(kept.first, ends[-1])
        assert not [name for name in os.listdir(folder) if name.endswith(".tmp")]


VICTIM = """
import sys
from pathlib import Path
from dotr.streams.connectors.serve.kept import Keep, NewElement
from dotr.streams.connectors.serve.kept_files import StreamExtent, opened
from dotr.streams.sinks.batches import BatchHistory
folder = Path(sys.argv[1])
written = len([*folder.glob("commit-*")])
kept, _ = opened(folder / "serve" / "0", Keep(elements=300), StreamExtent("http://a/"), BatchHistory("", written, written + 1))
for batch in range(written, 1_000_000):
    kept.append_batch(batch, [[NewElement(n, 0, "Fire", b'{"n": %d}' % n) for n in range(batch * 40, (batch + 1) * 40)]])
    (folder / f"commit-{batch}").touch()
"""
BATCH = 40


def test_processes_that_are_killed(tmp_path: Path) -> None:
    readers, choose = Readers(), Random(1)
    written = -1
    for _ in range(6):
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        victim = subprocess.Popen([sys.executable, "-c", VICTIM, str(tmp_path)], env=environment)
        while victim.poll() is None and len([*tmp_path.glob("commit-*")]) <= written + 1:
            time.sleep(0.005)
        time.sleep(choose.uniform(0, 0.05))
        victim.kill()
        assert victim.wait() == -signal.SIGKILL
        written = len([*tmp_path.glob("commit-*")])
        kept = start(tmp_path / "serve" / "0", written, written + 1, Keep(elements=300), "http://a/")
        readers.read(kept)
        assert kept.next in (written * BATCH, (written + 1) * BATCH)
    assert all(seen == (int(id[:-2]), b'{"n": %s}' % id[:-2].encode()) for id, seen in readers.seen.items())
