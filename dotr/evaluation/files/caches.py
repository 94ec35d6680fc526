"""Cache folders: where they are, and which are used.

Idea: a cache holds code that is run (Spark's folder, archives of classes) and knowledge that is
believed (compiled backgrounds), so one that another user could have filled is not used. The cache
in the home folder is used in its place, or else a new private folder, which the process removes at
its end. The user is told once.
"""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from functools import cache
from hashlib import blake2b
from pathlib import Path
from typing import Final

from dotr.errors.diagnostics import Diagnostic, Severity
from dotr.evaluation.files.trust import distrust

_VARIABLE: Final = "XDG_CACHE_HOME"
_told: Final[set[Path]] = set()


def default_folder() -> Path | None:
    """The cache folder of this user (XDG_CACHE_HOME, or ~/.cache), or None.

    >>> os.environ["XDG_CACHE_HOME"] = "/var/cache"
    >>> default_folder()
    PosixPath('/var/cache/dotr')
    """
    named = os.environ.get(_VARIABLE, "")
    return Path(named) / "dotr" if os.path.isabs(named) else _in_home()


def _in_home() -> Path | None:
    home = os.path.expanduser("~")
    return Path(home) / ".cache" / "dotr" if os.path.isabs(home) else None


def scratch_folder(name: str) -> Path:
    """The folder of this user for what a run keeps on its machine beside something that is elsewhere,
    and may lose; it need not exist.

    Args:
        name: the name of what is elsewhere, such as the URL of a checkpoint.

    >>> tempfile.tempdir = "/tmp"
    >>> scratch_folder("s3://lake/fires").parent == Path(f"/tmp/dotr-{os.geteuid()}")
    True
    """
    return Path(tempfile.gettempdir()) / f"dotr-{os.geteuid()}" / blake2b(name.encode(), digest_size=12).hexdigest()


def usable_cache(folder: Path) -> tuple[Path, Diagnostic | None]:
    """A cache folder if no other user could have filled it, else the folder to use in its place.

    Args:
        folder: the cache folder, which need not exist.

    Returns:
        The folder to use, and the warning (C262) for the user: None if the folder is used, or if
        this process has told of it before.

    >>> usable_cache(Path("/no-such-folder"))
    (PosixPath('/no-such-folder'), None)
    """
    reason = distrust(folder)
    if reason is None:
        return folder, None
    instead = _private_folder()
    if folder in _told:
        return instead, None
    _told.add(folder)
    message = f"the cache {folder} is not used, since others could have put files there: {reason}; {instead} is used in its place"
    hint = (
        "Take the permission to write from others (chmod go-w), or name a folder of your own as XDG_CACHE_HOME or knowledge.cache. "
        "A folder of compiled backgrounds that several users share on purpose needs knowledge.shared: true."
    )
    return instead, Diagnostic("C262", message, None, hint, Severity.WARNING)


def distrusted_file(path: Path, reason: Exception) -> Diagnostic:
    """The warning (C262) for a file of a trusted cache that another user has written, or could
    have.

    Args:
        path: the file.
        reason: phrased to follow the file name.

    >>> print(distrusted_file(Path("/cache/1.dotrkb"), ValueError("is not used: /cache/1.dotrkb belongs to the user eve")))
    C262 warning: the cached file /cache/1.dotrkb is not used: /cache/1.dotrkb belongs to the user eve; it is made again
    Somebody else has written to this cache: look who can.
    """
    hint = "Somebody else has written to this cache: look who can."
    return Diagnostic("C262", f"the cached file {path} {reason}; it is made again", None, hint, Severity.WARNING)


def _private_folder() -> Path:
    home = _in_home()
    return home if home is not None and distrust(home) is None and _can_be_made(home) else temporary_folder(os.getpid())


def _can_be_made(folder: Path) -> bool:
    existing = next(each for each in (folder, *folder.parents) if os.path.exists(each))
    return os.access(existing, os.W_OK | os.X_OK)


@cache
def temporary_folder(process: int) -> Path:
    """A private folder, which the process with this number removes at its end."""
    folder = tempfile.mkdtemp(prefix="dotr-cache-")

    def remove() -> None:
        if os.getpid() == process:  # not in a child that was forked
            shutil.rmtree(folder, ignore_errors=True)

    atexit.register(remove)
    return Path(folder)
