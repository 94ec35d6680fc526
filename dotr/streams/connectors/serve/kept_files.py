"""Kept elements of a published stream in files: the folder `serve` of a checkpoint.

Idea: a page is a file to which lines are appended. The file `stream` is replaced once all lines of
a batch are on the disk, and says how far the stream goes: what lies behind it is of a batch that
was cut off, and is cut off by the next one. Pages before the first kept one are removed afterwards.
Invariant: `stream` never names an element that is not on the disk, or a page that is removed. Each
line begins with its checksum, so that a changed folder is refused, and not guessed.
Cost: 4 µs an element, and two or three times fsync(2) a batch.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import count, groupby
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit
from zlib import crc32

from dotr.errors.diagnostics import Diagnostic, DotrError, Severity, refuse
from dotr.evaluation.files.private_files import remove_leftovers, replace_file, without_links
from dotr.model import dataclass
from dotr.model.places import Span
from dotr.model.terms import Label
from dotr.streams.connectors.http.addresses import ListenAddress
from dotr.streams.connectors.serve.kept import PAGE, Keep, KeptElement, KeptElements
from dotr.streams.sinks.batches import BatchHistory
from dotr.streams.sinks.files import batch_file, sync_folder, write_errors

SERVE: Final = "serve"
"""The folder of the published streams in a checkpoint, with a folder for each, named by numbers."""

_STREAM: Final = "stream"
_SUFFIX: Final = ".page"
_PAGE: Final = re.compile(r"([0-9]{12,})\.page", re.ASCII)
_ANEW: Final = "the stream then begins anew with number 0, and should have another base, since its names have been given."


@dataclass(frozen=True, slots=True)
class StreamExtent:
    """The extent of a stream that is on the disk.

    - `base`: the beginning of the names of its elements.
    - `first`, `next`: the numbers of the first kept element and of the next one.
    - `open`: bytes of the lines in the page of the next element.
    - `batch`: the last batch with an element, `seen` the last batch; -1: none.
    - `identity`: that of the checkpoint; empty where an older release has stored none.
    - `of`: the labels of its elements, sorted; None: all events.
    """

    base: str
    first: int = 0
    next: int = 0
    open: int = 0
    batch: int = -1
    seen: int = -1
    identity: str = ""
    of: Sequence[Label] | None = None


class Damaged(DotrError):
    """Reason why a file cannot be read, phrased to follow its path."""


class KeptFiles:
    """The files of one stream: the `PageStore` of `KeptElements`.

    Parameters:
    - `folder`: that of the stream.
    - `state`: its extent.
    """

    def __init__(self, folder: Path, state: StreamExtent) -> None:
        self._folder = folder
        self.state = state

    @property
    def last_batch(self) -> int | None:
        """The number of the last batch with an element; None if there is none."""
        return None if self.state.batch < 0 else self.state.batch

    def write(self, batch: int | None, first: int, elements: Sequence[KeptElement], end: int) -> None:
        """Store the new elements of a batch; then remove the pages before the element `first`.

        Raises:
            WriteFailed: the disk is full or fails; the batch can be written again.
            Refused: the folder cannot be written.
        """
        state = self.state
        with write_errors(self._folder):
            length, is_new = state.open, False
            for number, page in groupby(elements, lambda each: each.number // PAGE):
                path = batch_file(str(self._folder), number, _SUFFIX).path
                is_new |= not path.exists()
                begin = state.open if number == state.next // PAGE else 0
                text = b"".join(map(_element_line, page))
                with open(without_links(str(path), os.O_WRONLY | os.O_CREAT), "wb") as file:
                    file.truncate(begin)
                    file.seek(begin)
                    file.write(text)
                    file.flush()
                    os.fsync(file.fileno())
                length = begin + len(text) if number == end // PAGE else 0
            if is_new:
                sync_folder(self._folder)
            state = replace(state, first=first, next=end, open=length)
            if batch is not None:
                state = replace(state, seen=batch, batch=batch if elements else state.batch)
            self.store(state)
        left = range(self.state.first // PAGE, first // PAGE)
        self.state = state
        for number in left:
            with suppress(OSError):  # a later start removes it
                batch_file(str(self._folder), number, _SUFFIX).path.unlink()

    def store(self, state: StreamExtent) -> None:
        """Write the file `stream`; raises OSError."""
        written = {
            "base": state.base,
            "first": state.first,
            "next": state.next,
            "open": state.open,
            "batch": state.batch,
            "seen": state.seen,
            "identity": state.identity,
            "of": state.of,
        }
        replace_file(self._folder / _STREAM, [_checked_line(json.dumps(written).encode())], sync=True)
        sync_folder(self._folder)

    def elements(self) -> Iterator[KeptElement]:
        """The kept elements; raises `Refused` (S114)."""
        for number in range(self.state.first // PAGE, -(-self.state.next // PAGE)):
            path = batch_file(str(self._folder), number, _SUFFIX).path
            try:
                yield from _page(path, number, self.state)
            except Damaged as damaged:
                raise _damage(self._folder, path, damaged) from None

    def remove_others(self) -> None:
        """Remove the files of a batch that was cut off, and of pages that have left; raises
        OSError."""
        remove_leftovers(self._folder)
        kept = range(self.state.first // PAGE, -(-self.state.next // PAGE))
        for name in os.listdir(self._folder):
            if (match := _PAGE.fullmatch(name)) is not None and int(match[1]) not in kept:
                (self._folder / name).unlink()


def stream_folders(root: Path, wanted: Sequence[StreamExtent], history: BatchHistory) -> list[Path]:
    """The folder of each published stream of a pipeline.

    Args:
        root: the folder `serve` of the checkpoint; it may be missing.
        wanted: `base` and `of` of each stream, in the order of the outputs.
        history: the batches of the checkpoint.

    Returns:
        The folder that has the same base; else one of a stream of the same labels that goes on
        until now and has lost its base; else a new one.

    >>> from tempfile import TemporaryDirectory
    >>> a, b, c = [StreamExtent(f"http://{name}/") for name in "abc"]
    >>> with TemporaryDirectory() as root:
    ...     for folder, extent in zip(stream_folders(Path(root), [a, b], BatchHistory("")), [a, b]):
    ...         _ = opened(folder, Keep(), extent, BatchHistory(""))
    ...     [[folder.name for folder in stream_folders(Path(root), extents, BatchHistory(""))] for extents in ([b, c], [c, a, b])]
    [['1', '0'], ['2', '0', '1']]
    """
    found = extents(root)
    known = {extent.base: name for name, extent in found.items()}
    bases = {each.base for each in wanted}
    left = [name for name, extent in found.items() if extent.base not in bases and extent.seen >= history.written - 1]
    folders = []
    for each in wanted:
        name = known.get(each.base) or next((name for name in left if found[name].of == each.of), "")
        if name in left:
            left.remove(name)
        # With the folders 0 and 1 a new stream has 2; with a damaged 0 and 1 it has 0, and is refused.
        name = name or next(str(number) for number in count() if str(number) not in found)
        found[name] = each
        folders.append(root / name)
    return folders


def extents(root: Path) -> dict[str, StreamExtent]:
    """The extents of the streams of a checkpoint by the names of their folders, without damaged
    ones. `root`: the folder `serve`, which may be missing."""
    found = {}
    for name in sorted(filter(str.isdecimal, os.listdir(root) if root.is_dir() else ()), key=int):
        with suppress(Damaged, FileNotFoundError):
            found[name] = _state(root / name / _STREAM)
    return found


def renewed(checkpoint: Path, base: str, span: Span | None) -> Iterator[Diagnostic]:
    """The warning (S161) where `--fresh` makes a stream anew under names that readers on other
    machines may have."""
    if any(each.base == base and each.next for each in extents(checkpoint / SERVE).values()):
        host = urlsplit(base).hostname or ""
        if not ListenAddress(host, 0, "").is_loopback:
            hint = f"Caches may keep the old ones for up to a year. Give the new stream another base, such as {base}2/."
            yield Diagnostic("S161", f"--fresh gives the names of the elements at {base} a second time", span, hint, Severity.WARNING)


def opened(folder: Path, keep: Keep, wanted: StreamExtent, history: BatchHistory) -> tuple[KeptElements, list[str]]:
    """Open the files of a stream, or begin them.

    Args:
        folder: that of the stream.
        keep: the limits of what is kept from now on.
        wanted: its `base` and `of` from now on.
        history: the batches of the checkpoint.

    Returns:
        The kept elements, which write to the files; what the user should know.

    Raises:
        WriteFailed: the disk is full or fails.
        Refused: the folder cannot be written (I202), it is damaged (S114), or it does not belong to
            the checkpoint (S160).
    """
    told, base = [], wanted.base
    path = folder / _STREAM
    with write_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
        try:
            state = _state(path)
        except FileNotFoundError:
            if any(map(_PAGE.fullmatch, os.listdir(folder))):
                raise _damage(folder, path, Damaged("is missing")) from None
            state = replace(wanted, seen=history.written - 1, identity=history.identity)
            if history.written:
                told.append(f"{base} begins with number 0: the checkpoint has {history.written} batches, and {folder} was not there.")
            KeptFiles(folder, state).store(state)
            sync_folder(folder.parent)
            sync_folder(folder.parent.parent)
        except Damaged as damaged:
            raise _damage(folder, path, damaged) from None
        if _is_of_another(state, history) or state.batch >= history.planned or state.seen < history.written - 1:
            raise _foreign(folder, state, history)
        if state.base != base:
            told.append(f"The elements of {state.base} are called {base}… from now on: they go on with number {state.next}.")
        renamed = replace(state, base=base, of=wanted.of, identity=history.identity)
        if renamed != state:
            state = renamed
            KeptFiles(folder, state).store(state)
        files = KeptFiles(folder, state)
        elements = KeptElements(keep, files.elements(), state.next, files)
        files.remove_others()
    return elements, told


def _element_line(element: KeptElement) -> bytes:
    number, time, ordinal, label, line = element
    return _checked_line(b"%d\t%d\t%d\t%s\t%s" % (number, time, ordinal, json.dumps(label).encode(), line))


def _checked_line(text: bytes) -> bytes:
    r"""A line with its checksum.

    >>> _checked_line(b"{}")
    b'a3a6bf43 {}\n'
    """
    return b"%08x %s\n" % (crc32(text), text)


def _checked(line: bytes) -> bytes:
    """The text of a line; raises `Damaged`."""
    if line[:9] != b"%08x " % crc32(line[9:]):
        raise Damaged("is cut or changed (it does not match its checksum)")
    return line[9:]


def _state(path: Path) -> StreamExtent:
    """The content of a file `stream`; raises `Damaged`, and FileNotFoundError where it is
    missing."""
    text = _read(path)
    members = json.loads(_checked(text.removesuffix(b"\n")))
    try:
        return StreamExtent(**members)
    except TypeError:
        raise Damaged("is of a later release") from None


def _page(path: Path, number: int, state: StreamExtent) -> Iterator[KeptElement]:
    """The elements of a page; raises `Damaged`."""
    is_open = number == state.next // PAGE
    try:
        text = _read(path)
    except FileNotFoundError:
        raise Damaged("is missing") from None
    if is_open:
        if len(text) < state.open:
            raise Damaged(f"is cut: it has {len(text):,} of {state.open:,} bytes")
        text = text[: state.open]
    lines = text.split(b"\n")
    if lines.pop() or len(lines) != (state.next % PAGE if is_open else PAGE):
        raise Damaged(f"is cut or changed: it has {len(lines)} lines")
    labels: dict[bytes, str] = {}
    for place, line in enumerate(lines):
        of, time, ordinal, written, rest = _checked(line).split(b"\t", 4)
        if int(of) != number * PAGE + place:
            raise Damaged(f"has element {int(of)} in line {place + 1}")
        label = labels.get(written) or labels.setdefault(written, json.loads(written))
        yield KeptElement(int(of), int(time), int(ordinal), label, rest)


def _read(path: Path) -> bytes:
    """The content of a file; raises `Damaged`, and FileNotFoundError where it is missing."""
    try:
        return path.read_bytes()
    except FileNotFoundError:
        raise
    except OSError as error:
        raise Damaged(f"cannot be read: {(error.strerror or str(error)).lower()}") from None


def _damage(folder: Path, path: Path, damaged: Damaged) -> Exception:
    hint = f"Put the checkpoint back from a copy; or remove {folder}: {_ANEW}"
    return refuse("S114", f"the checkpoint is damaged: {path} {damaged}", hint=hint)


def _is_of_another(state: StreamExtent, history: BatchHistory) -> bool:
    """True where the elements are of another checkpoint; one that was cut off at its first start has
    none."""
    return state.next > 0 and state.identity not in ("", history.identity)


def _foreign(folder: Path, state: StreamExtent, history: BatchHistory) -> Exception:
    hint = f"Put back {folder} and the checkpoint from one copy; or remove {folder}: {_ANEW}"
    why = f"it ends with batch {state.seen}, and the checkpoint with batch {history.written - 1}"
    if _is_of_another(state, history):
        why = "it was made with another checkpoint"
    elif state.batch >= history.planned:
        why = f"it has batch {state.batch}, which the checkpoint has not begun"
    return refuse("S160", f"the published stream in {folder} does not belong to the checkpoint: {why}", hint=hint)
