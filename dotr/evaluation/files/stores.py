"""Locations, and the stores that have their files: the disk, object stores, HDFS.

Idea: whatever a configuration names by path may be a URL, and no code but that of a store opens,
lists, or replaces what is there. A store needs six operations only: read a range, list, put whole,
put if absent, put if unchanged, delete below. All writers are made of them: a file appears whole or
not at all, whoever comes first wins, and nothing is renamed.
Invariant: all errors are `OSError`s, of which none has a secret; what may pass by itself has been
tried again for `storage.retry` before.
Cost: a path of the disk takes the system calls of `open` and `glob`; the other stores are imported
at the first URL.
"""

from __future__ import annotations

import errno
import fcntl
import glob
import io
import os
import re
import shutil
import stat
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from fnmatch import fnmatchcase
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple

from dotr.evaluation.files.interface import HDFS, OBJECTS, SCHEMES, Entry, StorageSettings, Store, StoredRange, store_error
from dotr.evaluation.files.private_files import TEMPORARY, replace_file, temporary_path, without_links
from dotr.model import dataclass

_URL: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://([^/]*)(.*)", re.DOTALL)
_ON_DISK: Final = re.compile(r"file:(?://(?:localhost)?)?(/.*)", re.DOTALL | re.IGNORECASE)
_MAGIC: Final = re.compile(r"[*?[]")
_LEAST_BLOCK: Final = 1 << 17
_GREATEST_BLOCK: Final = 1 << 23


class Stored(NamedTuple):
    """A file in a store: its location, its size in bytes, and a tag that differs once it was
    replaced."""

    location: Location
    size: int
    tag: str


