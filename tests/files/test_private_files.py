"""Files under names that others know, or can guess: nothing that was there before is changed."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from dotr.evaluation.files.private_files import (
    TEMPORARY,
    ForeignFile,
    create_file,
    open_fixed,
    remove_leftovers,
    replace_file,
    temporary_path,
    without_links,
)

pytestmark = pytest.mark.core


@pytest.fixture
def precious(tmp_path: Path) -> Path:
    path = tmp_path / "precious"
    path.write_text("precious")
    return path


def test_temporary_names_differ_and_match_their_pattern() -> None:
    names = {temporary_path(Path("out/a.ndjson")).name for _ in range(50)}
    assert len(names) == 50
    assert all(re.fullmatch(rf"\.a\.ndjson{TEMPORARY}", name) for name in names)


def test_a_created_file_is_never_one_that_exists(tmp_path: Path, precious: Path) -> None:
    (tmp_path / "link").symlink_to(precious)
    (tmp_path / "nowhere").symlink_to(tmp_path / "missing")
    for name in ("precious", "link", "nowhere"):
        with pytest.raises(FileExistsError):
            create_file(tmp_path / name)
    assert precious.read_text() == "precious"
    assert not (tmp_path / "missing").exists()


def test_replacement_replaces_a_link_and_not_the_file_behind_it(tmp_path: Path, precious: Path) -> None:
    (tmp_path / "target").symlink_to(precious)
    replace_file(tmp_path / "target", [b"new"])
    assert (precious.read_text(), (tmp_path / "target").read_text(), (tmp_path / "target").is_symlink()) == ("precious", "new", False)


def test_failed_replacement_leaves_nothing(tmp_path: Path) -> None:
    def data() -> object:
        yield b"half"
        raise OSError(28, "no space left on device")

    with pytest.raises(OSError, match="no space"):
        replace_file(tmp_path / "target", data())  # type: ignore[arg-type]
    assert list(tmp_path.iterdir()) == []


def test_leftovers_are_removed_by_their_names_alone(tmp_path: Path, precious: Path) -> None:
    kept = [".a.tmp", "a", ".a.0123456789abcde.tmp", "a.0123456789abcdef.tmp"]
    for name in kept:
        (tmp_path / name).touch()
    (tmp_path / ".a.0123456789abcdef.tmp").symlink_to(precious)
    (tmp_path / ".b.0123456789abcdef.tmp").touch()
    remove_leftovers(tmp_path, "a")
    assert sorted(os.listdir(tmp_path)) == sorted([*kept, ".b.0123456789abcdef.tmp", "precious"])
    remove_leftovers(tmp_path)
    assert sorted(os.listdir(tmp_path)) == sorted([*kept, "precious"])
    remove_leftovers(tmp_path / "missing")
    assert precious.read_text() == "precious"


def test_file_with_a_fixed_name_keeps_its_content(tmp_path: Path) -> None:
    number, is_new = open_fixed(tmp_path / "lock")
    os.write(number, b"held")
    os.close(number)
    assert is_new
    number, is_new = open_fixed(tmp_path / "lock")
    assert (os.read(number, 9), is_new) == (b"held", False)
    os.close(number)


def test_other_things_under_a_fixed_name_are_not_opened(tmp_path: Path, precious: Path) -> None:
    (tmp_path / "link").symlink_to(precious)
    (tmp_path / "nowhere").symlink_to(tmp_path / "missing")
    os.link(precious, tmp_path / "name")
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    reasons = {}
    for name in ("link", "nowhere", "name", "pipe", "folder"):
        with pytest.raises(ForeignFile) as foreign:
            open_fixed(tmp_path / name)
        reasons[name] = str(foreign.value)
    assert reasons == {
        "link": "is a symbolic link",
        "nowhere": "is a symbolic link",
        "name": "has another name too (a hard link)",
        "pipe": "is no regular file",
        "folder": "is no regular file",
    }
    assert precious.read_text() == "precious"
    assert not (tmp_path / "missing").exists()


def test_nothing_is_appended_through_a_link(tmp_path: Path, precious: Path) -> None:
    (tmp_path / "log").symlink_to(precious)
    with pytest.raises(OSError, match="symbolic links"), open(tmp_path / "log", "a", opener=without_links):
        pass
    assert precious.read_text() == "precious"
