"""Entries of the catalogue of codes, and the kinds of their examples."""

from __future__ import annotations

from typing import Final, TypeAlias

from dotr.model import dataclass

RULE: Final = "PREFIX : <http://example.org/>\ndefine E = [ [] a :E ] from A = [ SELECT ?x WHERE { ?x a :A } ]\n"
"""A rule file without problems, for examples that need one; the page omits it."""


@dataclass(frozen=True, slots=True)
class GoldenFile:
    """A file of `tests/errors`; its messages are in the `.txt` file beside it."""

    name: str


@dataclass(frozen=True, slots=True)
class InQuery:
    """The text between the brackets of a query."""

    text: str


@dataclass(frozen=True, slots=True)
class InCondition:
    """The text after `if`."""

    text: str


@dataclass(frozen=True, slots=True)
class InTemplate:
    """The text between the brackets of `define`, or (`cells`) the `map` of a CSV input."""

    text: str
    cells: bool = False


@dataclass(frozen=True, slots=True)
class InFiles:
    """Files as (name, text); the example is `dotr check` of the first."""

    files: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class ShownMessage:
    """A fixed message, for a code that needs a machine in a certain state."""

    text: str


Example: TypeAlias = GoldenFile | InQuery | InCondition | InTemplate | InFiles | ShownMessage


@dataclass(frozen=True, slots=True)
class ErrorCode:
    """A code with its title, meaning, remedy and example."""

    code: str
    title: str
    meaning: str
    remedy: str
    example: Example
