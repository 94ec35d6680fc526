"""Programs that travel to other processes, which need not have the files of the program.

Idea: the texts of a program are in its specification, and its background travels as the compiled
store, which a process maps. The store is written once a machine, into the cache of compiled
backgrounds, under the digest of what it holds.
Cost: a copy of the compressed store for each operator; a start maps it in 2 ms.
"""

from __future__ import annotations

import json
import os
import zlib
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache
from hashlib import blake2b
from pathlib import Path
from tempfile import TemporaryDirectory

from dotr.engine.program import CompiledProgram
from dotr.evaluation.files.caches import default_folder, temporary_folder, usable_cache
from dotr.evaluation.files.private_files import replace_file
from dotr.evaluation.files.trust import make_folder
from dotr.instant.datalog.background.compiled_cache import StoreFile
from dotr.model import dataclass
from dotr.runtimes.spark.exchange.job import Job

_SUFFIX = ".dotrkb"


@dataclass(frozen=True, slots=True)
class ShippedStore:
    """A compiled background: its key, and the bytes of its file, compressed."""

    key: bytes
    data: bytes

    @staticmethod
    def of(program: CompiledProgram) -> ShippedStore:
        """The background of a program.

        >>> from dotr import Program
        >>> store = ShippedStore.of(Program.from_config("configs/fire.yaml"))
        >>> len(store.key), store.file().path.suffix
        (16, '.dotrkb')
        """
        if program.store is not None:
            mapped = program.store.file
            return ShippedStore(mapped.key, zlib.compress(mapped.bytes, 1))
        # Programs with a small background have no store.
        from dotr.instant.datalog.background.compiled_store import write_store

        closed = program.closed
        assert closed is not None, "a background is in a file or in memory"
        digest = blake2b(json.dumps([program.spec.to_json(), closed.loaded]).encode(), digest_size=16)
        for triple in sorted(closed.triples):
            digest.update(" ".join(triple).encode("utf-8", "surrogatepass") + b"\n")
        with TemporaryDirectory() as folder:
            path = Path(folder, "background")
            write_store(path, digest.digest(), closed, 0.0)
            return ShippedStore(digest.digest(), zlib.compress(path.read_bytes(), 1))

    def file(self) -> StoreFile:
        """The store on this machine, which is written where it is not there yet."""
        return StoreFile(_written(self.key, self.data), self.key)


def _written(key: bytes, data: bytes) -> Path:
    """The path of a store, in the user's cache, or in a folder of the process where there is none."""
    from dotr.evaluation.triples.file import UnusableFile, checked_path
    from dotr.instant.datalog.background.compiled_store import CompiledStore

    named = default_folder()
    folder = temporary_folder(os.getpid()) if named is None else usable_cache(named)[0]
    for each in (folder, temporary_folder(os.getpid())):
        path = each / (key.hex() + _SUFFIX)
        with suppress(OSError, UnusableFile):
            CompiledStore(path, key)
            os.utime(checked_path(path))  # as one that is used
            return path
        with suppress(OSError):
            make_folder(each)
            replace_file(path, [zlib.decompress(data)], 0o644)
            return path
    return path


@dataclass(frozen=True, slots=True)
class ShippedJob:
    """A job with the background of its program, as operators have it.

    - `text`: the JSON of the job, without the path of a store.
    """

    text: str
    store: ShippedStore

    @staticmethod
    def of(job: Job, program: CompiledProgram) -> ShippedJob:
        """The job of a program, without its files."""
        store = ShippedStore.of(program)
        return ShippedJob(replace(job, key=store.key.hex(), store="").to_json(), store)

    def here(self) -> str:
        """The JSON of the job on this machine, with the path of its store."""
        found = _job_here(self.text, self.store)
        if not os.path.exists(Job.from_json(found).store):  # removed from the cache meanwhile
            _job_here.cache_clear()
            found = _job_here(self.text, self.store)
        return found


@lru_cache(16)
def _job_here(text: str, store: ShippedStore) -> str:
    return replace(Job.from_json(text), store=str(store.file().path)).to_json()
