"""Removal of secrets from texts of a server, which may repeat what it was sent: a token, a password,
the query of the URL.

Idea: a secret is found in the escapes of JSON, HTML and URLs too, in either case of its letters,
and with white space between its characters, since a server may escape, fold or wrap what it
repeats.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Final
from urllib.parse import quote

MASK: Final = "***"

_NAMED: Final = {'"': "quot", "&": "amp", "'": "apos", "<": "lt", ">": "gt"}
_BETWEEN: Final = r"[\s\0\ufffd]*"
"""Pattern of the text that may stand between two characters: white space, or what is left of UTF-16."""


class Redaction:
    r"""Function that replaces secrets in a text by `***`.

    - `secrets`: the secrets; empty ones are ignored.

    >>> redacted = Redaction(['s3"cret/1', ""])
    >>> redacted('{"got": "Bearer s3\\"cret\\/1"}, S3%22cret%2f1, s3&quot;cret&#47;1, s3 cret')
    '{"got": "Bearer ***"}, ***, ***, s3 cret'
    """

    def __init__(self, secrets: Iterable[str]) -> None:
        given = sorted(filter(None, set(secrets)), key=lambda secret: (-len(secret), secret))
        self._pattern = re.compile("|".join(map(_pattern_of, given)), re.IGNORECASE) if given else None

    def __call__(self, text: str) -> str:
        """The text without the secrets."""
        return text if self._pattern is None else self._pattern.sub(MASK, text)


def _pattern_of(secret: str) -> str:
    return _BETWEEN.join(map(_forms_of, secret))


def _forms_of(character: str) -> str:
    """A pattern of all forms of a character."""
    code, utf_8 = ord(character), quote(character, safe="") if not character.isascii() else f"%{ord(character):02x}"
    literal = [character, f"\\{character}", utf_8, utf_8.replace("%", "%25"), json.dumps(character)[1:-1]]
    forms = [*map(re.escape, literal), f"&#0*{code};?", f"&#x0*{code:x};?", rf"\\u0*{code:x}", rf"\\x{code:02x}"]
    if character in _NAMED:
        forms.append(f"&{_NAMED[character]};?")
    if character == " ":
        forms.append(r"\+")
    return f"(?:{'|'.join(dict.fromkeys(forms))})"
