"""Interface of a store: what each one of them can do with its files, which have keys.

A key is the path behind bucket or host, without a slash at its beginning; of the disk the path.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple, Protocol, TypeAlias

OBJECTS: Final = {"s3": "s3", "s3a": "s3", "gs": "gs", "abfss": "abfss", "abfs": "abfss"}
"""The section of `storage` for each scheme of an object store."""
HDFS: Final = "hdfs"
SCHEMES: Final = (*OBJECTS, HDFS, "file")
RETRY_SECONDS: Final = 30
"""Time for which a request is repeated while a store fails or is silent, in seconds."""

StorageSettings: TypeAlias = Mapping[str, Mapping[str, str]]
"""Settings of each store by its section of `storage`; secrets are `${NAME}`."""


class Entry(NamedTuple):
    """A file of a store: its key, its size in bytes, and a tag that differs once it was replaced."""

    key: str
    size: int
    tag: str


class StoredRange(NamedTuple):
    """A range of a file, with the size and the tag of the whole."""

    data: bytes
    size: int
    tag: str


class Store(Protocol):
    """Files of one bucket, file system or disk; the errors are `OSError`s."""

    def check(self) -> None:
        """Raise an error where the bucket is missing, or refuses, or does not answer."""

    def part(self, key: str, start: int, stop: int | None, tag: str) -> StoredRange:
        """The bytes [start, stop) of a file, as far as there are any; `stop` None: up to the end.
        `tag`: an error (ESTALE) if the file has another one; empty: whichever it has."""

    def look(self, key: str) -> Entry | None:
        """The file of a key; None where there is none."""

    def list(self, key: str, recursive: bool) -> Iterator[Entry]:
        """The files in a folder by name, in all its folders too if `recursive`."""

    def put(self, key: str, data: Iterable[bytes]) -> str:
        """Write a file whole, in place of the one that is there."""

    def put_new(self, key: str, data: bytes) -> str | None:
        """Write a file whole if there is none."""

    def put_unchanged(self, key: str, data: bytes, tag: str) -> str | None:
        """Write a file whole in place of the one with a tag."""

    def remove(self, key: str) -> None:
        """Remove a file, which may be missing."""

    def remove_below(self, key: str) -> None:
        """Remove a folder with all that is in it, which may be missing."""


def store_error(code: int, reason: str, file: str) -> OSError:
    """An error of a store: the subclass of OSError for its number, and a reason without secrets.

    >>> store_error(2, "there is no bucket lake", "s3a://lake/a")
    FileNotFoundError(2, 'there is no bucket lake')
    """
    return OSError(code, reason, file)
