"""Detection of damaged checkpoint files: those that a start reads before Spark does, all others
after a query has failed.

Spark writes a file under another name and renames it, so that a crash leaves it complete or absent.
A full or failed disk, a power cut or an incomplete copy damages files, and Spark's messages do not
name them. Damage is detected by content, and by the checksums that Hadoop writes beside each file
on a local disk (`.7.crc`). Stores check their own content, so that of a checkpoint at a URL the
logs alone are looked at.
"""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit
from uuid import uuid4

from dotr.errors.diagnostics import Refused, refuse
from dotr.evaluation.files.stores import Location
from dotr.runtimes.monitoring.totals import InputLost, RunFailed
from dotr.runtimes.spark.exchange.errors import failure_of
from dotr.runtimes.spark.exchange.positions import Offset

_MAGIC: Final = b"crc\x00"
_MAX_CHECKED_BYTES: Final = 1 << 32
"""Most bytes of state files that are checked, newest first."""
_MISSING_FILE: Final = re.compile(r"(?:FileNotFound|NoSuchFile|Checksum|EOF|Corrupt)\w*: (?:[^\n]*?)(?:file:)?(/[^\s:,]+)")
_MISSING: Final = re.compile("FileNotFound|NoSuchFile|EOF|No such file")
_START_OVER: Final = "put the folder back from a copy, or start over with --fresh (it removes this pipeline's output and checkpoint)"


def check_logs(query: Location) -> None:
    """Check the logs that a start reads: the query id, the last offsets, the last commit. Raises
    Refused (S114) where one is damaged, and OSError where a store does not answer."""
    planned, written = _numbers(query / "offsets"), _numbers(query / "commits")
    if not planned and not written:
        return
    last = max([*planned, *written])
    ids = query / "metadata"
    if (why := _damage(ids) or _id_problem(ids)) is not None:
        new = json.dumps({"id": str(uuid4())})
        raise _refused(ids, why, f"It holds an id and no more: {_removal(ids)}write {new} into {ids}, and give the same command again.")
    offset_problem = _watermark_problem if _is_of_tables(query) else _offset_problem
    for number in sorted({last, last - 1} & {*planned, *written}):
        offset, commit = query / "offsets" / str(number), query / "commits" / str(number)
        if (why := _damage(offset) or offset_problem(offset)) is not None:
            raise _refused(offset, why, _repair_hint(offset, commit, number, last, query))
        if number in written and (why := _damage(commit) or _commit_problem(commit)) is not None:
            beside = "" if query.is_url else f" and {_crc(commit)} beside it"
            hint = f"Remove it{beside}: the same command does its batch again, or goes on behind it."
            raise _refused(commit, why, hint)


def _repair_hint(offset: Location, commit: Location, number: int, last: int, query: Location) -> str:
    before = query / "offsets" / str(number - 1)
    problem = _watermark_problem if _is_of_tables(query) else _offset_problem
    if number < last or (number > 0 and (_damage(before) or problem(before)) is not None):
        return _sentence(_START_OVER)
    files = [str(each) for each in (offset, _crc(offset), commit, _crc(commit)) if each is not None and each.look() is not None]
    if commit.look() is None:
        return f"Its batch is not written yet. Remove {_listed(files)}: the same command plans it again."
    return f"Remove {_listed(files)}: the same command goes back to the batch before and does this one again."


def find_damage(query: Location, message: str) -> Refused | None:
    """The first damaged file of a failed query, with a way to repair it; None where none is found.
    `message` is Spark's error."""
    try:
        for place in _missing(query, message):
            if place.look() is None:
                return _refused(place, "is missing", _sentence(_START_OVER))
        check_logs(query)
    except Refused as refused:
        return refused
    except OSError:
        if query.is_url:  # the failure is that of the store
            return None
        raise
    return None if query.is_url else _find_damaged_state(query.path)


def _missing(query: Location, message: str) -> Iterator[Location]:
    """The files of a query that a message of Spark tells to be missing."""
    if not query.is_url:
        for path in map(Path, _MISSING_FILE.findall(message)):
            if query.path.absolute() in path.parents and not path.exists():
                yield Location(str(path))
        return
    inside = re.compile(re.escape(urlsplit(str(query)).path) + r"/([^\s:,]+)")
    for line in filter(_MISSING.search, message.splitlines()):
        yield from (query / name for name in inside.findall(line))