@dataclass(frozen=True, slots=True, order=True)
class Location:
    """A path of this machine or a URL of a store, without a slash at its end.

    >>> lake = Location.of("s3a://lake/in/")
    >>> str(lake / "a.ndjson"), (lake / "a.ndjson").suffix, str(lake.parent), lake.is_url
    ('s3a://lake/in/a.ndjson', '.ndjson', 's3a://lake', True)
    >>> str(Location.of("../rules/fire.dotr", lake)), str(Location.of("file:///srv/in/")), str(Location.of("in", Location("/srv")))
    ('s3a://lake/rules/fire.dotr', '/srv/in', '/srv/in')
    """

    text: str

    @staticmethod
    def of(text: str, folder: Location | None = None) -> Location:
        """The location that a text names.

        Args:
            text: a path, or a URL; `file://` is a path. Escapes such as %20 stand for themselves.
            folder: the folder of a relative path; None: the working directory.
        """
        if (on_disk := _ON_DISK.fullmatch(text)) is not None:
            return Location(os.path.normpath(on_disk[1]))
        if (url := _URL.fullmatch(text)) is not None:
            return Location(_joined(f"{url[1].lower()}://{url[2]}", url[3]))
        if folder is None:
            return Location(str(Path(text)))
        if folder.is_url and not text.startswith("/"):
            return Location(_joined(folder._root, f"{folder.key}/{text}"))
        return Location(os.path.normpath(text if folder.is_url else Path(folder.text) / text))

    @property
    def is_url(self) -> bool:
        """True if the location is a URL, and no path of this machine."""
        return "://" in self.text and _URL.match(self.text) is not None

    @property
    def scheme(self) -> str:
        """The scheme of a URL; empty for a path."""
        return self.text.partition("://")[0] if self.is_url else ""

    @property
    def authority(self) -> str:
        """The bucket or host of a URL; empty for a path."""
        return self._root.partition("://")[2]

    @property
    def key(self) -> str:
        """The part of a URL behind bucket or host, without a slash at its beginning; a path as it is."""
        return self.text[len(self._root) :].lstrip("/") if self.is_url else self.text

    @property
    def _root(self) -> str:
        return "/".join(self.text.split("/", 3)[:3]) if self.is_url else ""

    @property
    def path(self) -> Path:
        """The path of a file of this machine; raises ValueError for a URL."""
        if self.is_url:
            raise ValueError(f"{self} is no path of this machine")
        return Path(self.text)

    @property
    def name(self) -> str:
        """The last part; empty for the root of a store."""
        return self.key.rpartition("/")[2]

    @property
    def suffix(self) -> str:
        """The ending of the name, with its dot."""
        return os.path.splitext(self.name)[1]

    @property
    def parent(self) -> Location:
        """The folder of the location; that of a root is itself."""
        if not self.is_url:
            return Location(str(Path(self.text).parent))
        return Location(self.text.rpartition("/")[0] if self.name else self.text)

    def __truediv__(self, name: str) -> Location:
        return Location(f"{self.text}/{name}" if self.is_url else str(Path(self.text) / name))

    def __str__(self) -> str:
        return self.text

    def check(self) -> None:
        """Raise an OSError where the store of a URL is unknown, missing, refuses or does not answer;
        the file itself may be missing."""
        _store_of(self).check()

    def read(self, start: int = 0, stop: int | None = None) -> bytes:
        """The bytes [start, stop) of the file, fewer where it ends before; raises OSError.

        >>> Location("/dev/null").read()
        b''
        """
        return _store_of(self).part(self.key, start, stop, "").data

    def part(self, start: int, stop: int, tag: str = "") -> StoredRange:
        """The bytes [start, stop) of the file, with the size and the tag of the whole.

        Raises OSError: ESTALE if the file has another tag than `tag`, unless that is empty.
        """
        return _store_of(self).part(self.key, start, stop, tag)

    def open(self, start: int = 0) -> BinaryIO:
        """A buffered reader of the file from byte `start` on, which can seek; raises OSError.

        The file of a URL is read in blocks, which grow to 8 MB; an error (ESTALE) follows where it
        was replaced meanwhile.
        """
        if self.is_url:
            return io.BufferedReader(_BlockReader(_store_of(self), self.key, start), _LEAST_BLOCK)
        file = open(self.text, "rb")  # noqa: SIM115
        if start:
            file.seek(start)
        return file

    def look(self) -> Stored | None:
        """The file with its size and tag; None where there is none, or a folder. Raises OSError."""
        found = _store_of(self).look(self.key)
        return None if found is None else Stored(self, found.size, found.tag)

    def list(self, recursive: bool = False) -> Iterator[Stored]:
        """The files in this folder by name, in all its folders too if `recursive`; none where there
        is no folder. Unfinished files are left out. Raises OSError."""
        root = f"{self._root}/" if self.is_url else ""
        return (Stored(Location(root + key), size, tag) for key, size, tag in _store_of(self).list(self.key, recursive))

    def glob(self, pattern: str) -> Iterator[Stored]:
        """The files below this folder that match a pattern, by name; `**` is any number of folders.

        Raises OSError.

        >>> [str(found.location) for found in Location("/dev").glob("nul?")]
        []
        """
        *folders, last = pattern.split("/")
        literal = next((i for i, name in enumerate(folders) if _MAGIC.search(name)), len(folders))
        if not self.is_url:
            found = sorted(glob.glob(os.path.join(glob.escape(self.text), pattern), recursive=True))
            yield from filter(None, (Location(name).look() for name in found))
        elif _MAGIC.search(pattern) is None:
            yield from filter(None, [(self / pattern).look()])
        else:
            folder = Location("/".join((self.text, *folders[:literal])))
            wanted = (*folders[literal:], last)
            for each in folder.list(len(wanted) > 1 or last == "**"):
                if _matches(tuple(each.location.text[len(folder.text) + 1 :].split("/")), wanted):
                    yield each

    def matching(self) -> Iterator[Stored]:
        """The files that match the location as a pattern, by name; raises OSError."""
        if self.is_url:
            return Location(self._root).glob(self.key)
        return iter([found for name in sorted(glob.glob(self.text, recursive=True)) if (found := Location(name).look()) is not None])

    def put(self, data: bytes | Iterable[bytes]) -> str:
        """Write the file whole, in place of the one that is there; readers see one or the other.

        Folders that are missing are made. Returns the tag of the new file. Raises OSError; the file
        that was there is then unchanged, unless the answer of the store was lost.

        >>> from tempfile import TemporaryDirectory
        >>> with TemporaryDirectory() as folder:
        ...     note = Location(folder) / "of" / "mine"
        ...     tag = note.put(b"one")
        ...     note.put_new(b"two"), note.put_unchanged(b"three", tag) is None, note.put_unchanged(b"four", tag), note.read()
        (None, False, None, b'three')
        """
        return _store_of(self).put(self.key, (data,) if isinstance(data, bytes) else data)

    def put_new(self, data: bytes | Iterable[bytes]) -> str | None:
        """Write the file whole if there is none, of several writers by one alone.

        Returns its tag; None where there is a file already. After a lost answer the file that is
        there counts as this writer's if it has the same content: so a lock names its writer.
        Raises OSError.
        """
        return _store_of(self).put_new(self.key, data if isinstance(data, bytes) else b"".join(data))

    def put_unchanged(self, data: bytes | Iterable[bytes], tag: str) -> str | None:
        """Write the file whole in place of the one with a tag, of several writers by one alone.

        Returns its new tag; None where the file was replaced or removed meanwhile. Raises OSError.
        """
        return _store_of(self).put_unchanged(self.key, data if isinstance(data, bytes) else b"".join(data), tag)

    def remove(self) -> None:
        """Remove the file, which may be missing; raises OSError."""
        _store_of(self).remove(self.key)

    def remove_below(self) -> None:
        """Remove the folder with all that is in it, which may be missing; raises OSError."""
        _store_of(self).remove_below(self.key)


