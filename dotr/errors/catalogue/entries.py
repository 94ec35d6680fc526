"""What the table of codes is made of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, TypeAlias

RULE: Final = "PREFIX : <http://example.org/>\ndefine E = [ [] a :E ] from A = [ SELECT ?x WHERE { ?x a :A } ]\n"
"""A rule file without problems, for examples that need one; the page does not show it."""


@dataclass(frozen=True, slots=True)
class GoldenFile:
    """A file of `tests/errors`, with its messages beside it."""

    name: str


@dataclass(frozen=True, slots=True)
class InQuery:
    """A text between the brackets of a query."""

    text: str


@dataclass(frozen=True, slots=True)
class InCondition:
    """A text behind `if`."""

    text: str


@dataclass(frozen=True, slots=True)
class InTemplate:
    """A text between the brackets of `define`; with `cells`, the `map` of a CSV input."""

    text: str
    cells: bool = False


@dataclass(frozen=True, slots=True)
class InFiles:
    """Files, each a name and a text; `dotr check` of the first says what is wrong."""

    files: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class ShownMessage:
    """A message that needs a machine in a certain state: as it reads, and no more."""

    text: str


Example: TypeAlias = GoldenFile | InQuery | InCondition | InTemplate | InFiles | ShownMessage


@dataclass(frozen=True, slots=True)
class ErrorCode:
    """A code: what it is called, when it is given, what to do, and an example."""

    code: str
    title: str
    meaning: str
    remedy: str
    example: Example
