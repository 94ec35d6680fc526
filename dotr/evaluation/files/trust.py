"""Paths that no other user of the machine can change.

Idea: a file is as trustworthy as the least trustworthy folder on the way to it. So each folder,
each link and the file itself must belong to this user or to root, and be writable by no other. In a
folder with the sticky bit, such as /tmp, others can add entries but replace none; so it may be on
the way, if the entry in it fulfils the condition.
Cost: a call of lstat(2) for each part of the path.
"""

from __future__ import annotations

import errno
import os
import stat
from contextlib import suppress
from pathlib import Path, PurePath
from typing import Final

_MAX_LINKS: Final = 40
_ACCESS_LIST: Final = "system.posix_acl_access"


def distrust(path: Path) -> str | None:
    """The reason why users other than this one and root could change what is at a path.

    Args:
        path: a file or folder; the parts that are missing, which this user would make, are trusted.

    Returns:
        The reason, with the folder, link or file that it concerns; None: there is none.

    >>> distrust(Path("/no-such-folder"))
    >>> distrust(Path("/dev/null"))
    '/dev/null can be written by all users'
    """
    at, links = Path("/"), 0
    parts = list(reversed((Path.cwd() / path).parts[1:]))
    try:
        if (reason := _reason(at, os.lstat(at), is_parent=True)) is not None:
            return reason
        while parts:
            name = parts.pop()
            if name == "..":
                at = at.parent
                continue
            entry = at / name
            status = os.lstat(entry)
            if (reason := _reason(entry, status, is_parent=bool(parts))) is not None:
                return reason
            if not stat.S_ISLNK(status.st_mode):
                at = entry
                continue
            links += 1
            if links > _MAX_LINKS:
                return f"{entry} is one of too many links"
            target = PurePath(os.readlink(entry))
            parts += reversed(target.parts[1:] if target.is_absolute() else target.parts)
            at = Path("/") if target.is_absolute() else at
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        return f"{error.filename} cannot be examined: {(error.strerror or str(error)).lower()}"
    return None


def distrust_tree(folder: Path) -> str | None:
    """The reason why other users could change a folder or an entry at any depth in it, or have made
    one; links in it are not followed.

    Args:
        folder: the folder, which may be missing.

    >>> distrust_tree(Path("/no-such-folder"))
    """
    if (reason := distrust(folder)) is not None:
        return reason
    for place, folders, files in os.walk(folder):
        for name in (*folders, *files):
            entry = Path(place, name)
            if (reason := _reason(entry, os.lstat(entry), is_parent=False)) is not None:
                return reason
    return None


def make_folder(folder: Path) -> None:
    """Make a folder that only this user writes to, with its missing parents, whatever the umask.

    Args:
        folder: the folder, which may exist.

    Raises:
        OSError: the folder cannot be made.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     make_folder(Path(folder, "of", "mine"))
    ...     oct(Path(folder, "of").stat().st_mode & 0o022)
    '0o0'
    """
    for each in (*reversed(folder.parents), folder):
        if not each.exists():
            each.mkdir(mode=0o755, exist_ok=True)


def make_trusted_folder(folder: Path) -> None:
    """Make a folder as `make_folder` does.

    Raises:
        OSError: the folder cannot be made, or another user could change what is in it.

    >>> make_trusted_folder(Path("/dev/null"))
    Traceback (most recent call last):
    PermissionError: [Errno 13] /dev/null can be written by all users
    """
    make_folder(folder)
    if (reason := distrust(folder)) is not None:
        raise PermissionError(errno.EACCES, reason)


def _reason(entry: Path, status: os.stat_result, *, is_parent: bool) -> str | None:
    if status.st_uid not in (os.geteuid(), 0):
        return f"{entry} belongs to {_user_name(status.st_uid)}"
    mode = status.st_mode
    if stat.S_ISLNK(mode) or (is_parent and mode & stat.S_ISVTX):
        return None
    if mode & stat.S_IWOTH:
        return f"{entry} can be written by all users"
    if mode & stat.S_IWGRP and not _is_alone_in_group(entry, status):
        return f"{entry} can be written by the group {_group_name(status.st_gid)}"
    return None


def _is_alone_in_group(entry: Path, status: os.stat_result) -> bool:
    """True if the group of an entry is the private group of this user: it has the user's name and no
    other member, as many systems set up, whose folders are writable by the group. An access control
    list shows as the permissions of the group, so there must be none."""
    import grp
    import pwd

    with suppress(KeyError, OSError):
        user, group = pwd.getpwuid(os.geteuid()), grp.getgrgid(status.st_gid)
        is_private = user.pw_uid != 0 and user.pw_gid == group.gr_gid and user.pw_name == group.gr_name
        return is_private and set(group.gr_mem) <= {user.pw_name} and not _has_access_list(entry)
    return False


def _has_access_list(entry: Path) -> bool:
    return not hasattr(os, "listxattr") or _ACCESS_LIST in os.listxattr(entry)


def _user_name(number: int) -> str:
    import pwd

    with suppress(KeyError):
        return f"the user {pwd.getpwuid(number).pw_name}"
    return f"the user {number}"


def _group_name(number: int) -> str:
    import grp

    with suppress(KeyError):
        return grp.getgrgid(number).gr_name
    return str(number)
