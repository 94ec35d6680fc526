"""Trees of reasons as text, JSON and Mermaid."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from enum import Enum
from typing import Final, TypeAlias

from dotr.model import dataclass

_LEAST_COLUMN: Final = 51
"""Minimum width of the texts before the column of places, which aligns most trees."""
_MOST_COLUMN: Final = 100
MOST_LEVELS: Final = 200
"""Maximum number of levels of a tree in JSON."""

JsonValue: TypeAlias = "str | int | float | bool | Sequence[JsonValue] | Mapping[str, JsonValue] | None"


def first_of(texts: Sequence[str], most: int) -> str:
    """A list of texts, of which the first ones are shown.

    >>> first_of(["a", "b"], 2), first_of(["a", "b", "c"], 2)
    ('a, b', 'a, b, …')
    """
    return ", ".join([*texts[:most], *["…"] * (len(texts) > most)])


def counted(number: int, noun: str) -> str:
    """A number with its noun.

    >>> counted(1, "anchor"), counted(1200, "event")
    ('1 anchor', '1,200 events')
    """
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


class ReasonKind(Enum):
    """The kind of a node of a tree of reasons; the value is its word in JSON."""

    EVENT = "event"
    ANCHOR = "anchor"
    CLAUSE = "clause"
    NEGATION = "negation"
    AGGREGATE = "aggregate"
    CONDITION = "condition"
    TRIPLE = "triple"
    PATH = "path"
    GROUP = "group"
    ABSENCE = "absence"
    MEMBER = "member"
    CONTRADICTION = "contradiction"
    SOLUTION = "solution"
    WINDOW = "window"
    MATCH = "match"
    ITEM = "item"
    REPORT = "report"


@dataclass(frozen=True, slots=True, eq=False)
class WhyTree:
    """A reason with the reasons below it.

    Attributes:
        kind: the kind of the node.
        text: the text of the reason, without its place.
        place: a file with its line, or the name of a rule; may be empty.
        children: the reasons below.
        details: further reasons below, shown only with a `depth`, such as the members of a group.
        fields: the parts of the text, for JSON.
    """

    kind: ReasonKind
    text: str
    place: str = ""
    children: tuple[WhyTree, ...] = ()
    details: tuple[WhyTree, ...] = ()
    fields: Mapping[str, JsonValue] = field(default_factory=dict)

    def lines(self, depth: int | None = None) -> list[str]:
        """The tree as lines of text.

        Args:
            depth: the number of levels below the first line; None: all, without details.

        >>> leaf = WhyTree(ReasonKind.TRIPLE, ":a :p :b", "kb.ttl")
        >>> tree = WhyTree(ReasonKind.TRIPLE, ":a :q :b", "kb.dlog:1", (leaf, leaf))
        >>> print(*tree.lines(), sep="\\n")
        :a :q :b                                             kb.dlog:1
        ├ :a :p :b                                           kb.ttl
        └ :a :p :b                                           kb.ttl
        >>> tree.lines(0)
        [':a :q :b                                             kb.dlog:1']
        """
        rows = list(self._rows(depth))
        texts = [len(text) for text, node in rows if node.place and node.kind is not ReasonKind.EVENT]
        column = max([_LEAST_COLUMN, *(length for length in texts if length <= _MOST_COLUMN)])
        return [
            f"{text:<{_LEAST_COLUMN if node.kind is ReasonKind.EVENT else column}}  {node.place}" if node.place else text
            for text, node in rows
        ]

    def _rows(self, depth: int | None) -> Iterator[tuple[str, WhyTree]]:
        """The nodes from the first to the last line, each with its text after the drawn branches."""
        pending: list[tuple[WhyTree, str, str, int]] = [(self, "", "", 0)]
        while pending:
            node, start, below, level = pending.pop()
            yield start + node.text, node
            children = node.below(None if depth is None else depth - level)
            for number, child in reversed(list(enumerate(children))):
                is_last = number == len(children) - 1
                pending.append((child, below + ("└ " if is_last else "├ "), below + ("  " if is_last else "│ "), level + 1))

    def below(self, depth: int | None) -> Sequence[WhyTree]:
        """The nodes below this one; `depth`: the number of further levels (None: all, no details)."""
        if depth is None:
            return self.children
        return (*self.children, *self.details) if depth > 0 else ()

    def to_json(self) -> dict[str, JsonValue]:
        """The tree as a JSON object with all details, cut at `MOST_LEVELS` levels, since parsers of
        JSON limit the depth.

        >>> WhyTree(ReasonKind.TRIPLE, ":a :p :b", "kb.ttl").to_json()
        {'kind': 'triple', 'text': ':a :p :b', 'place': 'kb.ttl'}
        """
        levels: list[list[WhyTree]] = [[self]]
        while levels[-1] and len(levels) < MOST_LEVELS:
            levels.append([child for node in levels[-1] for child in (*node.children, *node.details)])
        below: list[dict[str, JsonValue]] = []
        for level in reversed(levels):
            rest = iter(below)
            below = [node._json([each for _, each in zip((*node.children, *node.details), rest, strict=False)]) for node in level]
        return below[0]

    def _json(self, below: Sequence[JsonValue]) -> dict[str, JsonValue]:
        place: dict[str, JsonValue] = {"place": self.place} if self.place else {}
        because: dict[str, JsonValue] = {"because": below} if below else {}
        return {"kind": self.kind.value, "text": self.text, **place, **self.fields, **because}

    def to_mermaid(self, depth: int | None = None) -> str:
        """The tree as a flowchart of Mermaid, from the top down.

        >>> print(WhyTree(ReasonKind.TRIPLE, ':a :q "b"', "kb.dlog:1", (WhyTree(ReasonKind.TRIPLE, ":a :p :b", "kb.ttl"),)).to_mermaid())
        flowchart TD
          n0[":a :q #quot;b#quot;<br>kb.dlog:1"]
          n1[":a :p :b<br>kb.ttl"]
          n0 --> n1
        """
        lines = ["flowchart TD"]
        links: list[str] = []
        pending: list[tuple[WhyTree, int | None, int]] = [(self, None, 0)]
        number = 0
        while pending:
            node, above, level = pending.pop()
            label = "<br>".join(_label(text) for text in (node.text, node.place) if text)
            lines.append(f'  n{number}["{label}"]')
            if above is not None:
                links.append(f"  n{above} --> n{number}")
            pending += [(child, number, level + 1) for child in reversed(node.below(None if depth is None else depth - level))]
            number += 1
        return "\n".join(lines + links)


def _label(text: str) -> str:
    """The text of a node of Mermaid, with markup characters as entities."""
    return "".join(_ENTITIES.get(character, character) for character in text)


_ENTITIES: Final = {'"': "#quot;", "#": "#35;", "<": "#lt;", ">": "#gt;", "&": "#amp;", "`": "#96;", "\\": "#92;"}
