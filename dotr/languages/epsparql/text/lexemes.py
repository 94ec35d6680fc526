"""Cursor over the lexemes of one unit, with spans of brackets and of the parts of a chain."""

from __future__ import annotations

from typing import Final

from dotr.errors.diagnostics import Diagnostic
from dotr.languages.epsparql.text.keywords import TEMPORAL
from dotr.model import dataclass
from dotr.model.places import Span
from dotr.syntax.cursor import Cursor, UnreadablePart, clipped
from dotr.syntax.sparql.tokens import MAX_OPEN_BRACKETS, Lexeme

__all__ = ["TemporalWord", "UnitCursor", "UnreadablePart", "clipped"]

_CLOSING: Final = {"{": "}", "(": ")", "[": "]", "<<(": ")>>", "<<": ">>", "{|": "|}"}
_PLAIN_ONLY: Final = ("OPTIONAL", "MINUS", "EXISTS", "SELECT")


@dataclass(frozen=True, slots=True)
class TemporalWord:
    """An operator, EVENT or WITHIN in a group.

    `inside`: the innermost OPTIONAL, MINUS, EXISTS or SELECT around it in the group; may be empty.
    """

    lexeme: Lexeme
    inside: str


class UnitCursor(Cursor):
    """A position in the lexemes of one unit."""

    __slots__ = ()

    def part(self, first: int, end: int) -> UnitCursor:
        """A cursor over `lexemes[first:end]`, with the same scan and positions."""
        return UnitCursor(self.scan, self.lexemes, first, end, self.syntax_code)

    def unexpected(self, expected: str, hint: str = "") -> UnreadablePart:
        """The error of the next lexeme, for the caller to raise."""
        found = self.here
        shown = f"found {clipped(found.text)}" if found.text else "the text ends"
        if not found.text and self.position < len(self.lexemes):
            shown = f"found {clipped(self.lexemes[self.position].text)}"
            found = self.lexemes[self.position]
        return UnreadablePart(Diagnostic(self.syntax_code, f"expected {expected}, {shown}", self.span_of(found), hint))

    def closing(self, opened: int) -> int:
        """The position of the bracket that closes the one at `opened`.

        Raises `UnreadablePart` where brackets do not match.
        """
        open_: list[str] = []
        for index in range(opened, self.end):
            lexeme = self.lexemes[index]
            if lexeme.group not in ("mark", "quote"):
                continue
            if lexeme.text in _CLOSING:
                open_.append(lexeme.text)
                if len(open_) > MAX_OPEN_BRACKETS:
                    hint = "Split it: EVENT reads what another unit makes."
                    message = f"more than {MAX_OPEN_BRACKETS} brackets are open here"
                    raise UnreadablePart(Diagnostic("Q117", message, self.span_of(lexeme), hint))
            elif lexeme.text in _CLOSING.values():
                if _CLOSING[open_[-1]] != lexeme.text:
                    message = f"{lexeme.text} closes nothing; the {open_[-1]} before it is open"
                    raise UnreadablePart(Diagnostic("Q102", message, self.span_of(lexeme)))
                open_.pop()
                if not open_:
                    return index
        lexeme = self.lexemes[opened]
        raise UnreadablePart(Diagnostic("Q102", f"{lexeme.text} is never closed", self.span_of(lexeme), f"Add a {_CLOSING[lexeme.text]}."))

    def temporal_words(self, first: int, end: int) -> list[TemporalWord]:
        """The temporal words of `lexemes[first:end]`, except those directly in round brackets."""
        found: list[TemporalWord] = []
        # Open brackets, each with its `TemporalWord.inside`: `{ OPTIONAL { ( `: ("{", "OPTIONAL"), ("(", "OPTIONAL").
        around: list[tuple[str, str]] = []
        for index in range(first, end):
            lexeme = self.lexemes[index]
            word = lexeme.text.upper() if lexeme.group == "word" else ""
            inside = around[-1][1] if around else ""
            if word in TEMPORAL and (not around or around[-1][0] == "{"):
                found.append(TemporalWord(lexeme, inside))
            elif word == "SELECT" and around:
                around[-1] = (around[-1][0], "SELECT")
            elif lexeme.group in ("mark", "quote") and lexeme.text in _CLOSING:
                before = self.lexemes[index - 1].text.upper() if index else ""
                around.append((lexeme.text, before if lexeme.text == "{" and before in _PLAIN_ONLY else inside))
            elif lexeme.group in ("mark", "quote") and lexeme.text in _CLOSING.values() and around:
                around.pop()
        return found

    def span_between(self, first: int, end: int) -> Span:
        """The place of `lexemes[first:end]`."""
        return self.span_of(self.lexemes[first], self.lexemes[max(end - 1, first)])

    def inner_span(self, opened: int, closed: int) -> Span:
        """The place between the brackets at two positions."""
        return self.scan.span_at(self.lexemes[opened].end, self.lexemes[closed].start)
