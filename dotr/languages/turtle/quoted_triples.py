"""Triples quoted in a template (Turtle 1.2, section 2.10): triple terms, reified triples and annotations.

Invariant: what reifies a triple is said to do so where the text names it: a reified triple that is an object behind the triple that it
stands in, an annotation behind the triple that it annotates.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable

from dotr.languages.turtle.terms import TermReader
from dotr.model.algebra import Const
from dotr.model.templates import Blank, Cell, CellLiteral, TemplateSlot, TemplateTerm
from dotr.model.terms import RDF_REIFIES, iri, is_iri, is_triple, triple_term


class QuotedTriples(TermReader, ABC):
    """A place in the text of a template, where triples can be quoted; the parser of Turtle knows what else a triple is made of."""

    @abstractmethod
    def _predicate(self) -> TemplateSlot: ...

    @abstractmethod
    def _predicates(self, subject: TemplateSlot) -> None: ...

    @abstractmethod
    def _add_triple(self, subject: TemplateSlot, predicate: TemplateSlot, value: TemplateSlot) -> None: ...

    @abstractmethod
    def _fresh_blank(self) -> Blank: ...

    def _node(self, what: str) -> TemplateSlot:
        return self._triple_term() if self._text.startswith("<<(", self._at, self._end) else super()._node(what)

    def _check_subject(self, subject: TemplateSlot, start: int) -> None:
        if is_term_slot(subject):
            self._problem(
                "T106", "a triple term cannot be a subject", start, self._at, "What reifies it can: << … >> in place of <<( … )>>."
            )
        elif is_literal_slot(subject):
            self._problem("T106", "a literal cannot be a subject", start, self._at, literal_hint(subject))

    def _is_reified_triple(self) -> bool:
        return self._text.startswith("<<", self._at, self._end) and not self._text.startswith("<<(", self._at, self._end)

    def _reified_triple(self, emit: Callable[[TemplateSlot], None]) -> TemplateSlot:
        """`<< s p o ~ r >>`: the reifier, which is used as `state` says and then said to be one."""
        opening = self._at
        self._at += 2
        whole = self._quoted_triple(opening, reified=True)
        reifier: TemplateSlot = self._fresh_blank()
        if self._skip_space() == "~":
            self._at += 1
            reifier = self._reifier() or reifier
        self._expect_closing(">>", opening)
        emit(reifier)
        self._add_triple(reifier, Const(RDF_REIFIES), whole)
        return reifier

    def _triple_term(self) -> TemplateSlot:
        opening = self._at
        self._at += 3
        whole = self._quoted_triple(opening, reified=False)
        self._expect_closing(")>>", opening)
        return whole

    def _expect_closing(self, mark: str, opening: int) -> None:
        self._skip_space()
        if self._at >= self._end:
            self._fail("T102", "this triple is never closed", opening, opening + len(mark), f"Write {mark} where it ends.")
        if not self._text.startswith(mark, self._at, self._end):
            self._expected(mark, "A triple has three parts.")
        self._at += len(mark)

    def _quoted_triple(self, opening: int, *, reified: bool) -> TemplateSlot:
        """Subject, predicate and object, as the triple term of them."""
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
                self._expected("`]`", "Nothing is said of a node inside of a quoted triple: say it outside, of _:b.")
            self._at += 1
            return self._fresh_blank()
        if self._is_reified_triple():
            if not reified:
                self._expected("a term", "<< … >> stands for what reifies a triple; the triple term itself is <<( … )>>.")
            return self._reified_triple(lambda reifier: None)
        return self._node("a term")

    def _reifier(self) -> TemplateSlot | None:
        """What stands behind `~`, if anything does."""
        character, start = self._skip_space(), self._at
        if character == "[":
            self._at += 1
            if self._skip_space() != "]":
                self._expected("`]`", "What is said of a reifier stands in {| … |} behind it.")
            self._at += 1
            return self._fresh_blank()
        if not character or character in ".;,]{|>~":
            return None
        reifier = self._node("a reifier")
        self._check_subject(reifier, start)
        return reifier

    def _annotations(self, subject: TemplateSlot, predicate: TemplateSlot, value: TemplateSlot) -> None:
        """`~ r` and `{| … |}` behind a triple: what reifies it, and what is said of that."""
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
    """The triple term of three places."""
    match subject, predicate, value:
        case Const(s), Const(p), Const(o):
            return Const(triple_term(s, p, o) or iri("urn:unknown"))  # what is no triple has been told as a problem
        case _:
            return TemplateTerm(subject, predicate, value)


def is_literal_slot(slot: TemplateSlot) -> bool:
    return isinstance(slot, Cell | CellLiteral) or (isinstance(slot, Const) and not is_iri(slot.term))


def is_term_slot(slot: TemplateSlot) -> bool:
    return isinstance(slot, TemplateTerm) or (isinstance(slot, Const) and is_triple(slot.term))


def literal_hint(slot: TemplateSlot) -> str:
    return f"Make it an IRI: <urn:x:{{{slot.column}}}> or prefix:{{{slot.column}}}." if isinstance(slot, Cell) else ""
