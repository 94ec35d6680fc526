"""Cache of compiled stores, with fallbacks for a missing, damaged or unwritable store.

The name of a store is the key of its sources (`dotr.instant.datalog.background.sources`), so a
store is never out of date: changed sources have another name. A damaged, truncated or foreign file
is reported and rebuilt. A cache that other users could have filled is not used, unless the
configuration shares it. If a store cannot be written, the background is held in memory, which is
reported, too. Processes that build one store concurrently write equal bytes under temporary names;
the last rename wins. Small sources are closed in memory by each process, which is as fast as
opening a store.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from dotr.errors.diagnostics import Diagnostic, Severity, refuse
from dotr.errors.fallbacks import FallbackKind, record_fallback, reraise_in_tests
from dotr.evaluation.files.caches import default_folder, distrusted_file, usable_cache
from dotr.instant.datalog.background.knowledge import ClosedTriples, Knowledge, close_background, without_collection
from dotr.instant.datalog.background.loading import load_graphs
from dotr.instant.datalog.background.sources import Sources
from dotr.model import dataclass
from dotr.model.datalog import DatalogRule

if TYPE_CHECKING:
    from dotr.instant.datalog.background.compiled_store import CompiledStore

MIN_BYTES: Final = 1 << 20
"""The size in bytes below which sources are not stored, unless other processes need a store."""
_MAX_UNUSED: Final = 30 * 86_400.0
"""Seconds without use after which a store is removed when another is built."""
_SUFFIX: Final = ".dotrkb"


@dataclass(frozen=True, slots=True)
class CachePolicy:
    """Location and use of the cache.

    `folder`: None: no cache. `min_bytes`: the size of the smallest sources that are stored.
    `rebuild`: a store is built even if there is one. `shared`: the folder is used whoever may write
    to it. `programs`: parsed programs are kept, too, in the user's cache
    (`languages/kept_programs.py`).
    """

    folder: Path | None
    min_bytes: int = MIN_BYTES
    rebuild: bool = False
    shared: bool = False
    programs: bool = False

    @staticmethod
    def default() -> CachePolicy:
        """The policy of commands without a configuration: all in the user's cache folder."""
        return CachePolicy(default_folder(), programs=True)


@dataclass(frozen=True, slots=True)
class StoreFile:
    """A store that another process has built, opened regardless of the current sources. `shared`:
    it is used whoever owns it."""

    path: Path
    key: bytes
    shared: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class OpenedBackground:
    """Knowledge with its store.

    `store`: None: the background is in memory. `warnings`: reports for the user. `is_new`: the
    store was built by this call. `closed`: the background in memory, of which a store can be made.
    """

    knowledge: Knowledge
    store: CompiledStore | None = None
    warnings: tuple[Diagnostic, ...] = ()
    is_new: bool = False
    closed: ClosedTriples | None = None


def open_background(sources: Sources, rules: Sequence[DatalogRule], policy: CachePolicy | StoreFile) -> OpenedBackground:
    """The closed background of sources under their rules, from the cache or built.

    Raises `Refused` with all problems of graphs and rules.
    """
    if isinstance(policy, StoreFile):
        from dotr.evaluation.triples.file import UnusableFile
        from dotr.instant.datalog.background.compiled_store import CompiledStore

        try:
            store = CompiledStore(policy.path, policy.key, shared=policy.shared)
        except (UnusableFile, OSError) as error:
            reraise_in_tests(error, FallbackKind.STORE)
            record_fallback(error, FallbackKind.STORE)
            return _in_memory(_close_sources(sources, rules), rules, (_damaged(policy.path, error),))
        return OpenedBackground(store.knowledge(rules), store)
    return _open_cached(sources, rules, policy)


