"""Detection of damaged checkpoint files: those that a start reads before Spark does, all others
after a query has failed.

Spark writes a file under another name and renames it, so that a crash leaves it complete or absent.
A full or failed disk, a power cut or an incomplete copy damages files, and Spark's messages do not
name them. Damage is detected by content, and by the checksums that Hadoop writes beside each file
on a local disk (`.7.crc`).
"""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Final
from uuid import uuid4

from dotr.errors.diagnostics import Refused, refuse
from dotr.runtimes.monitoring.totals import InputLost, RunFailed
from dotr.runtimes.spark.exchange.errors import failure_of
from dotr.runtimes.spark.exchange.positions import Offset

_MAGIC: Final = b"crc\x00"
_MAX_CHECKED_BYTES: Final = 1 << 32
"""Most bytes of state files that are checked, newest first."""
_MISSING_FILE: Final = re.compile(r"(?:FileNotFound|NoSuchFile|Checksum|EOF|Corrupt)\w*: (?:[^\n]*?)(?:file:)?(/[^\s:,]+)")
_START_OVER: Final = "put the folder back from a copy, or start over with --fresh (it removes this pipeline's output and checkpoint)"


def check_logs(query: Path) -> None:
    """Check the logs that a start reads: the query id, the last offsets, the last commit. Raises
    Refused (S114) where one is damaged."""
    planned, written = _numbers(query / "offsets"), _numbers(query / "commits")
    if not planned and not written:
        return
    last = max([*planned, *written])
    ids = query / "metadata"
    if (why := _damage(ids) or _id_problem(ids)) is not None:
        new = json.dumps({"id": str(uuid4())})
        raise _refused(
            ids, why, f"It holds an id and no more: remove {_crc(ids)}, write {new} into {ids}, and give the same command again."
        )
    for number in sorted({last, last - 1} & {*planned, *written}):
        offset, commit = query / "offsets" / str(number), query / "commits" / str(number)
        if (why := _damage(offset) or _offset_problem(offset)) is not None:
            raise _refused(offset, why, _repair_hint(offset, commit, number, last, query))
        if number in written and (why := _damage(commit) or _commit_problem(commit)) is not None:
            hint = f"Remove it and {_crc(commit)} beside it: the same command does its batch again, or goes on behind it."
            raise _refused(commit, why, hint)


def _repair_hint(offset: Path, commit: Path, number: int, last: int, query: Path) -> str:
    before = query / "offsets" / str(number - 1)
    if number < last or (number > 0 and (_damage(before) or _offset_problem(before)) is not None):
        return _sentence(_START_OVER)
    files = [path for path in (offset, _crc(offset), commit, _crc(commit)) if path.exists()]
    if not commit.exists():
        return f"Its batch is not written yet. Remove {_listed(files)}: the same command plans it again."
    return f"Remove {_listed(files)}: the same command goes back to the batch before and does this one again."


def find_damage(query: Path, message: str) -> Refused | None:
    """The first damaged file of a failed query, with a way to repair it; None where none is found.
    `message` is Spark's error."""
    for name in _MISSING_FILE.findall(message):
        path = Path(name)
        if query.absolute() in path.parents and not path.exists():
            return _refused(path, "is missing", _sentence(_START_OVER))
    try:
        check_logs(query)
    except Refused as refused:
        return refused
    budget = _MAX_CHECKED_BYTES
    for path, size in _newest(query / "state"):
        why = _damage(path, must_have_content=_crc(path).exists())
        if why is not None:
            return _refused(path, why, _sentence(_START_OVER))
        budget -= size
        if budget < 0:
            break
    for sums in sorted((query / "state").rglob(".*.crc")):  # Spark does not always say which file it misses, and removes both together
        path = sums.with_name(sums.name.removeprefix(".").removesuffix(".crc"))
        if not path.name.startswith(".") and not path.exists():
            return _refused(path, "is missing", _sentence(_START_OVER))
    return None


def failure_in(query: Path, text: str, log: Path) -> Refused | RunFailed:
    """The error of a failed query for the user: that of `failure_of`, or the damaged file that is
    its cause.

    `query` is Spark's folder, `text` its message, `log` the path of its log.
    """
    failure = failure_of(text, log)
    if isinstance(failure, RunFailed) and not isinstance(failure, InputLost):
        return find_damage(query, text) or failure
    return failure


def _newest(folder: Path) -> Iterator[tuple[Path, int]]:
    files = []
    for path in folder.rglob("*"):
        try:
            if not path.name.startswith(".") and path.is_file():
                files.append((path.stat().st_mtime_ns, path, path.stat().st_size))
        except OSError:  # the file was removed meanwhile
            continue
    for _, path, size in sorted(files, reverse=True):
        yield path, size


def _damage(path: Path, *, must_have_content: bool = True) -> str | None:
    """The damage of a file by length and checksums, as a predicate; None where there is none.
    `must_have_content`: an empty file is damaged."""
    if path.is_dir():
        return "is a folder"
    try:
        size = path.stat().st_size
        sums = _crc(path).read_bytes() if _crc(path).exists() else b""
        if not size:
            return "is empty" if must_have_content and len(sums) != 8 else None
        if not sums:
            return None
        if sums[:4] != _MAGIC or len(sums) < 8:
            return f"does not match its checksums in {_crc(path).name}"
        chunk = int.from_bytes(sums[4:8], "big")
        with path.open("rb") as file:
            for place in range(8, len(sums), 4):
                if zlib.crc32(file.read(chunk)) != int.from_bytes(sums[place : place + 4], "big"):
                    return f"is cut or changed (it does not match its checksums in {_crc(path).name})"
            return None if not file.read(1) else "has more in it than was written"
    except FileNotFoundError:
        return "is missing"
    except OSError as error:
        return f"cannot be read: {(error.strerror or str(error)).lower()}"


def _id_problem(path: Path) -> str | None:
    try:
        return None if isinstance(json.loads(path.read_bytes())["id"], str) else "holds no id"
    except (ValueError, TypeError, KeyError):
        return "holds no id"


def _offset_problem(path: Path) -> str | None:
    try:
        version, settings, offset, *_ = path.read_text().splitlines()
        json.loads(settings)
        Offset.of_text(offset)
    except (ValueError, TypeError, KeyError, AssertionError):
        return "is cut or is no such log"
    return None if version.startswith("v") else "is cut or is no such log"


def _commit_problem(path: Path) -> str | None:
    try:
        _, *rest = path.read_text().splitlines()
        return None if all(isinstance(json.loads(line), dict) for line in rest[:1]) and rest else "is cut or is no such log"
    except ValueError:
        return "is cut or is no such log"


def _numbers(folder: Path) -> set[int]:
    return {int(path.name) for path in folder.iterdir() if path.name.isdecimal()} if folder.is_dir() else set()


def _crc(path: Path) -> Path:
    return path.with_name(f".{path.name}.crc")


def _listed(paths: list[Path]) -> str:
    *first, last = map(str, paths)
    return f"{', '.join(first)} and {last}" if first else last


def _sentence(text: str) -> str:
    return text[0].upper() + text[1:] + "."


def _refused(path: Path, why: str, hint: str) -> Refused:
    refusal = refuse("S114", f"the checkpoint is damaged: {path} {why}", hint=hint)
    assert isinstance(refusal, Refused)
    return refusal