def absolute(path: str) -> str:
    """A path from the root of the file system; a URL as it is.

    >>> absolute("s3://lake/kb.ttl"), absolute("/kb/../a.ttl")
    ('s3://lake/kb.ttl', '/a.ttl')
    """
    return path if Location(path).is_url else os.path.abspath(path)


def _joined(root: str, path: str) -> str:
    """The URL of a path below a root, without empty parts, `.` and `..`.

    >>> _joined("s3a://lake", "/a//b/./../c/"), _joined("s3a://lake", ""), _joined("hdfs://", "/a")
    ('s3a://lake/a/c', 's3a://lake', 'hdfs:///a')
    """
    parts: list[str] = []
    for part in path.split("/"):
        if part == "..":
            parts = parts[:-1]
        elif part not in ("", "."):
            parts.append(part)
    return "/".join((root, *parts))


def _matches(names: tuple[str, ...], patterns: tuple[str, ...]) -> bool:
    """True if the parts of a path match those of a pattern; hidden names match none but hidden ones.

    >>> _matches(("a", "b", "c.ttl"), ("**", "*.ttl")), _matches(("a", ".c.ttl"), ("a", "*.ttl")), _matches(("c.ttl",), ("**", "*.ttl"))
    (True, False, True)
    """
    if not patterns:
        return not names
    pattern, *_ = patterns
    is_visible = bool(names) and (not names[0].startswith(".") or pattern.startswith("."))
    if pattern == "**":
        return _matches(names, patterns[1:]) or (is_visible and _matches(names[1:], patterns))
    return is_visible and fnmatchcase(names[0], pattern) and _matches(names[1:], patterns[1:])


class _BlockReader(io.RawIOBase):
    """Reader of a file in a store: each block is twice as long as the one before."""

    def __init__(self, store: Store, key: str, start: int) -> None:
        self._store, self._key, self._at, self._block = store, key, start, _LEAST_BLOCK
        self._begin, (self._data, self._size, self._tag) = start, store.part(key, start, start + self._block, "")

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        self._at = offset + {os.SEEK_SET: 0, os.SEEK_CUR: self._at, os.SEEK_END: self._size}[whence]
        return self._at

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        if self._at >= self._size:
            return 0
        if not self._begin <= self._at < self._begin + len(self._data):
            self._block = min(2 * self._block, _GREATEST_BLOCK)
            self._begin = self._at
            self._data = self._store.part(self._key, self._at, min(self._at + self._block, self._size), self._tag).data
        offset = self._at - self._begin
        length = min(len(buffer), len(self._data) - offset)
        buffer[:length] = self._data[offset : offset + length]
        self._at += length
        return length


_settings: StorageSettings = {}
_stores: Final[dict[tuple[str, str, int], Store]] = {}


def configure_storage(settings: StorageSettings) -> None:
    """Use the settings of `storage` in this process, for all locations.

    Args:
        settings: the settings of each store; secrets are `${NAME}`, and are read where needed.

    >>> configure_storage({})
    """
    global _settings
    if settings != _settings:
        _settings = settings
        _stores.clear()


def _store_of(location: Location) -> Store:
    is_url = location.is_url
    key = (location.scheme, location.authority, os.getpid()) if is_url else ("", "", 0)
    found = _stores.get(key)  # by process, since a store's threads do not outlive a fork
    if found is None:
        found = _stores[key] = _opened(location) if is_url else PosixStore()
    return found


def _opened(location: Location) -> Store:
    scheme = location.scheme
    if scheme == HDFS:
        from dotr.evaluation.files.webhdfs import WebHdfs

        return WebHdfs(location.authority, _settings)
    if scheme in OBJECTS:
        from dotr.evaluation.files.object_store import ObjectStore

        return ObjectStore(scheme, location.authority, _settings)
    raise store_error(errno.EPROTONOSUPPORT, f"no store has the scheme {scheme}; there are {', '.join(SCHEMES)}", location.text)


# Store of the paths of this machine.
#
# Invariant: a file is written under a temporary name and takes its own in one system call, so that a
# crash leaves it whole or absent. POSIX has no put if unchanged: all writers of a folder that ask for
# it lock the folder (flock(2)), which leaves no file.


_UNFINISHED: Final = re.compile(rf"\..+{TEMPORARY}", re.DOTALL)


