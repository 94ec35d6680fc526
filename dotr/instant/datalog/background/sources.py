"""Sources of background knowledge, and the key of the compiled store made from them."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import field
from functools import cache
from hashlib import blake2b
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Any, Final, TypeAlias

from dotr.evaluation.files.stores import Location, Stored, absolute
from dotr.instant.datalog.entailment import Entailment
from dotr.model import dataclass
from dotr.model.places import Document
from dotr.model.terms import Triple

ABSOLUTE: Final = (".nt", ".nq", ".nt.gz", ".nq.gz")
"""Extensions of files without relative IRIs: their content does not depend on their path."""
CODE: Final = ("errors", "evaluation", "instant", "model", "syntax")
"""Packages of `dotr` whose code decides the content of a compiled background, and the answers of
queries over it. All their imports are in one of them (tests/engine/test_sources.py); otherwise a
store of older code would pass as up to date.
"""
_BLOCK: Final = 1 << 20


ReadRows: TypeAlias = Callable[[str, str], Iterator[tuple[int, tuple[Triple, ...]]]]
"""Function from the path of a table and its settings to the line and the triples of each row. The
blank nodes of a row are `_:0`, `_:1`, …; raises `Refused` with all unreadable rows.
"""


@dataclass(frozen=True, slots=True)
class Reading:
    """Declarations by which graphs are read.

    - `formats`: the formats of files by path; a file without one has that of its extension.
    - `contexts`: the JSON-LD documents used for remote contexts, by IRI.
    - `tables`: the graphs that are tables, by number from 0 on, with their settings.
    - `imports`: the files that stand for the ontologies that graphs import, by IRI.
    - `rows`: the reader of tables. It knows formats, so the caller of the compiler gives it.
    """

    formats: tuple[tuple[str, str], ...] = ()
    contexts: tuple[tuple[str, str], ...] = ()
    tables: tuple[tuple[int, str], ...] = ()
    imports: tuple[tuple[str, str], ...] = ()
    rows: ReadRows | None = field(default=None, compare=False, repr=False)

    def to_list(self) -> list[Any]:
        """The declarations as a list for JSON and for digests; empty without any."""
        further = [self.tables, self.imports] if self.tables or self.imports else []
        return [self.formats, self.contexts, *further] if self != READING else []

    @staticmethod
    def from_list(items: Sequence[Any]) -> Reading:
        """Inverse of `to_list`, without the reader of tables.

        >>> reading = Reading((("/kb/a.txt", "turtle"),), tables=((1, "{}"),))
        >>> Reading.from_list(reading.to_list()) == reading, Reading().to_list()
        (True, [])
        """
        given: list[Any] = [tuple((key, value) for key, value in pairs) for pairs in items]
        return Reading(*given)

    def files(self, graphs: Sequence[str]) -> tuple[str, ...]:
        """The paths of all files that may be read for some graphs: these, then those of imports."""
        return (*graphs, *(path for _, path in self.imports))


READING: Final = Reading()
"""Graphs without declarations."""


@dataclass(frozen=True, slots=True)
class Sources:
    """Paths of graphs, Datalog documents, and the settings of the closure."""

    graphs: tuple[str, ...] = ()
    datalog: tuple[Document, ...] = ()
    entailment: Entailment = Entailment.NONE
    axiomatic: bool = False
    prefixes: Mapping[str, str] = field(default_factory=dict)
    reading: Reading = READING

    @property
    def files(self) -> tuple[str, ...]:
        """The paths of graphs, and of the files that stand for imports."""
        return self.reading.files(self.graphs)

    def size(self) -> int:
        """Total size: bytes of graphs, characters of Datalog; a missing file counts as 0."""
        total = sum(len(document.text) for document in self.datalog)
        for path in self.files:
            if Location(path).is_url:
                with suppress(OSError):  # reported by the reader
                    total += _stored(path).size
            elif os.path.isfile(path):
                total += os.path.getsize(path)
        return total

    def key(self) -> bytes:
        """16-byte digest of everything on which the closed background depends.

        Included are all bytes of the sources (the tag of one at a URL), the declarations by which
        they are read, the entailment settings, the prefixes, the names of Datalog files (part of
        rule names), the code of `CODE` and the versions of libraries. For a syntax with relative
        IRIs, the path of its file is included. Raises OSError for an unreadable graph.
        >>> Sources().key() == Sources().key() != Sources(entailment=Entailment.RDFS).key()
        True
        """
        digest = blake2b(digest_size=16)
        settings = [self.entailment.value, self.axiomatic, sorted(self.prefixes.items()), *self.reading.to_list()]
        texts = [[os.path.basename(document.name), document.text] for document in self.datalog]
        paths = [os.path.basename(path) if path.lower().endswith(ABSOLUTE) else absolute(path) for path in self.files]
        digest.update(json.dumps([_code_digest().hex(), settings, texts, paths]).encode())
        for path in self.files:
            content = blake2b(digest_size=16)
            if Location(path).is_url:
                digest.update(_stored(path).tag.encode())
                continue
            with open(path, "rb") as file:
                while block := file.read(_BLOCK):
                    content.update(block)
            digest.update(content.digest())
        return digest.digest()

    def stamps(self) -> list[tuple[int | str, ...]]:
        """Inode, size and modification time (ns) of each graph, or its tag; detects writes during
        reading."""
        stamps: list[tuple[int | str, ...]] = []
        for path in self.files:
            if Location(path).is_url:
                stamps.append((_stored(path).tag,))
                continue
            status = os.stat(path)
            stamps.append((status.st_ino, status.st_size, status.st_mtime_ns))
        return stamps


def _stored(path: str) -> Stored:
    """The object at a URL; raises OSError."""
    if (found := Location(path).look()) is None:
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
    return found


@cache
def _code_digest() -> bytes:
    """Digest of the code of `CODE` and of the versions of its libraries."""
    from importlib.metadata import PackageNotFoundError, version  # small backgrounds are not kept

    digest = blake2b(digest_size=16)
    for package in ("dotr", "pyoxigraph", "google-re2"):
        try:
            digest.update(f"{package} {version(package)}\n".encode())
        except PackageNotFoundError:  # run from a folder, or from a zip
            digest.update(f"{package}\n".encode())
    for name in CODE:
        _update(digest, files("dotr").joinpath(name))
    return digest.digest()


def _update(digest: blake2b, entry: Traversable) -> None:
    if entry.is_dir():
        for each in sorted(entry.iterdir(), key=lambda each: each.name):
            _update(digest, each)
    elif entry.name.endswith((".py", ".dlog")):
        digest.update(entry.name.encode() + b"\0" + entry.read_bytes() + b"\0")
