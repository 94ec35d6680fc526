"""Cursor over the lexemes of one REGISTER statement or unit, with the prefixes and the base so far.

A part with a syntax error raises `UnreadablePart` with its diagnostic. The caller records it and
continues with the next part, so that all errors of a file are reported.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Final

from dotr.errors.diagnostics import Diagnostic, DotrError
from dotr.model import dataclass
from dotr.model.places import Document, Span
from dotr.syntax import scan as rule_scan
from dotr.syntax.sparql.tokens import Lexeme, TokenScan, read_prologue, resolve_name

_LONGEST: Final = 60


def clipped(text: str) -> str:
    """A text for a message, cut after 60 characters.

    >>> clipped("REGISTER"), len(clipped("R" * 1000))
    ('REGISTER', 61)
    """
    return text if len(text) <= _LONGEST else text[:_LONGEST] + "…"


_OPENING = ("{", "[", "(")
_CLOSING = ("}", "]", ")")


class UnreadablePart(DotrError):
    """Raised at a syntax error, for the part of the statement that has it."""

    def __init__(self, diagnostic: Diagnostic) -> None:
        super().__init__(str(diagnostic))
        self.diagnostic = diagnostic


@dataclass(slots=True)
class Cursor:
    """A position in the lexemes `lexemes[position:end]` of a statement.

    - `scan`: the statement's span, prefixes, base and problems.
    - `syntax_code`: the code of a syntax error in the language of the statement.
    """

    scan: TokenScan
    lexemes: Sequence[Lexeme]
    position: int
    end: int
    syntax_code: str

    @property
    def here(self) -> Lexeme:
        """The next lexeme; an empty one at the end."""
        return self.at(0)

    def at(self, distance: int) -> Lexeme:
        """The lexeme at a distance from the next one; an empty one beyond the end."""
        index = self.position + distance
        if index < self.end:
            return self.lexemes[index]
        offset = self.lexemes[self.end - 1].end if self.end else self.scan.span.end
        return Lexeme("", "", offset, offset)

    def is_word(self, *words: str) -> bool:
        """True if the next lexemes are these words, in any case."""
        return all(self.at(i).group == "word" and self.at(i).text.upper() == word for i, word in enumerate(words))

    def is_mark(self, mark: str) -> bool:
        """True if the next lexeme is this mark."""
        return self.here.group in ("mark", "quote") and self.here.text == mark

    def take_words(self, *words: str) -> bool:
        """Take the next lexemes if they are these words."""
        if not self.is_word(*words):
            return False
        self.position += len(words)
        return True

    def take_mark(self, mark: str) -> bool:
        """Take the next lexeme if it is this mark."""
        if not self.is_mark(mark):
            return False
        self.position += 1
        return True

    def take_name(self, expected: str) -> tuple[str, Span]:
        """Take an IRI or a prefixed name; return its IRI, or a plain name `<w>`, and its place.

        Raises `UnreadablePart` at anything else; `expected`: the noun for its message.
        """
        lexeme = self.here
        if lexeme.group not in ("iri", "pname"):
            raise self.unexpected(expected, "A name is an IRI, <http://…>, or a prefixed name, :name.")
        self.position += 1
        return resolve_name(self.scan, lexeme, is_name=True), self.span_of(lexeme)

    def take_prologue(self) -> None:
        """Take PREFIX and BASE declarations."""
        self.position += read_prologue(self.scan, list(self.lexemes[self.position : self.end]))

    def span_of(self, first: Lexeme, last: Lexeme | None = None) -> Span:
        """The place of a lexeme, or of several."""
        start, end = first.start, (last or first).end
        if start == end:
            start = max(start - 1, self.scan.span.start)
        return self.scan.span_at(start, end)

    def span_since(self, position: int) -> Span:
        """The place of the lexemes taken since a position."""
        last = max(position, self.position - 1)
        return self.span_of(self.lexemes[position], self.lexemes[last]) if position < self.end else self.span_of(self.here)

    def report(self, code: str, message: str, span: Span, hint: str = "") -> None:
        """Record an error."""
        self.scan.problems.append(Diagnostic(code, message, span, hint))

    def unexpected(self, expected: str, hint: str = "") -> UnreadablePart:
        """The error of the next lexeme, for the caller to raise."""
        found = self.here if self.position < self.end or self.end == len(self.lexemes) else self.lexemes[self.end]
        shown = f"found {clipped(found.text)}" if found.text else "the text ends"
        return UnreadablePart(Diagnostic(self.syntax_code, f"expected {expected}, {shown}", self.span_of(found), hint))

    def find(self, *words: str, marks: Sequence[str] = ()) -> int:
        """The next position, outside of brackets, of one of these words or marks; else `end`."""
        depth = 0
        for index in range(self.position, self.end):
            lexeme = self.lexemes[index]
            if depth == 0 and (lexeme.group == "word" and lexeme.text.upper() in words):
                return index
            if lexeme.group not in ("mark", "quote"):
                continue
            if depth == 0 and lexeme.text in marks:
                return index
            if lexeme.text in _OPENING:
                depth += 1
            elif lexeme.text in _CLOSING:
                depth = max(depth - 1, 0)
        return self.end

    def text_until(self, stop: int) -> tuple[str, Span]:
        """Take the lexemes before a position; return their text, without comments, and their place.

        Lexemes without space between them are joined, as the three of `PT0.25S`; others are
        separated by one blank.
        """
        first = self.position
        parts: list[str] = []
        for index in range(first, stop):
            gap = index > first and self.lexemes[index].start > self.lexemes[index - 1].end
            parts.append((" " if gap else "") + self.lexemes[index].text)
        self.position = stop
        return "".join(parts), self.span_since(first) if stop > first else self.span_of(self.here)


def statement_spans(document: Document) -> Iterator[Span]:
    """The spans of the statements of a file, each with the prologue before it.

    >>> text = "PREFIX : <http://e/> REGISTER QUERY a AS ASK { } ; BASE <http://b/> REGISTER QUERY b AS ASK { }"
    >>> [span.text[:7] for span in statement_spans(Document("q.rspql", text))]
    ['PREFIX ', 'BASE <h']
    """
    tokens = list(rule_scan.tokens(Span(document, 0, len(document.text))))
    starts = [_start(tokens, index) for index, token in enumerate(tokens) if token.lastgroup == "word" and token[0].upper() == "REGISTER"]
    offsets = [tokens[0].start() if tokens else 0, *(tokens[index].start() for index in starts[1:]), len(document.text)]
    for start, end in pairwise(offsets):
        yield Span(document, start, end)


def register_spans(document: Document) -> Iterator[Span]:
    """The spans of the statements of a file, each from its REGISTER to the next one.

    >>> text = "PREFIX : <http://e/> REGISTER QUERY a AS ASK { } ; REGISTER QUERY b AS ASK { }"
    >>> [span.text for span in register_spans(Document("q.rspql", text))]
    ['REGISTER QUERY a AS ASK { } ; ', 'REGISTER QUERY b AS ASK { }']
    """
    words = [
        token.start()
        for token in rule_scan.tokens(Span(document, 0, len(document.text)))
        if token.lastgroup == "word" and token[0].upper() == "REGISTER"
    ]
    for start, end in pairwise([*words, len(document.text)]):
        yield Span(document, start, end)


def _start(tokens: Sequence[re.Match[str]], index: int) -> int:
    """The index of the first token of the prologue in front of the REGISTER at `index`."""
    while index >= 2 and tokens[index - 1].lastgroup == "iri":
        if tokens[index - 2][0].upper() == "BASE":
            index -= 2
        elif index >= 3 and tokens[index - 3][0].upper() == "PREFIX":
            index -= 3
        else:
            break
    return index
