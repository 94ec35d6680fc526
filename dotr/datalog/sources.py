"""What background knowledge is made from, and the key that changes with all of it."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from hashlib import blake2b
from importlib.metadata import PackageNotFoundError, version
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Final

from dotr.datalog.entailment import Entailment
from dotr.model.places import Document

_ABSOLUTE: Final = (".nt", ".nq", ".nt.gz", ".nq.gz")
"""Syntaxes without relative IRIs: what they say does not depend on where they stand."""
CODE: Final = ("codegen", "datalog", "errors", "expressions", "joins", "languages", "model", "queries", "store")
"""The folders and modules of `dotr` whose code decides what a compiled background holds, and the answers of queries over it. Whatever they
import stands in one of them (tests/engine/test_sources.py): else what was made by other code would be taken for up to date."""
_BLOCK: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class Sources:
    """The paths of graphs, the texts of Datalog, and how they are closed."""

    graphs: tuple[str, ...] = ()
    datalog: tuple[Document, ...] = ()
    entailment: Entailment = Entailment.NONE
    axiomatic: bool = False
    prefixes: Mapping[str, str] = field(default_factory=dict)

    def size(self) -> int:
        """How many bytes there are to read; a file that is not there counts nothing."""
        found = sum(len(document.text) for document in self.datalog)
        for path in self.graphs:
            if os.path.isfile(path):
                found += os.path.getsize(path)
        return found

    def key(self) -> bytes:
        """16 bytes that change with every byte of the sources and with what decides what follows from them: entailment, prefixes, the
        names of Datalog files (rules are called by them), the code that closes and the versions of what it stands on. Where a syntax has
        relative IRIs, the place of its file counts too. Raises OSError where a graph cannot be read.

        >>> Sources().key() == Sources().key() != Sources(entailment=Entailment.RDFS).key()
        True
        """
        digest = blake2b(digest_size=16)
        settings = [self.entailment.value, self.axiomatic, sorted(self.prefixes.items())]
        texts = [[os.path.basename(document.name), document.text] for document in self.datalog]
        places = [os.path.basename(path) if path.lower().endswith(_ABSOLUTE) else os.path.abspath(path) for path in self.graphs]
        digest.update(json.dumps([_code_digest().hex(), settings, texts, places]).encode())
        for path in self.graphs:
            content = blake2b(digest_size=16)
            with open(path, "rb") as file:
                while block := file.read(_BLOCK):
                    content.update(block)
            digest.update(content.digest())
        return digest.digest()

    def stamps(self) -> list[tuple[int, int, int]]:
        """What changes when a graph is written while it is being read."""
        found = []
        for path in self.graphs:
            status = os.stat(path)
            found.append((status.st_ino, status.st_size, status.st_mtime_ns))
        return found


@cache
def _code_digest() -> bytes:
    """A digest of the code that decides what is derived, and of the versions of its libraries."""
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