def _find_damaged_state(query: Path) -> Refused | None:
    budget = _MAX_CHECKED_BYTES
    for path, size in _newest(query / "state"):
        place = Location(str(path))
        why = _damage(place, must_have_content=_crc_path(path).exists())
        if why is not None:
            return _refused(place, why, _sentence(_START_OVER))
        budget -= size
        if budget < 0:
            break
    for sums in sorted((query / "state").rglob(".*.crc")):  # Spark does not always say which file it misses, and removes both together
        path = sums.with_name(sums.name.removeprefix(".").removesuffix(".crc"))
        if not path.name.startswith(".") and not path.exists():
            return _refused(Location(str(path)), "is missing", _sentence(_START_OVER))
    return None


def failure_in(query: Location, text: str, log: Path) -> Refused | RunFailed:
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


def _damage(place: Location, *, must_have_content: bool = True) -> str | None:
    """The damage of a file by length and checksums, as a predicate; None where there is none.
    `must_have_content`: an empty file is damaged."""
    if place.is_url:
        found = place.look()
        return "is missing" if found is None else "is empty" if must_have_content and not found.size else None
    path = place.path
    if path.is_dir():
        return "is a folder"
    try:
        size = path.stat().st_size
        sums = _crc_path(path).read_bytes() if _crc_path(path).exists() else b""
        if not size:
            return "is empty" if must_have_content and len(sums) != 8 else None
        if not sums:
            return None
        if sums[:4] != _MAGIC or len(sums) < 8:
            return f"does not match its checksums in {_crc_path(path).name}"
        chunk = int.from_bytes(sums[4:8], "big")
        with path.open("rb") as file:
            for at in range(8, len(sums), 4):
                if zlib.crc32(file.read(chunk)) != int.from_bytes(sums[at : at + 4], "big"):
                    return f"is cut or changed (it does not match its checksums in {_crc_path(path).name})"
            return None if not file.read(1) else "has more in it than was written"
    except FileNotFoundError:
        return "is missing"
    except OSError as error:
        return f"cannot be read: {(error.strerror or str(error)).lower()}"


def _id_problem(place: Location) -> str | None:
    try:
        return None if isinstance(json.loads(place.read())["id"], str) else "holds no id"
    except (ValueError, TypeError, KeyError):
        return "holds no id"


def _offset_problem(place: Location) -> str | None:
    try:
        version, settings, offset, *_ = place.read().decode().splitlines()
        json.loads(settings)
        Offset.of_text(offset)
    except (ValueError, TypeError, KeyError, AssertionError):
        return "is cut or is no such log"
    return None if version.startswith("v") else "is cut or is no such log"


def _watermark_problem(place: Location) -> str | None:
    """The damage of a log of offsets of Spark's own sources."""
    try:
        version, settings, *sources = place.read().decode().splitlines()
        int(json.loads(settings)["batchWatermarkMs"])
        is_whole = version.startswith("v") and bool(sources) and all(each == "-" or json.loads(each) is not None for each in sources)
    except (ValueError, TypeError, KeyError):
        is_whole = False
    return None if is_whole else "is cut or is no such log"


def _is_of_tables(query: Location) -> bool:
    """True if Spark reads the inputs, as `dotr.json` beside its folder has it."""
    try:
        return bool(json.loads((query.parent / "dotr.json").read()).get("tables"))
    except (OSError, ValueError, AttributeError):
        return False


def _commit_problem(place: Location) -> str | None:
    try:
        _, *rest = place.read().decode().splitlines()
        return None if all(isinstance(json.loads(line), dict) for line in rest[:1]) and rest else "is cut or is no such log"
    except ValueError:
        return "is cut or is no such log"


def _numbers(folder: Location) -> set[int]:
    if folder.is_url:
        return {int(each.location.name) for each in folder.list() if each.location.name.isdecimal()}
    return {int(path.name) for path in folder.path.iterdir() if path.name.isdecimal()} if folder.path.is_dir() else set()


def _crc(place: Location) -> Location | None:
    """The file with the checksums of a file; None at a URL."""
    return None if place.is_url else place.parent / f".{place.name}.crc"


def _crc_path(path: Path) -> Path:
    return path.with_name(f".{path.name}.crc")


def _removal(place: Location) -> str:
    return "" if place.is_url else f"remove {_crc(place)}, "


def _listed(places: list[str]) -> str:
    *first, last = places
    return f"{', '.join(first)} and {last}" if first else last


def _sentence(text: str) -> str:
    return text[0].upper() + text[1:] + "."


def _refused(place: Location, why: str, hint: str) -> Refused:
    refusal = refuse("S114", f"the checkpoint is damaged: {place} {why}", hint=hint)
    assert isinstance(refusal, Refused)
    return refusal
