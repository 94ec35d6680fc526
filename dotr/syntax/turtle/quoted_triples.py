"""Quoted triples of a template: triple terms, reified triples and annotations.

Invariant: the triple `r rdf:reifies <<( s p o )>>` is added where the text names the reifier: after
the triple whose object is the reified triple, and after an annotated triple.
Source: Turtle 1.2, section 2.10.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable

from dotr.model.algebra import Const
from dotr.model.templates import Blank, Cell, CellLiteral, TemplateSlot, TemplateTerm
from dotr.model.terms import RDF_REIFIES, iri, is_iri, is_triple, triple_term
from dotr.syntax.turtle.terms import TermReader


class QuotedTriples(TermReader, ABC):
    """Parser of quoted triples; subclasses parse predicates and property lists."""

    @abstractmethod
    def _predicate(self) -> TemplateSlot: ...

    @abstractmethod
    def _predicates(self, subject: TemplateSlot) -> None: ...

    @abstractmethod
    def _add_triple(self, subject: TemplateSlot, predicate: TemplateSlot, value: TemplateSlot) -> None: ...

    @abstractmethod
    def _fresh_blank(self) -> Blank: ...

    def _node(self, expected: str) -> TemplateSlot:
        return self._triple_term() if self._text.startswith("<<(", self._at, self._end) else super()._node(expected)

    def _check_subject(self, subject: TemplateSlot, start: int) -> None:
        if is_term_slot(subject):
            self._problem("T106", "a triple term cannot be a subject", start, self._at, "Its reifier can: << … >> instead of <<( … )>>.")
        elif is_literal_slot(subject):
            self._problem("T106", "a literal cannot be a subject", start, self._at, literal_hint(subject))

    def _is_reified_triple(self) -> bool:
        return self._text.startswith("<<", self._at, self._end) and not self._text.startswith("<<(", self._at, self._end)

    def _reified_triple(self, emit: Callable[[TemplateSlot], None]) -> TemplateSlot:
        """Parse `<< s p o ~ r >>` and return the reifier.

        `emit` receives the reifier before its own triple is added.
        """
        opening = self._at
        self._at += 2
        term = self._quoted_triple(opening, reified=True)
        reifier: TemplateSlot = self._fresh_blank()
        if self._skip_space() == "~":
            self._at += 1
            reifier = self._reifier() or reifier
        self._expect_closing(">>", opening)
        emit(reifier)
        self._add_triple(reifier, Const(RDF_REIFIES), term)
        return reifier

    def _triple_term(self) -> TemplateSlot:
        opening = self._at
        self._at += 3
        term = self._quoted_triple(opening, reified=False)
        self._expect_closing(")>>", opening)
        return term

    def _expect_closing(self, mark: str, opening: int) -> None:
        self._skip_space()
        if self._at >= self._end:
            self._fail("T102", "this triple is never closed", opening, opening + len(mark), f"Write {mark} where it ends.")
        if not self._text.startswith(mark, self._at, self._end):
            self._expected(mark, "A triple has three parts.")
        self._at += len(mark)

    def _quoted_triple(self, opening: int, *, reified: bool) -> TemplateSlot:
        """Parse subject, predicate and object; return their triple term."""
        self._skip_space()
        start = self._at
        subject = self._quoted_part(opening, reified=reified)
        self._check_subject(subject, start)
        self._skip_space()
        predicate = self._predicate()
        value = self._quoted_part(opening, reified=reified)
        return _triple_term_of(subject, predicate, value)

    def _quoted_part(self, opening: int, *, reified: bool) -> TemplateSlot:
        character = self._skip_space()
        if self._at >= self._end:
            self._fail("T102", "this triple is never closed", opening, opening + 2, "Write its three parts, and >> where it ends.")
        if character == "[":
            self._at += 1
            if self._skip_space() != "]":
                self._expected("`]`", "A node inside a quoted triple has no properties: write them outside, of _:b.")
            self._at += 1
            return self._fresh_blank()
        if self._is_reified_triple():
            if not reified:
                self._expected("a term", "<< … >> denotes the reifier of a triple; the triple term itself is <<( … )>>.")
            return self._reified_triple(lambda reifier: None)
        return self._node("a term")

    def _reifier(self) -> TemplateSlot | None:
        """Parse the node after `~`; None if it is absent."""
        character, start = self._skip_space(), self._at
        if character == "[":
            self._at += 1
            if self._skip_space() != "]":
                self._expected("`]`", "The properties of a reifier follow in {| … |}.")
            self._at += 1
            return self._fresh_blank()
        if not character or character in ".;,]{|>~":
            return None
        reifier = self._node("a reifier")
        self._check_subject(reifier, start)
        return reifier

    def _annotations(self, subject: TemplateSlot, predicate: TemplateSlot, value: TemplateSlot) -> None:
        """Parse `~ r` and `{| … |}` after a triple; add the reifiers and their properties."""
        while self._skip_space() == "~" or self._text.startswith("{|", self._at, self._end):
            reifier: TemplateSlot | None = None
            if self._text[self._at] == "~":
                self._at += 1
                reifier = self._reifier()
                self._skip_space()
            reifier = reifier or self._fresh_blank()
            self._add_triple(reifier, Const(RDF_REIFIES), _triple_term_of(subject, predicate, value))
            if self._text.startswith("{|", self._at, self._end):
                opening = self._at
                self._at += 2
                self._predicates(reifier)
                self._expect_closing("|}", opening)


def _triple_term_of(subject: TemplateSlot, predicate: TemplateSlot, value: TemplateSlot) -> TemplateSlot:
    """Return the triple term of three slots."""
    match subject, predicate, value:
        case Const(s), Const(p), Const(o):
            return Const(triple_term(s, p, o) or iri("urn:unknown"))  # after a reported problem
        case _:
            return TemplateTerm(subject, predicate, value)


def is_literal_slot(slot: TemplateSlot) -> bool:
    """Return whether a slot is a literal."""
    return isinstance(slot, Cell | CellLiteral) or (isinstance(slot, Const) and not is_iri(slot.term))


def is_term_slot(slot: TemplateSlot) -> bool:
    """Return whether a slot is a triple term."""
    return isinstance(slot, TemplateTerm) or (isinstance(slot, Const) and is_triple(slot.term))


def literal_hint(slot: TemplateSlot) -> str:
    """Return a hint for a literal in the place of an IRI."""
    return (
        f"Make it an IRI: <urn:x:{{{slot.column}}}> or prefix:{{{slot.column}}}."
        if isinstance(slot, Cell)
        else "Write an IRI: <http://…> or :name."
    )
