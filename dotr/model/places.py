"""Documents, and spans of their text: the places of parsed values for error messages."""

from __future__ import annotations

from dotr.model import dataclass


@dataclass(frozen=True, slots=True)
class Document:
    """A text and its name in messages (a path as the user wrote it)."""

    name: str
    text: str


@dataclass(frozen=True, slots=True)
class Span:
    """A range of a document: offsets of its first character and of the character after its last.

    >>> Span(Document("fire.dotr", "rule R\\ndefine"), 7, 13).line_column
    (2, 1)
    """

    document: Document
    start: int
    end: int

    @property
    def line_column(self) -> tuple[int, int]:
        """Line and column of the start, both counted from 1."""
        before = self.document.text[: self.start]
        return before.count("\n") + 1, self.start - (before.rfind("\n") + 1) + 1

    @property
    def file_line(self) -> str:
        """The name of the document and the line of the start.

        >>> Span(Document("fire.dotr", "rule R\\ndefine"), 7, 13).file_line
        'fire.dotr:2'
        """
        return f"{self.document.name}:{self.line_column[0]}"

    @property
    def text(self) -> str:
        """The text of the range."""
        return self.document.text[self.start : self.end]

    def contains(self, other: Span) -> bool:
        """True if another span lies within this one, in the same document.

        >>> rule = Document("fire.dotr", "rule R define")
        >>> Span(rule, 0, 13).contains(Span(rule, 5, 6)), Span(rule, 0, 6).contains(Span(rule, 5, 7))
        (True, False)
        """
        return self.document == other.document and self.start <= other.start and other.end <= self.end
