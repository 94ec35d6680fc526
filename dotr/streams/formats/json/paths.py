"""Paths to values in a JSON message: `temperature.value`, `parts[].n`, `"a.b"[2]`."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Final, TypeAlias

from dotr.streams.formats.maps import origin_cell

_NAME: Final = re.compile(r'[^.\[\]{}"^$\s][^.\[\]{}"]*')
_STRING: Final = re.compile(r'"(?:[^"\\]|\\.)*"')
_INDEX: Final = re.compile(r"\[([0-9]{0,9})\]")

Step: TypeAlias = str | int | None
"""A member's name, the index of an item, or None: each item of a list."""


@dataclass(frozen=True, slots=True)
class JsonPath:
    """A path from an item of `each`, or from the message (`from_message`).

    `sent`: the cell of the record's origin, such as `$key` or `$topic[1]`, if it is one; it then
    has no steps.
    """

    steps: tuple[Step, ...]
    from_message: bool = False
    sent: str = ""

    @property
    def lists(self) -> tuple[tuple[Step, ...], ...]:
        """The paths of the lists whose items the path goes through, the outermost first.

        >>> parse_path("parts[].sub[].m").lists
        (('parts', None), ('parts', None, 'sub', None))
        """
        return tuple(self.steps[: number + 1] for number, step in enumerate(self.steps) if step is None)


def parse_path(text: str) -> JsonPath:
    """The path that a text describes; raises ValueError with the reason.

    >>> parse_path('meta."at.utc"[2]').steps, parse_path("tags[]").steps, parse_path("^.id").from_message
    (('meta', 'at.utc', 2), ('tags', None), True)
    >>> parse_path("$header.unit").sent
    '$header.unit'
    >>> parse_path("a..b")
    Traceback (most recent call last):
    ValueError: a member's name is missing after a.
    """
    at, steps = 0, list[Step]()
    from_message = text.startswith("^.")
    if from_message:
        at = 2
    if text.startswith("$"):
        origin_cell(text)
        return JsonPath((), sent=text)
    while True:
        if quoted := _STRING.match(text, at):
            try:
                steps.append(str(json.loads(quoted[0])))
            except ValueError:
                raise ValueError(f"{quoted[0]} is no JSON string") from None
            at = quoted.end()
        elif name := _NAME.match(text, at):
            steps.append(name[0].rstrip())
            at = name.end()
        elif text.startswith("$", at):
            raise ValueError(f"{text[at:]} begins with $: write such a name in quotes, {json.dumps(text[at:].partition('.')[0])}")
        else:
            raise ValueError(f"a member's name is missing {f'after {text[:at]}' if at else 'at the start'}")
        while index := _INDEX.match(text, at):
            steps.append(int(index[1]) if index[1] else None)
            at = index.end()
        if at == len(text):
            return JsonPath(tuple(steps), from_message)
        if text[at] != ".":
            raise ValueError(f"{text[at:]!r} is no part of a path: write a.b, a[0] or a[]")
        at += 1
