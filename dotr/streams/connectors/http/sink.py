"""Sinks that post batches: each is the body of one request, which is repeated until it is accepted.

Idea: a body is a function of its firings, and its idempotency key a function of pipeline, output
and batch. A repeated batch is therefore the same request, which a server recognises by the key.
Bodies beyond a few megabytes are stored in a temporary file.
Guarantee: each batch is accepted at least once, and in order. A batch without a firing is not sent.
"""

from __future__ import annotations

import logging
import secrets
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import IO, Final, Self
from urllib.parse import quote

from dotr.model.stream import DeadLetter, Firing
from dotr.streams.connectors.http.addresses import HttpDestination
from dotr.streams.connectors.http.http_client import ACCEPTED, ConnectionLost, NeverAccepted, PostClient
from dotr.streams.formats.writing import StreamFormat
from dotr.streams.sinks.batches import Check
from dotr.streams.sinks.events import OutputTerms
from dotr.streams.sinks.files import WriteFailed

LOG: Final = logging.getLogger("dotr")

_LONGEST_WAIT: Final = 60.0
_POLL_SECONDS: Final = 0.2
_IN_MEMORY: Final = 4 << 20
_TOO_MANY: Final = 429
_FAULTS: Final = range(500, 600)


def idempotency_key(pipeline: str, output: int, batch: str) -> str:
    """Idempotency key of a request; the pipeline's name is percent-encoded.

    >>> idempotency_key("fire alarm/1", 0, "17")
    'fire%20alarm%2F1/0/17'
    """
    return f"{quote(pipeline, safe='')}/{output}/{batch}"


class _Poster:
    """Sender of bodies, each repeated until it is accepted. A body in JSON-LD is an array of its
    documents."""

    def __init__(self, destination: HttpDestination, form: StreamFormat, terms: OutputTerms, run: str) -> None:
        self._shown = destination.shown
        self._is_array = form is StreamFormat.JSONLD
        token = "" if destination.token is None else destination.token()
        self._client = PostClient(destination.url(), token, destination.ca)
        self._pipeline = terms.pipeline
        self._number = destination.number
        charset = "; charset=utf-8" if form is StreamFormat.CSV else ""
        self._headers = {"Content-Type": form.media_type + charset, **({"dotr-run": run} if run else {})}

    def add(self, body: IO[bytes], data: bytes) -> None:
        """Add the bytes of a block to a body; raises OSError."""
        if self._is_array and data:
            data = (b",\n" if body.tell() else b"[") + data[:-1].replace(b"\n", b",\n")  # a document is a line
        body.write(data)

    def post(self, body: IO[bytes], batch: str, check: Check) -> None:
        """Post a body until it is accepted; raises WriteFailed for a permanent error, and what
        `check` raises.
        """
        if self._is_array:
            body.write(b"]\n")
        length = body.tell()
        headers = {**self._headers, "Idempotency-Key": idempotency_key(self._pipeline, self._number, batch)}
        wait, is_logged = 1.0, False
        while True:
            try:
                status, text, least = self._client.post(body, length, headers, check)
                if status in ACCEPTED:
                    break
                why = f"it answers {status}" + (f": {text}" if text else "")
                if status != _TOO_MANY and status not in _FAULTS:
                    raise WriteFailed(f"{self._shown} does not accept batch {batch}: {why}")
            except ConnectionLost as error:
                why, least = str(error), 0.0
            except NeverAccepted as error:
                raise WriteFailed(f"{self._shown} does not accept batch {batch}: {error}") from None
            if not is_logged:
                LOG.warning("%s does not accept batch %s now (%s): it is sent again until it does.", self._shown, batch, why)
                is_logged = True
            _wait(max(wait, min(least, _LONGEST_WAIT)), check)
            wait = min(2 * wait, _LONGEST_WAIT)
        if is_logged:
            LOG.warning("%s has accepted batch %s.", self._shown, batch)

    def close(self) -> None:
        self._client.close()


def _wait(seconds: float, check: Check) -> None:
    end = time.monotonic() + seconds
    while (left := end - time.monotonic()) > 0:
        check()
        time.sleep(min(left, _POLL_SECONDS))
    check()