def _open_cached(sources: Sources, rules: Sequence[DatalogRule], policy: CachePolicy) -> OpenedBackground:
    size = sources.size()
    if policy.folder is None or size < policy.min_bytes:
        return _in_memory(_close_sources(sources, rules), rules)
    from dotr.evaluation.triples.dictionary import StoreCapacityExceeded
    from dotr.evaluation.triples.file import DistrustedFile, UnusableFile, checked_path
    from dotr.instant.datalog.background.compiled_store import CompiledStore, write_store

    try:
        stamps = sources.stamps()
        key = sources.key()
    except OSError:  # reported by `load_graphs`
        return _in_memory(_close_sources(sources, rules), rules)
    folder, told = (policy.folder, None) if policy.shared else usable_cache(policy.folder)
    path = folder / (key.hex() + _SUFFIX)
    warnings: list[Diagnostic] = [told] if told is not None else []
    if not policy.rebuild:
        try:
            store = CompiledStore(path, key, shared=policy.shared)
            with suppress(OSError):
                os.utime(checked_path(path))
            return OpenedBackground(store.knowledge(rules), store)
        except (FileNotFoundError, NotADirectoryError):
            pass
        except DistrustedFile as error:
            warnings.append(distrusted_file(path, error))
        except (UnusableFile, OSError) as error:
            reraise_in_tests(error, FallbackKind.STORE)
            warnings.append(_damaged(path, error))
    start = time.perf_counter()
    closed = _close_sources(sources, rules)
    seconds = time.perf_counter() - start
    try:
        if sources.stamps() != stamps:
            raise UnusableFile("would be of sources that changed while they were read")
        with without_collection():
            write_store(path, key, closed, seconds)
        _remove_stale(folder)
        store = CompiledStore(path, key, shared=policy.shared)
    except StoreCapacityExceeded as many:
        raise refuse("K503", f"the background is too large: {many}", hint="Divide it between pipelines.") from None
    except (UnusableFile, OSError) as error:
        if size >= MIN_BYTES:
            warnings.append(_unwritten(path, error))
        return _in_memory(closed, rules, warnings)
    return OpenedBackground(store.knowledge(rules), store, tuple(warnings), is_new=True)


def _close_sources(sources: Sources, rules: Sequence[DatalogRule]) -> ClosedTriples:
    with without_collection():
        return close_background(load_graphs(sources.graphs, sources.reading), rules)


def _in_memory(closed: ClosedTriples, rules: Sequence[DatalogRule], warnings: Sequence[Diagnostic] = ()) -> OpenedBackground:
    with without_collection():
        return OpenedBackground(Knowledge.from_closed(closed, rules), None, tuple(warnings), closed=closed)


def _damaged(path: Path, error: Exception) -> Diagnostic:
    return Diagnostic(
        "K501",
        f"the compiled background {path} {_reason(error)}; rebuilding it from its sources",
        None,
        "Nothing is lost. If this happens again, check the disk.",
        Severity.WARNING,
    )


def _unwritten(path: Path, error: Exception) -> Diagnostic:
    return Diagnostic(
        "K502",
        f"the compiled background {path} {_reason(error)}; this run holds its background in memory",
        None,
        "Name a folder that can be written as `knowledge.cache`, or make room.",
        Severity.WARNING,
    )


def _reason(error: Exception) -> str:
    if isinstance(error, OSError):
        return f"cannot be used: {(error.strerror or str(error)).lower()}"
    return str(error)


def _remove_stale(folder: Path) -> None:
    """Removes stores that have not been used for long, and files of interrupted writers."""
    from dotr.evaluation.triples.file import checked_path

    now = time.time()
    for path in folder.glob("*" + _SUFFIX + "*"):
        with suppress(OSError):
            if path.suffix == _SUFFIX:
                note = checked_path(path)
                used = max(path.stat().st_mtime, note.stat().st_mtime if note.exists() else 0.0)
                if now - used > _MAX_UNUSED:
                    path.unlink()
                    note.unlink(missing_ok=True)
            elif path.suffix in (".part", ".tmp") and now - path.stat().st_mtime > 86_400:
                path.unlink()
