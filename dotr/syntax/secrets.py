"""Secrets of a configuration: passwords, tokens and keys, by the environment variables that hold
them.

Invariant: no object of a configuration contains the value of a secret, so no message, log,
checkpoint or task does. They contain `${NAME}`, and the process that needs the value reads its own
environment.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, Final
from urllib.parse import quote

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic_core import CoreSchema, core_schema

from dotr.errors.diagnostics import refuse
from dotr.evaluation.files.environment import VARIABLE, value_of

_SECTIONS: Final = frozenset(("input", "output", "dead_letter", "storage"))
_SECRET_KEY: Final = re.compile(
    r"(?:.*[._-])?(?:password|passphrase|secret|tokens?|pem|jaas\.config)|.*(?:secret|account)[._-]?key(?:\..*)?", re.IGNORECASE
)
_TOKEN: Final = re.compile(r"[\x21-\x7e]+")
_IN_PASSWORD: Final = "%!$&'()*+,;=:"
"""Characters that a password in a URL may have as they are; `%` begins an escape."""

_USER_INFORMATION: Final = re.compile(r"://[^/?#@:\s]*:([^/?#\s]*)@")


_URL: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://[^/?#@:\s]*:[^/?#\s]*@")


class Secret:
    """A secret, by the environment variable that holds the value.

    >>> import os
    >>> password = Secret("${KAFKA_PASSWORD}")
    >>> password
    Secret('${KAFKA_PASSWORD}')
    >>> os.environ["KAFKA_PASSWORD"] = "x7"
    >>> password.reveal()
    'x7'
    """

    __slots__ = ("text",)

    def __init__(self, text: str) -> None:
        """`text` is `${NAME}`; raises ValueError, whose message does not contain the text."""
        if not VARIABLE.fullmatch(text):
            raise ValueError("a secret is written as ${NAME}, the environment variable that holds the value")
        self.text = text

    @property
    def variable(self) -> str:
        """The name of the environment variable."""
        return self.text[2:-1]

    def reveal(self) -> str:
        """The value in the environment of this process; raises `Refused` (S124) if it is unset."""
        return value_of(self.variable)

    def reveal_token(self) -> str:
        """The value as a token that a header can carry; raises `Refused` (S124) if it is unset,
        empty, or has white space or characters beyond ASCII."""
        value = self.reveal()
        if not _TOKEN.fullmatch(value):
            message = f"the variable {self.variable} holds no token: it is empty, or has white space or characters that no header carries"
            raise refuse("S124", message, None, f"Write the token alone into {self.variable}, without quotes or a line end.")
        return value

    def __repr__(self) -> str:
        return f"Secret({self.text!r})"

    def __str__(self) -> str:
        return self.text

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and self.text == other.text

    def __hash__(self) -> int:
        return hash(self.text)

    @classmethod
    def __get_pydantic_core_schema__(cls, source: object, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_plain_validator_function(_secret_of, serialization=core_schema.to_string_ser_schema())

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        return {"type": "string", "pattern": f"^{VARIABLE.pattern}$"}


def _secret_of(value: object) -> Secret:
    if isinstance(value, Secret):
        return value
    if not isinstance(value, str):
        raise ValueError("a secret is written as ${NAME}, the environment variable that holds the value")
    return Secret(value)


def reveal_url(url: str) -> str:
    """A URL with the value of its password; raises `Refused` (S124) where the environment lacks it.

    Characters that would end the password are percent-encoded.

    >>> import os
    >>> os.environ["BROKER_PASSWORD"] = "x/7@%40"
    >>> reveal_url("mqtts://dotr:${BROKER_PASSWORD}@b:8883"), reveal_url("http://localhost/in")
    ('mqtts://dotr:x%2F7%40%40@b:8883', 'http://localhost/in')
    """
    found = _USER_INFORMATION.search(url)
    variable = VARIABLE.fullmatch(found[1]) if found else None
    if found is None or variable is None:
        return url
    return url[: found.start(1)] + quote(value_of(variable[1]), safe=_IN_PASSWORD) + url[found.end(1) :]


def is_secret(location: Iterable[str | int]) -> bool:
    """True if the value at a location of a configuration is a secret.

    >>> is_secret(("input", 0, "kafka", "sasl.password")), is_secret(("output", 1, "http", "tokens", 0)), is_secret(("name",))
    (True, True, False)
    """
    section, *keys = location
    texts = [key for key in keys if isinstance(key, str)]
    return section in _SECTIONS and any(_SECRET_KEY.fullmatch(key) or (section == "storage" and key.endswith("_key")) for key in texts)


def secret_ranges(location: Iterable[str | int], text: str) -> list[tuple[int, int]]:
    """The secret ranges [start, end) of a value: all of a secret, or the password of a URL.

    >>> secret_ranges(("input", 0, "mqtt", "url"), "mqtt://a:b@c")
    [(9, 10)]
    """
    keys = tuple(location)
    if not keys or (keys[0] not in _SECTIONS and not _URL.match(text)):
        return []
    if is_secret(keys):
        return [(0, len(text))]
    return [found.span(1) for found in _USER_INFORMATION.finditer(text) if found[1]]


def is_variable(text: str) -> bool:
    """True for `${NAME}`, an environment variable without a default.

    >>> is_variable("${A}"), is_variable("${A:-b}"), is_variable("a${A}")
    (True, False, False)
    """
    return VARIABLE.fullmatch(text) is not None