@contextmanager
def _body() -> Iterator[IO[bytes]]:
    """Context with a temporary body; raises WriteFailed where it cannot be written."""
    try:
        with tempfile.SpooledTemporaryFile(_IN_MEMORY) as body:
            yield body
    except OSError as error:
        raise WriteFailed(f"cannot write {tempfile.gettempdir()}: {(error.strerror or str(error)).lower()}") from None


class PostedBatches:
    """A URL as a `BatchSink`; `run` is the ID of the checkpoint, sent as header `dotr-run`."""

    def __init__(self, destination: HttpDestination, form: StreamFormat, terms: OutputTerms, run: str) -> None:
        self._destination = destination
        self._form = form
        self._terms = terms
        self._run = run
        self._poster: _Poster | None = None

    def open(self, check: Check) -> int | None:
        """Returns None, as the server recognises a repeated batch by its key. Raises `Refused`."""
        self._poster = _Poster(self._destination, self._form, self._terms, self._run)
        return None

    def write_batch(self, number: int, blocks: Iterable[Sequence[Firing]], check: Check) -> Sequence[DeadLetter]:
        """Post a batch; returns no dead letters, once it is accepted."""
        assert self._poster is not None, "it is open"
        write = self._terms.writer(self._form)
        with _body() as body:
            for block in blocks:
                self._poster.add(body, write(block))
            if body.tell():
                self._poster.post(body, str(number), check)
        return ()

    def close(self) -> None:
        """End the connection."""
        if self._poster is not None:
            self._poster.close()


class PostedEvents:
    """A URL as a `RunSink`. A batch is an instant with a firing; its number is the time of the
    instant in µs since 1970, the same in every run. `check` is called while the server accepts no
    batch.
    """

    def __init__(self, destination: HttpDestination, form: StreamFormat, terms: OutputTerms, check: Check) -> None:
        self._poster = _Poster(destination, form, terms, secrets.token_hex(8))
        self._shown = destination.shown
        self._check = check
        self._form = form
        self._terms = terms
        self._write = terms.writer(form)
        self._body: IO[bytes] | None = None
        self._time = 0
        self._last: tuple[int, int] = (0, 0)

    def write_items(self, items: Sequence[Firing]) -> None:
        """Add firings of instants, in order; an instant is posted when a later one begins."""
        start = 0
        while start < len(items):
            time = items[start].time
            end = start + 1
            while end < len(items) and items[end].time == time:
                end += 1
            if self._body is not None and self._time != time:
                self.flush()
            if self._body is None:
                self._body, self._time = tempfile.SpooledTemporaryFile(_IN_MEMORY), time  # noqa: SIM115 (`flush` closes it)
                self._write = self._terms.writer(self._form)
            try:
                self._poster.add(self._body, self._write(items[start:end]))
            except OSError as error:
                raise WriteFailed(f"cannot write {tempfile.gettempdir()}: {(error.strerror or str(error)).lower()}") from None
            start = end

    def flush(self) -> None:
        """Post the buffered instant, until it is accepted."""
        body, self._body = self._body, None
        if body is None:
            return
        with body:
            before, parts = self._last
            parts = parts + 1 if parts and before == self._time else 1
            self._last = self._time, parts
            # later parts of an instant, behind a flush within it, have keys of their own
            batch = str(self._time) if parts == 1 else f"{self._time}-{parts}"
            try:
                self._poster.post(body, batch, self._check)
            except KeyboardInterrupt:
                raise WriteFailed(f"stopped before {self._shown} accepted batch {batch}") from None

    def mark(self) -> int | None:
        """Returns None: posted batches cannot be withdrawn."""
        return None

    def truncate(self, mark: int, /) -> None:
        """Never called: there are no marks."""
        raise AssertionError("nothing can be taken back")

    def discard(self) -> None:
        """End the connection."""
        self._poster.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None, /) -> None:
        try:
            if not isinstance(error, WriteFailed | KeyboardInterrupt):
                self.flush()
        finally:
            if self._body is not None:
                self._body.close()
            self._poster.close()
