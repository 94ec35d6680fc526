"""Paths that other users could change, by owner and by permissions, at every place of the path."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from dotr.evaluation.files import caches, trust
from dotr.evaluation.files.caches import usable_cache
from dotr.evaluation.files.trust import distrust, distrust_tree, make_folder, make_trusted_folder

pytestmark = pytest.mark.core

OTHER = 54_321
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root gives a file to another user")


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A file in two folders, which this user alone can change."""
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "b" / "c").write_text("")
    for each in (tmp_path / "a", tmp_path / "a" / "b"):
        each.chmod(0o755)
    (tmp_path / "a" / "b" / "c").chmod(0o644)
    return tmp_path / "a"


def test_own_path_is_trusted_whether_or_not_it_exists(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert [distrust(place / name) for name in ("b/c", "b", "b/missing/too", "b/c/d", "b/../b/c")] == [None] * 5
    monkeypatch.chdir(place)
    assert distrust(Path("b/c")) is None


@pytest.mark.parametrize("name", ["", "b", "b/c"])
@pytest.mark.parametrize(
    ("mode", "who"), [(0o757, "all users"), (0o775, "the group root"), (0o1775, "the group root"), (0o1777, "all users")]
)
@needs_root
def test_path_that_others_can_write_to(place: Path, name: str, mode: int, who: str) -> None:
    (place / name).chmod(mode)
    is_sticky_on_the_way = mode & 0o1000 and name != "b/c"
    assert distrust(place / "b" / "c") == (None if is_sticky_on_the_way else f"{place / name} can be written by {who}")
    assert distrust(place / name) == f"{place / name} can be written by {who}"


@pytest.mark.parametrize("name", ["", "b", "b/c"])
@needs_root
def test_path_of_another_user(place: Path, name: str) -> None:
    os.chown(place / name, OTHER, OTHER)
    assert distrust(place / "b" / "c") == f"{place / name} belongs to the user {OTHER}"


@needs_root
def test_entry_of_another_user_in_a_folder_with_the_sticky_bit(place: Path) -> None:
    place.chmod(0o1777)
    assert distrust(place / "b" / "c") is None
    os.chown(place / "b", OTHER, OTHER)
    assert distrust(place / "b" / "c") == f"{place / 'b'} belongs to the user {OTHER}"


@needs_root
def test_every_link_and_the_folders_of_its_target_count(tmp_path: Path, place: Path) -> None:
    (tmp_path / "two").symlink_to("a/b")
    (tmp_path / "one").symlink_to(tmp_path / "two")
    assert distrust(tmp_path / "one" / "c") is None
    os.chown(tmp_path / "two", OTHER, OTHER, follow_symlinks=False)
    assert distrust(tmp_path / "one" / "c") == f"{tmp_path / 'two'} belongs to the user {OTHER}"
    os.chown(tmp_path / "two", 0, 0, follow_symlinks=False)
    place.chmod(0o777)
    assert distrust(tmp_path / "one" / "c") == f"{place} can be written by all users"
    (tmp_path / "round").symlink_to("round")
    assert distrust(tmp_path / "round") == f"{tmp_path / 'round'} is one of too many links"


@needs_root
def test_files_of_root_are_trusted_by_others() -> None:
    code = (
        "import os\nfrom pathlib import Path\nfrom dotr.evaluation.files.trust import distrust\n"
        f"os.setgroups([]); os.setgid({OTHER}); os.setuid({OTHER})\nprint(distrust(Path('/usr/bin/env')))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout == "None\n", done.stderr


def test_private_group_of_this_user_is_no_other(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on systems that give each user a group of that name, and a umask of 002."""
    import grp
    import pwd

    place.chmod(0o775)
    user = ["eve", "x", 1000, place.stat().st_gid, "", "/", "/bin/sh"]
    members: list[str] = []
    monkeypatch.setattr(pwd, "getpwuid", lambda _: pwd.struct_passwd(user))
    monkeypatch.setattr(grp, "getgrgid", lambda number: grp.struct_group([user[0], "x", number, members]))
    assert distrust(place) is None
    members.append("mallory")
    assert distrust(place) == f"{place} can be written by the group eve"
    members.clear()
    monkeypatch.setattr(trust, "_has_access_list", lambda _: True)
    assert distrust(place) == f"{place} can be written by the group eve"


@needs_root
def test_tree_has_no_entry_of_others(place: Path) -> None:
    (place / "b" / "link").symlink_to("/etc/passwd")
    assert distrust_tree(place) is None
    os.chown(place / "b" / "link", OTHER, OTHER, follow_symlinks=False)
    assert distrust_tree(place) == f"{place / 'b' / 'link'} belongs to the user {OTHER}"
    (place / "b" / "link").unlink()
    (place / "b" / "c").chmod(0o666)
    assert distrust_tree(place) == f"{place / 'b' / 'c'} can be written by all users"


def test_made_folders_are_private_whatever_the_umask(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        make_folder(tmp_path / "x" / "y")
        make_trusted_folder(tmp_path / "x" / "y" / "z")
    finally:
        os.umask(before)
    assert distrust(tmp_path / "x" / "y" / "z") is None
    (tmp_path / "x").chmod(0o777)
    with pytest.raises(PermissionError, match="can be written by all users"):
        make_trusted_folder(tmp_path / "x" / "w")


class TestCaches:
    @pytest.fixture(autouse=True)
    def _home(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
        (tmp_path / "home").mkdir()
        monkeypatch.setenv("HOME", str(tmp_path / "home"))
        yield
        caches.temporary_folder.cache_clear()

    def test_untrusted_cache_is_told_once_and_that_of_the_home_is_used(self, tmp_path: Path) -> None:
        (tmp_path / "open").mkdir()
        (tmp_path / "open").chmod(0o777)
        folder, told = usable_cache(tmp_path / "open" / "dotr")
        assert folder == tmp_path / "home" / ".cache" / "dotr"
        assert told is not None
        assert str(told).startswith(
            f"C262 warning: the cache {tmp_path}/open/dotr is not used, since others could have put files there: "
            f"{tmp_path}/open can be written by all users; {folder} is used in its place\n"
        )
        assert usable_cache(tmp_path / "open" / "dotr") == (folder, None)
        assert usable_cache(tmp_path / "dotr") == (tmp_path / "dotr", None)

    def test_a_new_private_folder_is_used_where_that_of_the_home_is_no_better(self, tmp_path: Path) -> None:
        (tmp_path / "home").chmod(0o777)
        folder, told = usable_cache(tmp_path / "home" / ".cache" / "dotr")
        assert told is not None
        assert folder.stat().st_mode & 0o777 == 0o700
        assert distrust(folder) is None
        assert usable_cache(tmp_path / "home" / "other")[0] == folder
        folder.rmdir()

    def test_the_new_folder_goes_with_its_process(self, tmp_path: Path) -> None:
        (tmp_path / "home").chmod(0o777)
        code = (
            "import os\nfrom pathlib import Path\nfrom dotr.evaluation.files.caches import usable_cache\n"
            f"folder, _ = usable_cache(Path({str(tmp_path / 'home' / 'dotr')!r}))\n(folder / 'x').touch()\nprint(folder, flush=True)\n"
            "if os.fork() == 0:\n    raise SystemExit\nos.wait()\nassert (folder / 'x').exists()\n"
        )
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        assert not Path(done.stdout.strip()).exists()
