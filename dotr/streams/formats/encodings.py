"""Encodings of files: UTF-8, extensions of ASCII with one byte a character, and UTF-16."""

from __future__ import annotations

import codecs
from typing import Final

from dotr.streams.records import WIDE

_ASCII: Final = bytes(range(128))


def encoding_name(name: str) -> str:
    """The name of the codec of an encoding; raises ValueError where files cannot have it.

    A file is cut into lines before it is decoded, so the encoding must contain ASCII unchanged and,
    except for UTF-8, have one byte a character; UTF-16 is recoded.

    >>> encoding_name("UTF8"), encoding_name("Latin-1"), encoding_name("windows-1252"), encoding_name("UTF-16")
    ('utf-8', 'iso8859-1', 'cp1252', 'utf-16')
    >>> encoding_name("utf-32")
    Traceback (most recent call last):
    ValueError: utf-32 has characters of several bytes: save the file as UTF-8
    >>> encoding_name("latin-x")
    Traceback (most recent call last):
    ValueError: there is no encoding latin-x; common ones are utf-8, latin-1 and windows-1252
    """
    try:
        codec = codecs.lookup(name).name
        text = _ASCII.decode(codec, "replace")
    except (LookupError, ValueError):
        raise ValueError(f"there is no encoding {name}; common ones are utf-8, latin-1 and windows-1252") from None
    if codec != "utf-8" and codec not in WIDE and (text != _ASCII.decode() or not _has_one_byte_each(codec)):
        raise ValueError(f"{name} has characters of several bytes: save the file as UTF-8")
    return codec


def _has_one_byte_each(codec: str) -> bool:
    """True if each byte is one character, independent of the next byte."""
    return all(len(bytes([byte, 0x40]).decode(codec, "replace")) == 2 for byte in range(256))
