"""Merging of the tokens of triple terms, reified triples and annotations.

Idea: rdflib's grammar is that of SPARQL 1.1. So each construct becomes one token with a placeholder
in SPARQL 1.1:
- a triple term `<<( s p o )>>` and a reified triple `<< s p o ~ r >>`: an IRI;
- an annotation `~ r {| … |}`: a further object `, [ mark mark ; … ]`, identified by its mark
  (`triples.py`).

Invariant: the parts of a quoted token are valid at their places. A subject is no literal and no
triple term, a predicate is an IRI or a variable; no part is a list, a path or a non-empty bracket.
The first invalid part is reported and ends the parsing.
Source: SPARQL 1.2, sections 4.3 and 19.8.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Final, NoReturn

from dotr.model.algebra import Const, Var
from dotr.model.terms import RDF_TYPE
from dotr.syntax.sparql.tokens import Annotation, Quoted, SparqlTokenKind, Token, TokenScan

QUOTED_TRIPLE: Final = "Q121"
_MARKS: Final = frozenset(("<<(", "<<", "~", "{|"))
_NODES: Final = frozenset((SparqlTokenKind.IRI, SparqlTokenKind.VARIABLE, SparqlTokenKind.BLANK, SparqlTokenKind.REFERENCE))
_LITERALS: Final = frozenset((SparqlTokenKind.LITERAL, SparqlTokenKind.NUMBER))
_REIFIED_HINT: Final = "<< … >> denotes the reifier of the triple; the triple term itself is <<( … )>>."
_PATH_MARKS: Final = frozenset("/|^*+?!(")


def merge_quoted_tokens(scan: TokenScan) -> None:
    """Replace the tokens of each quoted construct by one token, in place."""
    if any(token.kind is SparqlTokenKind.MARK and token.text in _MARKS for token in scan.tokens):
        with suppress(_Stop):
            scan.tokens = _TokenMerger(scan).run()


def with_quoted_parts(tokens: Iterable[Token]) -> Iterator[Token]:
    """Yield each token, followed by the tokens that it quotes."""
    for token in tokens:
        yield token
        match token.value:
            case Quoted(parts, reifier):
                yield from with_quoted_parts((*parts, *(() if reifier is None else (reifier,))))
            case Annotation(reifier) if reifier is not None:
                yield reifier
            case _:
                pass


class _Stop(Exception):
    """Raised after a reported problem, to end the parsing."""


class _TokenMerger:
    """Recursive descent over the tokens of a scan."""

    def __init__(self, scan: TokenScan) -> None:
        self._scan = scan
        self._tokens = scan.tokens
        self._at = 0
        self._merged: list[Token] = []

    def run(self) -> list[Token]:
        """Return the merged tokens; raises `_Stop`."""
        while self._at < len(self._tokens):
            token = self._next()
            match token.text if token.kind is SparqlTokenKind.MARK else "":
                case "<<(" | "<<":
                    self._merged.append(self._mark_statement(self._read_quoted(token)))
                case "~" | "{|":
                    self._merged.append(self._read_annotation(token))
                case _:
                    self._merged.append(token)
        return self._merged

    def _next(self) -> Token:
        self._at += 1
        return self._tokens[self._at - 1]

    def _is_next(self, text: str) -> bool:
        following = self._tokens[self._at : self._at + 1]
        return bool(following) and following[0].kind is SparqlTokenKind.MARK and following[0].text == text

    def _fail(self, message: str, token: Token, hint: str = "") -> NoReturn:
        self._scan.report(QUOTED_TRIPLE, message, token.span.start, token.span.end, hint)
        raise _Stop

    # --- terms and reified triples ---

    def _read_quoted(self, opening: Token) -> Token:
        """Return the token of a triple term or a reified triple behind its consumed opening."""
        is_term = opening.text == "<<("
        subject = self._read_part(is_term)
        if subject.kind in _LITERALS:
            self._fail("a literal cannot be the subject of a triple", subject, "A subject is an IRI, a blank node or a variable.")
        if isinstance(subject.value, Quoted) and subject.value.is_term:
            hint = "A triple term is an object; its reifier can be a subject: << << … >> … >>."
            self._fail("a triple term cannot be the subject of a triple", subject, hint)
        predicate, value = self._read_predicate(), self._read_part(is_term)
        reifier = None
        if not is_term and self._is_next("~"):
            self._next()
            reifier = self._read_reifier() or self._anonymous_blank(opening)
            if not self._is_next(">>"):
                self._fail("a reifier is an IRI, a variable or a blank node", self._next())
        closing = self._next()
        if closing.text != (")>>" if is_term else ">>"):
            self._fail(f"expected {')>>' if is_term else '>>'}, found {closing.text}", closing, "A triple has three parts.")
        span = self._scan.span_at(opening.span.start, closing.span.end)
        text = span.document.text[span.start : span.end]
        return Token(SparqlTokenKind.QUOTED, text, span, Quoted((subject, predicate, value), reifier, is_term))

    def _read_part(self, in_term: bool) -> Token:
        """Return the token of a subject or an object."""
        token = self._next()
        if token.kind in _NODES or token.kind in _LITERALS:
            return token
        if token.text == "<<(":
            return self._read_quoted(token)
        if token.text == "<<" and not in_term:
            return self._read_quoted(token)
        if token.text == "[" and self._is_next("]"):
            self._next()
            return self._anonymous_blank(token)
        if token.text == "<<":
            self._fail("a reified triple is not allowed inside a triple term", token, _REIFIED_HINT)
        if token.text in ("[", "("):
            what = "a non-empty bracket" if token.text == "[" else "a list"
            self._fail(f"{what} is not allowed inside a quoted triple", token, "Write it in a separate triple, and use a variable here.")
        if token.text in (")>>", ">>"):
            self._fail("a triple has three parts: subject, predicate and object", token)
        return self._fail(f"{token.text} is not allowed inside a quoted triple", token, "Its parts are terms and variables.")

    def _read_predicate(self) -> Token:
        token = self._next()
        if token.kind is SparqlTokenKind.WORD and token.text == "a":
            token = Token(SparqlTokenKind.IRI, token.text, token.span, Const(RDF_TYPE))
        elif token.text in (")>>", ">>"):
            self._fail("a triple has three parts: subject, predicate and object", token)
        elif token.kind not in (SparqlTokenKind.IRI, SparqlTokenKind.VARIABLE, SparqlTokenKind.REFERENCE):
            what = "a triple term" if token.text in ("<<(", "<<") else token.text
            self._fail(f"{what} cannot be a predicate", token, "A predicate is an IRI or a variable; paths are not allowed here.")
        following = self._tokens[self._at : self._at + 1]
        if following and following[0].kind is SparqlTokenKind.MARK and following[0].text in _PATH_MARKS and following[0].text != "(":
            self._fail("a path is not allowed inside a quoted triple", following[0], "Write the path in a separate triple.")
        return token

    def _anonymous_blank(self, place: Token) -> Token:
        return Token(SparqlTokenKind.BLANK, "[]", place.span, Var(f"_:[{place.span.start}]"))

    def _read_reifier(self) -> Token | None:
        """Return the token of the reifier after `~`; None if it is absent."""
        following = self._tokens[self._at : self._at + 1]
        if following and following[0].kind in (SparqlTokenKind.IRI, SparqlTokenKind.VARIABLE, SparqlTokenKind.BLANK):
            return self._next()
        if self._is_next("["):
            opening = self._next()
            if not self._is_next("]"):
                self._fail("a reifier is an IRI, a variable or a blank node", opening, "Its properties follow in {| … |}.")
            self._next()
            return self._anonymous_blank(opening)
        return None

    # --- statements and annotations ---

    def _mark_statement(self, token: Token) -> Token:
        """Return the token; `is_statement` is set if it is a reified triple without predicate."""
        assert isinstance(token.value, Quoted)
        following = self._tokens[self._at] if self._at < len(self._tokens) else None
        ends = following is None or following.text in (".", "{", "}") or (following.kind is SparqlTokenKind.WORD and following.text != "a")
        if token.value.is_term or not ends or not self._is_statement_start():
            return token
        return Token(token.kind, token.text, token.span, Quoted(token.value.parts, token.value.reifier, False, is_statement=True))

    def _is_statement_start(self) -> bool:
        """Return whether the next token begins a triple, from the merged tokens before it."""
        if not self._merged or self._merged[-1].text in (".", "}"):
            return True
        if self._merged[-1].text == "{":
            return self._merged[-2].kind is not SparqlTokenKind.VARIABLE if len(self._merged) > 1 else True  # VALUES ?v {
        if self._merged[-1].text != ")":
            return False
        depth = 0
        for number in range(len(self._merged) - 1, 0, -1):  # a FILTER, BIND or path ends here
            depth += (self._merged[number].text == ")") - (self._merged[number].text == "(")
            if not depth:
                previous = self._merged[number - 1]
                of_filter = previous.kind is SparqlTokenKind.IRI and number > 1 and self._merged[number - 2].text.upper() == "FILTER"
                return of_filter or (previous.kind is SparqlTokenKind.WORD and previous.text != "a")
        return False

    def _read_annotation(self, token: Token) -> Token:
        """Return the mark of an annotation: `~` with its reifier, `{|`, or both."""
        reifier = None
        end = token
        if token.text == "~":
            reifier = self._read_reifier()
            end = reifier or token
        is_block = token.text == "{|" or self._is_next("{|")
        if is_block:
            end = token if token.text == "{|" else self._next()
            if self._is_next("|}"):
                self._fail("an empty annotation", end, "Write ~ ?r for a reifier without properties.")
        span = self._scan.span_at(token.span.start, end.span.end)
        return Token(SparqlTokenKind.ANNOTATION, token.text, span, Annotation(reifier, is_block))
