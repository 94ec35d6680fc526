"""Bodies of requests: bounded, decompressed, and cut into messages.

Idea: each line of NDJSON is a message, and so is each line of JSON or JSON-LD whose content type is
one of lines; any other body is one message. Reading ends at the limit, which counts decompressed
bytes.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import Final

from dotr.errors.diagnostics import DotrError
from dotr.streams.formats.messages import check_content_type, is_any_content
from dotr.streams.records import Format

MOST_LINES: Final = 100_000
"""Limit of the messages of one body."""

_LINE_TYPES: Final = (
    "application/x-ndjson",
    "application/ndjson",
    "application/jsonl",
    "application/x-jsonlines",
    "application/x-ld+ndjson",
)
_ALWAYS_LINES: Final = (Format.NDJSON,)
_LINES_BY_TYPE: Final = (Format.JSON, Format.JSONLD)
_USUAL: Final = {
    Format.NDJSON: "application/x-ndjson",
    Format.JSON: "application/json",
    Format.CSV: "text/csv",
    Format.TURTLE: "text/turtle",
    Format.NTRIPLES: "application/n-triples",
    Format.TRIG: "application/trig",
    Format.NQUADS: "application/n-quads",
    Format.JSONLD: "application/ld+json",
}
"""The media type of each format."""

_GZIP: Final = 31
"""`wbits` of zlib for gzip."""


class BodyTooLong(DotrError, ValueError):
    """A body beyond its limit of bytes or lines."""


class BodyBytes:
    """Bytes of a body, added piece by piece, decompressed and bounded.

    >>> import gzip
    >>> body = BodyBytes(limit=10, is_gzip=True)
    >>> packed = gzip.compress(b"hello ") + gzip.compress(b"you")
    >>> body.add(packed[:7]); body.add(packed[7:]); body.end()
    b'hello you'
    >>> body.add(gzip.compress(bytes(1_000_000)))
    Traceback (most recent call last):
    dotr.streams.connectors.http.http_bodies.BodyTooLong: it has more than 10 bytes
    """

    def __init__(self, limit: int, *, is_gzip: bool = False) -> None:
        self._limit = limit
        self._pieces: list[bytes] = []
        self.size = 0
        self._is_gzip = is_gzip
        self._unpack = zlib.decompressobj(_GZIP) if is_gzip else None

    def add(self, piece: bytes) -> None:
        """Add a piece; raises BodyTooLong, or ValueError where it is not gzip."""
        if not self._is_gzip:
            self._keep(piece)
            return
        try:
            while piece:
                if self._unpack is None or self._unpack.eof:  # a further member
                    self._unpack = zlib.decompressobj(_GZIP)
                self._keep(self._unpack.decompress(piece, self._limit - self.size + 1))
                piece = self._unpack.unused_data
        except zlib.error:
            raise ValueError("it is no gzip") from None

    def _keep(self, piece: bytes) -> None:
        self.size += len(piece)
        if self.size > self._limit:
            raise BodyTooLong(f"it has more than {self._limit:,} bytes")
        self._pieces.append(piece)

    def end(self) -> bytes:
        """The whole body; raises ValueError where gzip data is cut off."""
        if self._unpack is not None and not self._unpack.eof and self.size + len(self._pieces):
            raise ValueError("its gzip data is cut off")
        return b"".join(self._pieces)


def is_lines(content_type: str, form: Format, *, exact: bool = False) -> bool:
    """True if each line of a body is a message; raises ValueError where the content type is that of
    another format, or, if `exact`, not one of the format.

    >>> is_lines("application/json", Format.NDJSON), is_lines("application/x-ndjson", Format.JSON), is_lines("", Format.JSON)
    (True, True, False)
    >>> is_lines("text/plain", Format.NDJSON, exact=True)
    Traceback (most recent call last):
    ValueError: its content-type, text/plain, does not fit the format ndjson: send it as application/x-ndjson
    """
    if exact and is_any_content(content_type):
        written = content_type.partition(";")[0].strip()[:100]
        found = f"its content-type, {written}, does not fit the format {form.value}" if written else "it has no content-type"
        raise ValueError(f"{found}: send it as {_USUAL[form]}")
    if form in _LINES_BY_TYPE and content_type.partition(";")[0].strip().lower() in _LINE_TYPES:
        return True
    try:
        check_content_type("content-type", content_type.encode("utf-8", "replace"), form)
    except ValueError as error:
        raise ValueError(f"{error}: send it as {_USUAL[form]}") from None
    return form in _ALWAYS_LINES


def lines_of(body: bytes) -> Sequence[bytes]:
    r"""The lines of a body that are not blank; raises BodyTooLong where there are too many.

    >>> lines_of(b'{"a": 1}\r\n\n{"a": 2}')
    [b'{"a": 1}\r', b'{"a": 2}']
    """
    if body.count(b"\n") > MOST_LINES:
        raise BodyTooLong(f"it has more than {MOST_LINES:,} lines")
    return [line for line in body.split(b"\n") if line.strip()]