class PosixStore:
    """Files of this machine, by their paths."""

    def check(self) -> None:
        """Nothing: a disk is there."""

    def part(self, key: str, start: int, stop: int | None, tag: str) -> StoredRange:
        with open(key, "rb") as file:
            file.seek(start)
            data = file.read(-1 if stop is None else max(stop - start, 0))
            status = os.fstat(file.fileno())
        return StoredRange(data, status.st_size, _tag(status))

    def look(self, key: str) -> Entry | None:
        with suppress(FileNotFoundError, NotADirectoryError):
            status = os.stat(key)
            return Entry(key, status.st_size, _tag(status)) if stat.S_ISREG(status.st_mode) else None
        return None

    def list(self, key: str, recursive: bool) -> Iterator[Entry]:
        found = []
        with suppress(FileNotFoundError, NotADirectoryError):
            folders = [key]
            while folders:
                with os.scandir(folders.pop()) as entries:
                    for entry in entries:
                        if recursive and entry.is_dir(follow_symlinks=False):
                            folders.append(entry.path)
                        elif not _UNFINISHED.fullmatch(entry.name):
                            found.append(entry.path)
        return filter(None, (self.look(path) for path in sorted(found)))

    def put(self, key: str, data: Iterable[bytes]) -> str:
        target = _in_folder(key)
        replace_file(target, data, sync=True)
        return _tag(os.stat(target))

    def put_new(self, key: str, data: bytes) -> str | None:
        target = _in_folder(key)
        temporary = temporary_path(target)
        replace_file(temporary, [data], sync=True)
        try:
            os.link(temporary, target)  # fails where the name exists, unlike rename(2)
            return _tag(os.stat(temporary))
        except FileExistsError:
            return None
        finally:
            temporary.unlink()

    def put_unchanged(self, key: str, data: bytes, tag: str) -> str | None:
        folder = os.open(Path(key).parent, os.O_RDONLY | os.O_DIRECTORY)
        try:
            with suppress(OSError):  # a file system without locks of folders
                fcntl.flock(folder, fcntl.LOCK_EX)
            found = self.look(key)
            return None if found is None or found.tag != tag else self.put(key, [data])
        finally:
            os.close(folder)

    def remove(self, key: str) -> None:
        Path(key).unlink(missing_ok=True)

    def remove_below(self, key: str) -> None:
        try:
            shutil.rmtree(key)
        except FileNotFoundError:
            if os.path.lexists(key):  # another process removed something in it meanwhile
                self.remove_below(key)
        except OSError as error:
            if error.errno != errno.ENOTDIR:
                raise


def _in_folder(key: str) -> Path:
    """The path of a file, whose folder is made where it is missing."""
    Path(key).parent.mkdir(parents=True, exist_ok=True)
    return Path(key)


def _tag(status: os.stat_result) -> str:
    return f"{status.st_ino}-{status.st_mtime_ns}-{status.st_size}"


# Lines that are appended to a file, each of which outlives a crash once it is added.
#
# Idea: a file of a disk is appended to. Objects of a store cannot be, so at a URL there are parts, of
# which the last is put whole again with each addition, until it has `PART` lines.


PART: Final = 1_000
"""Lines of a part."""


class AppendedLines:
    """The lines of a file, or of the parts in a folder of its name at a URL; one process writes.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     AppendedLines(Location.of(folder) / "notes").append(["one", "two"])
    ...     AppendedLines(Location.of(folder) / "notes").read()
    ['one', 'two']
    """

    def __init__(self, place: Location) -> None:
        self.place = place
        self._is_cut_off = False
        self._number, self._part = 0, b""

    def read(self) -> list[str]:
        """All lines; the last one may be cut off, where there was a crash. Raises OSError."""
        text = b""
        if self.place.is_url:
            for each in self.place.list():
                self._number, self._part = int(each.location.name), each.location.read()
                text += self._part
        elif self.place.path.exists():
            text = self.place.read()
        self._is_cut_off = bool(text) and not text.endswith(b"\n")
        return text.decode(errors="replace").splitlines()

    def append(self, lines: Sequence[str]) -> None:
        """Add lines, and write them to the disk or the store. Raises OSError."""
        data = b"".join(f"{line}\n".encode() for line in lines)
        if self.place.is_url:
            if self._part.count(b"\n") >= PART:
                self._number, self._part = self._number + 1, b""
            (self.place / f"{self._number:012d}").put(self._part + data)
            self._part += data
            return
        with open(self.place.path, "ab", opener=without_links) as file:
            file.write(b"\n" * self._is_cut_off + data)
            file.flush()
            os.fsync(file.fileno())
        self._is_cut_off = False

    def shorten(self, lines: Sequence[str]) -> None:
        """Keep these of the lines alone. At a URL nothing is done: the parts of before stay."""
        if not self.place.is_url:
            replace_file(self.place.path, [f"{line}\n".encode() for line in lines], sync=True)
            self._is_cut_off = False
