"""Narratives: a sentence, its place, and the sentences below it, as lines of text and as JSON.

Every answer to why not is a narrative. The sentences of the text and the parts of the JSON differ,
so a sentence has both: parts that are narratives themselves are written as their own parts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from typing import Final, TypeAlias

from dotr.explanations.text.tree import JsonValue
from dotr.model import dataclass

_MARGIN: Final = 90
"""The column of places."""

NarrativePart: TypeAlias = "str | int | float | bool | Narrative | Sequence[NarrativePart] | Mapping[str, NarrativePart] | None"


@dataclass(frozen=True, slots=True)
class Narrative:
    """A sentence with the sentences below it.

    Attributes:
        text: the sentence; empty: only the sentences below are shown.
        below: the sentences below, indented by two more columns.
        parts: the parts of the sentence for JSON, in their order.
        place: a place in a file, in the margin of the line; may be empty.

    >>> leaf = Narrative("b of 2 is false", place="r.dotr:3:1")
    >>> print(*Narrative("R: 1 anchor", (leaf, Narrative(below=(Narrative("deeper"),)))).lines(), sep="\\n")
    R: 1 anchor
      b of 2 is false                                                                         r.dotr:3:1
        deeper
    >>> Narrative("a", parts={"name": "a", "leaves": (Narrative("b", parts={"name": "b"}),)}).to_json()
    {'name': 'a', 'leaves': [{'name': 'b'}]}
    """

    text: str = ""
    below: tuple[Narrative, ...] = ()
    parts: Mapping[str, NarrativePart] = field(default_factory=dict)
    place: str = ""

    def lines(self, indent: str = "") -> list[str]:
        """The sentences as lines."""
        line = f"{indent}{self.text}"
        own = [f"{line.ljust(_MARGIN - 2)}  {self.place}" if self.place else line] if self.text else []
        return own + [each for narrative in self.below for each in narrative.lines(f"{indent}  ")]

    def to_json(self) -> dict[str, JsonValue]:
        """The parts as a JSON object."""
        return {name: _json(part) for name, part in self.parts.items()}


def _json(part: NarrativePart) -> JsonValue:
    match part:
        case Narrative():
            return part.to_json()
        case Mapping():
            return {name: _json(each) for name, each in part.items()}
        case None | str() | int() | float():
            return part
        case _:
            return [_json(each) for each in part]


def sentences(texts: Iterable[str]) -> tuple[Narrative, ...]:
    """A narrative for each sentence."""
    return tuple(map(Narrative, texts))


@dataclass(frozen=True, slots=True)
class WhyNot:
    """The answer to why not, for one replay.

    Attributes:
        case: the case of a rule test; empty otherwise.
        fired: True if there is a requested event, or if the triple holds.
        told: the answer; its first sentence has the counts.
    """

    case: str
    fired: bool
    told: Narrative

    @staticmethod
    def of(case: str, rule: str, fired: bool, head: str, below: tuple[Narrative, ...], /, **parts: NarrativePart) -> WhyNot:
        """The answer for a rule, or for the label of a unit."""
        return WhyNot(case, fired, Narrative(head, below, {"rule": rule, "case": case or None, "fired": fired, **parts}))

    def lines(self) -> list[str]:
        """The answer as lines of text."""
        return self.told.lines()

    def to_json(self) -> dict[str, JsonValue]:
        """The answer as a JSON object."""
        return self.told.to_json()
