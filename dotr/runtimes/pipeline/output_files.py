"""Removal of outputs and checkpoint for `--fresh`, after a check that a run made them.

A path in a configuration may be wrong, such as `.` for `out`. So a path is removed only by its
content: a file with the beginning of an output or of dead letters, a folder that has batches only,
or a checkpoint that has dotr.json and entries of a run only.
Invariant: all targets are checked before the first is removed.
"""

from __future__ import annotations

import gzip
import os
import re
import shutil
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from dotr.errors.diagnostics import Diagnostic, Refused, refuse
from dotr.evaluation.files.private_files import TEMPORARY
from dotr.model.places import Span
from dotr.streams.sinks.files import stores_no_data
from dotr.streams.sinks.parquet import MADE_BY

_BATCH: Final = re.compile(rf"\.?[0-9]{{12}}\.[a-z.]+|\.[0-9]{{12}}\.[a-z.]+{TEMPORARY}")
_OWN_FILE: Final = re.compile(
    r'\{"time": .*"rule": .*"event": .*"attributes": |\{"reason": .*"input": .*"file": |time,rule,event[,\r\n]|'
    r"(?:@prefix [^\n]*\n)*<urn:dotr:[0-9a-f]{32}> (?:<http://www\.w3\.org/ns/prov#|[\w-]*:)generatedAtTime"
)
_CHECKPOINT: Final = re.compile(
    r"dotr\.json(\.new)?|spark\.log|query(-[0-9]+)?|moved-[0-9]+|spool|waiting|(watched|progress|inputs|partitions)\.((nd)?json|new)|"
    rf"\.(dotr|watched|progress|inputs)\.(nd)?json{TEMPORARY}"
)
_FOLDER: Final = re.compile(r"query(-[0-9]+)?|moved-[0-9]+|spool|waiting")
_MAGIC: Final = b"\x1f\x8b"
_HEAD_SIZE: Final = 1 << 16
_PARQUET: Final = b"PAR1"
_PARQUET_END: Final = 1 << 20
"""Bytes at the end of a Parquet file that hold the metadata of its makers."""


@dataclass(frozen=True, slots=True)
class Target:
    """A path that a pipeline writes to.

    `purpose` names it in messages, `span` is its place in the configuration; `checkpoint`: the path
    is the checkpoint.
    """

    purpose: str
    path: str
    span: Span | None = None
    checkpoint: bool = False


def remove(targets: Sequence[Target]) -> None:
    """Remove the targets of older runs. Raises `Refused` and removes nothing where a target was not
    made by a run."""
    problems: list[Diagnostic] = []
    for target in targets:
        try:
            _check_removable(target)
        except Refused as refused:
            problems += refused.diagnostics
        except OSError as error:
            problems.append(_failed(target, error))
    if problems:
        raise Refused(problems)
    for target in targets:
        try:
            _remove(Path(target.path))
        except OSError as error:
            raise Refused([_failed(target, error)]) from None


def _failed(target: Target, error: OSError) -> Diagnostic:
    reason = (error.strerror or str(error)).lower()
    return Diagnostic("C302", f"cannot remove {error.filename or target.path}: {reason}", target.span, "Remove it by hand.")


def _check_removable(target: Target) -> None:
    path = Path(target.path)
    if not path.exists() or stores_no_data(target.path):
        return
    if path.is_dir():
        pattern = _CHECKPOINT if target.checkpoint else _BATCH
        foreign = sorted(e.name for e in path.iterdir() if not pattern.fullmatch(e.name) or (e.is_dir() and not _FOLDER.fullmatch(e.name)))
        if foreign:
            raise _foreign(target, f"it holds {foreign[0]}" + (f" and {len(foreign) - 1} more" if len(foreign) > 1 else ""))
        if target.checkpoint and (path / "query").exists() and not (path / "dotr.json").is_file():
            raise _foreign(target, "there is no dotr.json in it")
    elif target.checkpoint:
        raise _foreign(target, "it is no folder")
    elif not _is_own_file(path):
        raise _foreign(target, "it does not begin as such a file does")


def _foreign(target: Target, why: str) -> Refused:
    message = f"--fresh does not remove {target.path}, the {target.purpose}: it was not made by a run ({why})"
    return refuse("C207", message, target.span, "Is the path right? If it is, remove it by hand.")


def _is_own_file(path: Path) -> bool:
    """True where a file is empty, or begins like an output or a file of dead letters."""
    with path.open("rb") as file:
        begin = file.read(_HEAD_SIZE)
    if begin.startswith(_PARQUET):
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - _PARQUET_END))
            return MADE_BY in file.read()
    if begin[:2] == _MAGIC:
        try:
            with gzip.open(path) as packed:
                begin = packed.read(_HEAD_SIZE)
        except (OSError, EOFError, zlib.error):
            begin = b""  # truncated by a crash
    return not begin or _OWN_FILE.match(begin.decode(errors="replace")) is not None


def _remove(path: Path) -> None:
    if stores_no_data(str(path)) or not os.path.lexists(path):
        return
    if path.is_dir():
        for entry in path.iterdir():
            if entry.is_dir() and not entry.is_symlink():
                shutil.rmtree(entry)
            else:
                entry.unlink()
        if not path.is_symlink():
            path.rmdir()
    else:
        path.unlink()
