"""The answers of queries over the background alone, stored beside the compiled background.

Static answers hold at every instant, so every process needs them, and over a large background they
can be the most expensive part of compiling a program. A file of static answers belongs to one store
and one set of rules; its keys are digests of the algebra of queries.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING

from dotr.engine.spec import ProgramSpec
from dotr.errors.fallbacks import FallbackKind, record_fallback, reraise_in_tests
from dotr.evaluation.joins.branch_loops import AnswerRow
from dotr.model.algebra import Select

if TYPE_CHECKING:
    from dotr.evaluation.triples.file import MappedFile
    from dotr.instant.datalog.background.compiled_store import CompiledStore


class StaticAnswers:
    """The stored static answers of a program; without a store none are stored."""

    def __init__(self, spec: ProgramSpec, store: CompiledStore | None) -> None:
        self._rows: dict[str, list[AnswerRow]] = {}
        self._is_changed = False
        self._path: Path | None = None
        if store is not None:
            from dotr.evaluation.triples.file import DistrustedFile, MappedFile, UnusableFile

            digest = blake2b(store.file.key, digest_size=16)
            for document in spec.rules:
                digest.update(document.text.encode("utf-8", "surrogatepass") + b"\0")
            digest.update(json.dumps(sorted(spec.prefixes.items())).encode())
            self._key = digest.digest()
            self._path = store.file.path.with_name(f"{store.file.path.stem}-{self._key.hex()}{store.file.path.suffix}")
            try:
                self._rows = _read(MappedFile(self._path, self._key, shared=store.file.shared))
            except FileNotFoundError:
                pass
            except DistrustedFile as error:
                record_fallback(error, FallbackKind.ANSWERS)
            except (OSError, UnusableFile) as error:
                reraise_in_tests(error, FallbackKind.ANSWERS)
                record_fallback(error, FallbackKind.ANSWERS)

    def answers(self, query: Select, find: Callable[[], Sequence[AnswerRow]]) -> Sequence[AnswerRow]:
        """The answers of a query; `find` computes those that are not stored yet."""
        if self._path is None:
            return find()
        key = blake2b(repr(query).encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()
        rows = self._rows.get(key)
        if rows is None:
            self._rows[key] = rows = list(find())
            self._is_changed = True
        return rows

    def write(self) -> None:
        """Write new answers to the file. A process without permission to write computes them again
        at its next start.
        """
        if self._path is not None and self._is_changed:
            from dotr.evaluation.triples.file import write_file

            text = json.dumps(self._rows, ensure_ascii=False).encode("utf-8", "surrogatepass")
            with suppress(OSError):
                write_file(self._path, self._key, {"answers": (text,)})
            self._is_changed = False


def _read(file: MappedFile) -> dict[str, list[AnswerRow]]:
    from dotr.evaluation.triples.file import UnusableFile

    try:
        data = json.loads(bytes(file.view("answers")).decode("utf-8", "surrogatepass"))
        return {key: [tuple(row) for row in rows] for key, rows in data.items()}
    except (ValueError, TypeError, AttributeError) as error:
        raise UnusableFile(f"is damaged: {error}") from None
