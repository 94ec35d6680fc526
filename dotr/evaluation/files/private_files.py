"""Files that no other user of the machine can redirect: temporary files, and files with a fixed
name.

Idea: whoever may write to a folder can put a link in the place of a name that is known in advance,
and a program that opens the name writes to the file behind the link. So a temporary file has 64
random bits in its name and is created by the call that opens it (O_EXCL), and a file whose name
must be known is opened without following a link (O_NOFOLLOW).
Invariant: no file that existed before is truncated, and none is written through a link.
"""

from __future__ import annotations

import errno
import os
import re
import secrets
import stat
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO, Final

from dotr.errors.diagnostics import DotrError

TEMPORARY: Final = r"\.[0-9a-f]{16}\.tmp"
"""The end of the name of a temporary file, as a regular expression; a dot and the name of the complete file precede it."""


class ForeignFile(DotrError):
    """Reason why a file with a fixed name is not ours, phrased to follow the file name."""


def temporary_path(target: Path) -> Path:
    """A new path for a file until it is complete: hidden, beside its target, with a random name.

    >>> re.fullmatch(f"out/.fire.parquet{TEMPORARY}", str(temporary_path(Path("out/fire.parquet")))) is not None
    True
    """
    return target.with_name(f".{target.name}.{secrets.token_hex(8)}.tmp")


def create_file(path: Path, mode: int = 0o666) -> BinaryIO:
    """Create a file and open it for writing.

    Args:
        path: the name, which no file and no link may have yet.
        mode: the permissions, from which the process's umask is removed.

    Raises:
        OSError: the file cannot be created, or the name exists (FileExistsError).

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder, create_file(Path(folder, "new")) as file:
    ...     create_file(Path(folder, "new"))
    Traceback (most recent call last):
    FileExistsError: [Errno 17] File exists: ...
    """
    return open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode), "wb")


def replace_file(target: Path, data: Iterable[bytes], mode: int = 0o666, *, sync: bool = False) -> None:
    """Write a file under a temporary name, and rename it to its target, which is replaced
    atomically.

    Args:
        target: the path of the complete file; a link there is replaced, and not followed.
        data: the content, in pieces.
        mode: the permissions, from which the process's umask is removed.
        sync: the content is written to the disk (fsync) before the file is renamed.

    Raises:
        OSError: the file cannot be written; the target is unchanged.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     replace_file(Path(folder, "note"), [b"one ", b"two"])
    ...     Path(folder, "note").read_text(), os.listdir(folder)
    ('one two', ['note'])
    """
    temporary = temporary_path(target)
    file = create_file(temporary, mode)
    try:
        with file:
            file.writelines(data)
            file.flush()
            if sync:
                os.fsync(file.fileno())
        os.replace(temporary, target)
    except BaseException:
        with suppress(OSError):
            temporary.unlink()
        raise


def remove_leftovers(folder: Path, name: str = "") -> None:
    """Remove the temporary files that a killed process has left in a folder; errors are ignored.

    Args:
        folder: a folder in which no other process writes files of these names; it may be missing.
        name: the name of the complete file; empty: any.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     create_file(temporary_path(Path(folder, "note"))).close()
    ...     remove_leftovers(Path(folder))
    ...     os.listdir(folder)
    []
    """
    pattern = re.compile(rf"\.{re.escape(name) if name else '.+'}{TEMPORARY}", re.DOTALL)
    with suppress(OSError):
        for found in filter(pattern.fullmatch, os.listdir(folder)):
            with suppress(OSError):
                os.unlink(folder / found)


def without_links(path: str, flags: int) -> int:
    """An `opener` of `open` that refuses a symbolic link in the place of the file.

    Args:
        path: the file, which is created if the flags say so.
        flags: those of os.open(2).

    Raises:
        OSError: there is a link (ELOOP), or the file cannot be opened.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder, open(Path(folder, "log"), "a", opener=without_links) as file:
    ...     file.write("a line")
    6
    """
    return os.open(path, flags | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666)


def open_fixed(path: Path) -> tuple[int, bool]:
    """Open a file whose name others know, or create it, without changing its content.

    Args:
        path: the file.

    Returns:
        A descriptor for reading and writing, and True if the file is new.

    Raises:
        ForeignFile: there is a link, a file with further names, or no regular file.
        OSError: the file cannot be opened.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     os.symlink("/etc/passwd", Path(folder, ".out.lock"))
    ...     open_fixed(Path(folder, ".out.lock"))
    Traceback (most recent call last):
    dotr.evaluation.files.private_files.ForeignFile: is a symbolic link
    """
    flags = os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY
    while True:
        with suppress(FileExistsError):
            return os.open(path, flags | os.O_CREAT | os.O_EXCL, 0o666), True
        try:
            kind = os.lstat(path).st_mode
            if stat.S_ISREG(kind):
                number = os.open(path, flags)
                break
        except OSError as error:
            if error.errno in (errno.ENOENT, errno.ELOOP):  # removed or replaced meanwhile
                continue
            raise
        raise ForeignFile("is a symbolic link" if stat.S_ISLNK(kind) else "is no regular file")
    status = os.fstat(number)
    if not stat.S_ISREG(status.st_mode) or status.st_nlink > 1:
        os.close(number)
        raise ForeignFile("has another name too (a hard link)" if stat.S_ISREG(status.st_mode) else "is no regular file")
    return number, False
