"""The archive of Spark's classes: three runs share the work, and no damaged one is used."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path

import pytest

from dotr.runtimes.spark.start.installation import ClassArchive, is_open, java_version_text, spark_home
from dotr.runtimes.spark.start.session import archive_options
from tests.support.patience import PATIENCE

pytestmark = pytest.mark.spark

JVM = "-XX:TieredStopAtLevel=1 -XX:+UseParallelGC"


@pytest.fixture
def archive(tmp_path: Path) -> ClassArchive:
    home = spark_home()
    assert home is not None
    return ClassArchive(tmp_path / "classes", java_version_text(), home, JVM)


def java(options: str) -> int:
    """Exit code of Spark's JVM with the options, which prints its version and ends."""
    home = spark_home()
    assert home is not None
    command = [str(home / "bin" / "spark-submit"), "--driver-java-options", f"{JVM} {options}", "--version"]
    return subprocess.run(command, capture_output=True, timeout=PATIENCE, check=False).returncode


def made(archive: ClassArchive) -> str:
    """The options of the third run."""
    assert archive.java_options() == ""
    writing = archive.java_options()
    assert "-XX:ArchiveClassesAtExit=" in writing
    assert java(writing) == 0
    using = archive.java_options()
    assert f"-XX:SharedArchiveFile={archive.file}" in using
    return using


def test_third_run_uses_the_archive_and_a_damaged_one_is_ignored(archive: ClassArchive) -> None:
    using = made(archive)
    assert sorted(path.suffix for path in archive.file.parent.iterdir()) == [".jsa", ".length", ".mark"]
    assert java(f"{using} -Xshare:on") == 0
    archive.file.chmod(0o644)
    with archive.file.open("r+b") as file:  # of the same length, so Java's verification has to find it
        file.seek(archive.file.stat().st_size // 2)
        file.write(b"\x5a" * 4096)
    assert java(f"{using} -Xshare:on") != 0
    assert java(using) == 0
    os.truncate(archive.file, archive.file.stat().st_size // 2)
    assert "-XX:ArchiveClassesAtExit=" in archive.java_options()


def test_an_incomplete_archive_is_removed_and_written_again(archive: ClassArchive) -> None:
    archive.java_options()
    left = archive.file.with_suffix(".4711.written")
    left.write_bytes(b"\x00" * 8192)
    assert "-XX:ArchiveClassesAtExit=" in archive.java_options()
    assert not left.exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives a file to another user")
def test_an_archive_of_another_user_is_neither_used_nor_tried(archive: ClassArchive, monkeypatch: pytest.MonkeyPatch) -> None:
    archive.java_options()
    for suffix in (".jsa", ".length"):
        archive.file.write_bytes(b"classes")
        archive.file.with_suffix(".length").write_text("7")
        assert "-XX:SharedArchiveFile=" in archive.java_options()
        os.chown(archive.file.with_suffix(suffix), 54_321, 54_321)
        assert "-XX:ArchiveClassesAtExit=" in archive.java_options()
        archive.file.with_suffix(suffix).unlink()
    written = archive.file.with_suffix(".4711.written")
    written.write_bytes(b"classes")
    written.chmod(0o666)
    monkeypatch.setattr(ClassArchive, "_is_good", lambda *_: pytest.fail("it was tried"))
    assert "-XX:ArchiveClassesAtExit=" in archive.java_options()
    assert not written.exists()


def test_an_archive_that_is_being_written_is_left_alone(archive: ClassArchive) -> None:
    archive.java_options()
    written = archive.file.with_suffix(".4711.written")
    with written.open("wb"):
        assert is_open(written)
        assert archive.java_options() == ""
        assert written.exists()
    assert not is_open(written)


def test_archives_that_are_no_longer_used_are_removed(archive: ClassArchive) -> None:
    folder = archive.file.parent
    folder.mkdir()
    for name, used in (("new", time.time()), ("old", time.time() - 86_400), ("older", time.time() - 40 * 86_400)):
        (folder / f"{name}.jsa").touch()
        os.utime(folder / f"{name}.jsa", (used, used))
    archive.file.write_bytes(b"classes")
    archive.file.with_suffix(".length").write_text("7")
    assert "-XX:SharedArchiveFile=" in archive.java_options()
    assert sorted(path.name for path in folder.glob("*.jsa")) == sorted([archive.file.name, "new.jsa"])


def test_unwritable_folder_gives_a_warning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "cache").write_text("no folder")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert archive_options() == ""
    (line,) = [record.getMessage() for record in caplog.records]
    assert line == f"Spark starts without an archive of its classes: {tmp_path}/cache/dotr/classes cannot be used: Not a directory"
