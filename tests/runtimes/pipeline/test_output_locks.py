"""Concurrent runs: no run writes to or removes the outputs of another one, and a killed run
releases its locks.
"""

from __future__ import annotations

import fcntl
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from dotr.runtimes.pipeline.output_files import OutputLocks, Target
from tests.conftest import Project
from tests.support.paths import ROOT
from tests.support.patience import PATIENCE


@contextmanager
def running(project: Project, *options: str) -> Iterator[subprocess.Popen[bytes]]:
    """A run that waits for standard input."""
    project.write("live.yaml", project.read("c.yaml").replace("path: a.ndjson", 'path: "-"'))
    process = subprocess.Popen(
        [sys.executable, "-m", "dotr", "run", "live.yaml", "--quiet", *options],
        stdin=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert process.stdin is not None
    try:
        process.stdin.write(project.read("a.ndjson").encode())
        process.stdin.flush()
        deadline = time.monotonic() + PATIENCE
        while not (project.folder / "out.ndjson").exists():
            assert time.monotonic() < deadline
            time.sleep(0.02)
        yield process
    finally:
        process.kill()
        process.wait()
        process.stdin.close()


@pytest.mark.parametrize(
    "options", [(), ("--fresh",), ("--fresh", "--engine", "spark"), ("--engine", "spark"), ("--set", "name=other", "--fresh")]
)
def test_a_second_run_is_refused(project: Project, options: tuple[str, ...]) -> None:
    with running(project) as first:
        before = project.files()
        message = project.refused("run", "c.yaml", *options)
        assert "C216 another run is writing to out.ndjson" in message
        assert f": pipeline small, process {first.pid} on " in message
        assert project.files() == before
        assert first.poll() is None


def test_run_that_shares_one_output_is_refused(project: Project) -> None:
    with running(project):
        message = project.refused("run", "c.yaml", "--fresh", "--set", "output.0.path=other.ndjson")
        assert "c.yaml:8:14: C216 another run is writing to dead.ndjson" in message
        assert not (project.folder / ".other.ndjson.lock").exists()
        (project.folder / "link.ndjson").symlink_to("out.ndjson")
        elsewhere = ("--set", "output.0.path=link.ndjson", "--set", "dead_letter=d.ndjson", "--set", "name=other")
        assert "another run is writing to link.ndjson: " in project.refused("run", "c.yaml", "--fresh", *elsewhere)
        assert (
            project.dotr("run", "c.yaml", "--set", "output.0.path=o.ndjson", "--set", "dead_letter=d.ndjson", "--set", "name=other").code
            == 0
        )


def test_killed_run_releases_its_locks(project: Project) -> None:
    with running(project) as first:
        first.send_signal(signal.SIGKILL)
        first.wait()
        assert (project.folder / ".out.ndjson.lock").exists()
        assert project.dotr("run", "c.yaml", "--fresh").code == 0
        assert not list(project.folder.glob(".*.lock"))


def test_lock_files_are_removed(project: Project) -> None:
    before = project.files()
    project.write("r2.dotr", "broken")
    project.refused("run", "c.yaml", "--set", "output.0.path=a/b/out.ndjson", "--set", "rules=[r2.dotr]")
    assert project.files() == before | {"r2.dotr"}
    assert not (project.folder / "a").exists()
    assert project.dotr("run", "c.yaml", "--set", "output.0.path=a/b/out.ndjson").code == 0
    assert project.files() == before | {"r2.dotr", "a/b/out.ndjson", "dead.ndjson"}


def test_a_lock_released_meanwhile_is_acquired_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that opens the lock file just before its holder removes it locks a file without a
    name, and must try again.
    """
    target = Target("output", str(tmp_path / "out"))
    first, second, third = OutputLocks(), OutputLocks(), OutputLocks()
    assert first.acquire([target], "one") == []
    (found,) = second.acquire([target], "two")
    assert f"pipeline one, process {os.getpid()} on " in found.message
    plain = fcntl.flock

    def slow(number: int, how: int) -> None:
        monkeypatch.setattr(fcntl, "flock", plain)
        first.release()
        plain(number, how)

    monkeypatch.setattr(fcntl, "flock", slow)
    assert second.acquire([target], "two") == []
    assert len(third.acquire([target], "three")) == 1
    second.release()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(os.geteuid() == 0, reason="root writes everywhere")
def test_folder_below_a_read_only_folder_is_locked_itself(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    tmp_path.chmod(0o500)
    try:
        with OutputLocks() as first, OutputLocks() as second:
            assert first.acquire([Target("output", str(tmp_path / "out"))], "one") == []
            assert len(second.acquire([Target("output", str(tmp_path / "out"))], "two")) == 1
    finally:
        tmp_path.chmod(0o700)


def test_disk_without_locks_does_not_stop_a_run(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    def none(*_: object) -> None:
        raise OSError(95, "operation not supported")

    monkeypatch.setattr(fcntl, "flock", none)
    assert project.dotr("run", "c.yaml").code == 0
    assert not list(project.folder.glob(".*.lock"))
    project.write(".out.ndjson.lock", json.dumps([1]))
    assert project.dotr("run", "c.yaml", "--fresh").code == 0


def planted(project: Project, how: str) -> Path:
    """A file of the user, which has the name of the output's lock as well."""
    precious, lock = project.write("precious", "precious"), project.folder / ".out.ndjson.lock"
    match how:
        case "link":
            lock.symlink_to(precious)
        case "link to nothing":
            lock.symlink_to(project.folder / "missing")
        case "hard link":
            lock.hardlink_to(precious)
        case "file":
            lock.write_text("precious")
        case "long file":
            lock.write_text('{"pipeline": ' + "1" * 5_000)
    return precious


@pytest.mark.parametrize("engine", ["local", "spark"])
@pytest.mark.parametrize(
    ("how", "reason"),
    [
        ("link", "is a symbolic link"),
        ("link to nothing", "is a symbolic link"),
        ("hard link", "has another name too (a hard link)"),
        ("file", "is no lock file of dotr"),
        ("long file", "is no lock file of dotr"),
    ],
)
def test_nothing_in_the_place_of_a_lock_is_emptied(project: Project, engine: str, how: str, reason: str) -> None:
    precious = planted(project, how)
    lock = project.folder / ".out.ndjson.lock"
    before = os.lstat(lock), lock.read_text() if lock.exists() else None
    answer = project.dotr("run", "c.yaml", "--fresh", "--engine", engine, "--set", "spark.checkpoint=ck")
    assert answer.code == 2
    assert f"C261 out.ndjson cannot be locked: {lock} {reason}\n" in answer.err
    assert (os.lstat(lock), lock.read_text() if lock.exists() else None) == before
    assert precious.read_text() == "precious"
    assert not (project.folder / "missing").exists()
    assert not (project.folder / "out.ndjson").exists()
    assert not (project.folder / ".dead.ndjson.lock").exists()


@pytest.mark.parametrize("content", ["", "\0\0\0", '{"pipeline": "small", "process": 4711, "host": "plant"}', '{"pipeline": "sma'])
def test_lock_of_a_killed_run_locks_nothing(project: Project, content: str) -> None:
    project.write(".out.ndjson.lock", content)
    assert project.dotr("run", "c.yaml").code == 0
    assert not list(project.folder.glob(".*.lock"))


def test_release_removes_no_file_that_has_taken_the_name(tmp_path: Path) -> None:
    target, lock = Target("output", str(tmp_path / "out")), tmp_path / ".out.lock"
    with OutputLocks() as locks:
        assert locks.acquire([target], "one") == []
        lock.unlink()
        lock.write_text("another's")
    assert lock.read_text() == "another's"
