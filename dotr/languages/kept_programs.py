"""Kept programs: what the texts of a program were parsed to, for the next command.

Idea: three quarters of a short command's work are the parsers and their import, and most commands
read the texts of the one before. So what was read from them is kept in the user's cache, in the
form that Spark's workers get (`dotr.languages.program_json`): data, never code. The name of a file
is a hash of the specification and of the sources of the parsers, so a file is never out of date.
Invariant: a program from the cache is equal to the one from its texts, with every warning and its
place. A program with an error is not kept.
Cost: a millisecond to look at the sources, two for a program of six rules; a file is read only if
no other user can have written it.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from hashlib import blake2b
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from dotr.engine.spec import ProgramSpec, RuleSet
from dotr.errors.diagnostics import Allowance, Diagnostic, Silenced
from dotr.evaluation.files.caches import default_folder
from dotr.evaluation.files.private_files import replace_file
from dotr.evaluation.files.trust import distrust, make_trusted_folder
from dotr.languages.program_json import PROGRAM_CODEC, UnknownForm
from dotr.model import dataclass
from dotr.model.calendars import Zone, zone_of
from dotr.model.datalog import DatalogRule
from dotr.temporal.layout.units import StreamUnit

_SWITCH: Final = "DOTR_KEEP_PROGRAMS"
_PARSERS: Final = ("dotr", "rdflib", "pyparsing")
_NO_PARSERS: Final = ("__pycache__", "streams", "runtimes", "api", "commands")
"""Folders whose sources no language imports (dotr/ARCHITECTURE.md, Packages)."""
_LARGEST: Final = 16 << 20
_MAX_BYTES: Final = 64 << 20
_MAX_FILES: Final = 500
_MAX_UNUSED: Final = 30 * 86_400.0
"""Seconds after which an unused file is removed when another is written."""


@dataclass(frozen=True, slots=True)
class CheckedProgram:
    """A program that was parsed and checked without its background.

    - `units`: those of other languages than that of rules.
    - `closing_rules`: those of the entailment and of Datalog files.
    - `warnings`: those of its files; `silenced`: those that comments allow; `allowed`: these
      comments.
    - `spread`: the warnings on how its layout spreads; None: it was not laid out yet.
    """

    rules: RuleSet
    units: tuple[StreamUnit, ...]
    closing_rules: tuple[DatalogRule, ...]
    warnings: tuple[Diagnostic, ...]
    silenced: tuple[Silenced, ...]
    allowed: tuple[Allowance, ...]
    spread: tuple[Diagnostic, ...] | None = None


def kept_program(spec: ProgramSpec) -> CheckedProgram | None:
    """The program that was kept for a specification; None where there is none that can be used.

    >>> kept_program(ProgramSpec()) is None
    True
    """
    program = kept(spec)
    return program if isinstance(program, CheckedProgram) else None


def kept(spec: ProgramSpec, given: str = "") -> object:
    """The value that was kept for a specification and the further input that it depends on; None where
    there is none that can be used.
    """
    path = _path(spec, given)
    if path is None:
        return None
    try:
        checksum, _, text = path.read_bytes().partition(b"\n")
        if checksum != _checksum(path, text) or distrust(path) is not None:
            return None
        value: object = PROGRAM_CODEC.decode(text.decode(), _documents(spec), {Zone: _same_zone})
        with suppress(OSError):
            os.utime(path)
    except (OSError, UnknownForm, LookupError, UnicodeDecodeError):
        return None
    return value


def keep(spec: ProgramSpec, value: object, given: str = "") -> None:
    """Keep a value of the codec that depends on a specification and further input alone; nothing where
    it cannot be written."""
    path = _path(spec, given)
    if path is None:
        return
    with suppress(OSError, UnknownForm, ValueError):  # ValueError: a number of thousands of digits
        text = PROGRAM_CODEC.encode(value, _documents(spec)).encode()
        if len(text) <= _LARGEST:
            make_trusted_folder(path.parent)
            replace_file(path, [_checksum(path, text), b"\n", text], 0o600)
            _remove_old(path.parent)


def _documents(spec: ProgramSpec) -> tuple[object, ...]:
    return (*spec.rules, *spec.datalog)


def _same_zone(name: str, begins: tuple[int, ...], offsets: tuple[int, ...]) -> Zone:
    """The zone of this machine; raises LookupError where its changes are others than before."""
    zone = zone_of(name)
    if (zone.begins, zone.offsets) != (begins, offsets):
        raise LookupError(f"the time zone {name} has changed")
    return zone


def _path(spec: ProgramSpec, given: str) -> Path | None:
    folder, parsers = default_folder(), _parsers()
    if folder is None or parsers is None or os.environ.get(_SWITCH) == "0":
        return None
    # The JSON sorts the prefixes, and outputs declare them in the order of the configuration.
    texts = f"{spec.to_json()}\n{list(spec.prefixes.items())}\n{given}".encode("utf-8", "surrogatepass")
    return folder / "programs" / f"{blake2b(texts, key=parsers, digest_size=20).hexdigest()}.json"


def _checksum(path: Path, text: bytes) -> bytes:
    return blake2b(text, key=path.name.encode(), digest_size=20).hexdigest().encode()


@cache
def _parsers() -> bytes | None:
    """A hash of the sources of the parsers, with rdflib and pyparsing: of their names, sizes and times, as
    Python's compiled modules have them; None where they are no files."""
    digest = blake2b(sys.version.encode(), digest_size=32)
    try:
        for name in _PARSERS:
            found = find_spec(name)
            for folder in (found and found.submodule_search_locations) or ():
                for source in sorted(_sources(folder)):
                    digest.update(source.encode("utf-8", "surrogateescape"))
    except OSError:
        return None
    return digest.digest()


def _sources(folder: str) -> Iterator[str]:
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.endswith((".py", ".dlog")):
                status = entry.stat()
                yield f"{entry.path} {status.st_size} {status.st_mtime_ns} {status.st_ctime_ns}\n"
            elif entry.is_dir() and entry.name not in _NO_PARSERS:
                yield from _sources(entry.path)


def _remove_old(folder: Path) -> None:
    """Remove the files that were not used for long, and the longest unused of too many."""
    found: list[tuple[float, int, str]] = []
    with os.scandir(folder) as entries:
        for entry in entries:
            with suppress(OSError):
                found.append(((status := entry.stat()).st_mtime, status.st_size, entry.path))
    size, now = 0, time.time()
    for number, (used, bytes_of, path) in enumerate(sorted(found, reverse=True)):
        size += bytes_of
        if number >= _MAX_FILES or size > _MAX_BYTES or now - used > _MAX_UNUSED:
            with suppress(OSError):
                os.unlink(path)
