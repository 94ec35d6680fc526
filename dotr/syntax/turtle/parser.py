"""Turtle with variables, fresh names or CSV cells, parsed into a `Template`.

Idea: recursive descent over the document itself, so that every error has its exact span; terms are
parsed in `terms.py`, quoted triples in `quoted_triples.py`. A syntax error ends the parsing;
unknown prefixes and misplaced variables, names and cells are collected.
Invariant: a triple is added when its object begins, so the order of triples is that of the text: a
node before its property list, a triple before its annotations.
Source: W3C Turtle 1.2; language.md; interface.md.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Final

from dotr.errors.diagnostics import Refused
from dotr.model.algebra import Const
from dotr.model.places import Span
from dotr.model.templates import Blank, Cell, CellLiteral, CellType, ParsedMap, Template, TemplateSlot, TemplateTerm, TemplateTriple
from dotr.model.terms import RDF_FIRST, RDF_NIL, RDF_REIFIES, RDF_REST, RDF_TYPE, Prefixes, iri, is_iri, is_triple, triple_term
from dotr.syntax.turtle.terms import LANGUAGE, TermReader, UnreadableTemplate

# Quoted triples of a template: triple terms, reified triples and annotations.
#
# Invariant: the triple `r rdf:reifies <<( s p o )>>` is added where the text names the reifier: after
# the triple whose object is the reified triple, and after an annotated triple.
# Source: Turtle 1.2, section 2.10.


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
    if isinstance(slot, Cell):
        return slot.type is not CellType.IRI
    return isinstance(slot, CellLiteral) or (isinstance(slot, Const) and not is_iri(slot.term))


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


_PREDICATE: Final = "Write an IRI: <http://…> or :name."


def parse_template(span: Span, prefixes: Prefixes, *, cells: bool = False, base: str = "") -> Template:
    """Return the template in a span; raises `Refused`.

    It may have `?variables` and `dotr_id…` names, or (`cells`) `{columns}` of a CSV file. `base`
    resolves relative IRIs.

    >>> from dotr.model.places import Document
    >>> def template(text: str) -> Template:
    ...     return parse_template(Span(Document("fire.dotr", text), 0, len(text)), {"": "http://example.org/"})
    >>> for triple in template("dotr_id1 a :Fire. dotr_id1 :at_room ?room").triples: print(triple[0], triple[2])
    Fresh(name='dotr_id1') Const(term='<http://example.org/Fire>')
    Fresh(name='dotr_id1') Var(name='room')
    >>> template("")
    Template(triples=())
    """
    return _TemplateParser(span, prefixes, cells, base).template()


def parse_map(span: Span, prefixes: Prefixes) -> ParsedMap:
    """Return the template of a map in a span, and its blank nodes with properties in brackets.

    Raises `Refused`.

    >>> from dotr.model.places import Document
    >>> text = "[] <x:p> [ <x:q> {n} ] ."
    >>> parsed = parse_map(Span(Document("map", text), 0, len(text)), {})
    >>> len(parsed.template.triples), parsed.bracketed
    (2, (Blank(name='[2]'),))
    """
    parser = _TemplateParser(span, prefixes, cells=True)
    return ParsedMap(parser.template(), tuple(parser.bracketed))


class _TemplateParser(QuotedTriples):
    """Parser of one template."""

    def __init__(self, span: Span, prefixes: Prefixes, cells: bool, base: str = "") -> None:
        super().__init__(span, prefixes, cells)
        self._base = base
        self._anonymous_count = 0
        self.bracketed: dict[Blank, None] = {}
        self._triples: dict[TemplateTriple, None] = {}

    def template(self) -> Template:
        """Parse the whole span; raises `Refused` with all problems."""
        try:
            self._document()
        except UnreadableTemplate:
            pass
        except RecursionError:
            self._problem("T101", "brackets nested too deeply", self._span.start, self._end)
        if self._problems:
            raise Refused(self._problems)
        return Template(tuple(self._triples))

    # --- statements ---

    def _document(self) -> None:
        while self._skip_space():
            if self._directive():
                continue
            self._statement()
            if self._skip_space() == ".":
                self._at += 1
            elif self._at < self._end:
                self._expected("`.`, `;` or `,` after a triple")

    def _directive(self) -> bool:
        if self._text[self._at] == "@":
            match = self._match(LANGUAGE)
            if match is None or match[1] not in ("prefix", "base"):
                self._at = match.start() if match else self._at
                self._expected("a triple, @prefix or @base")
            self._declaration(match[1])
            if self._skip_space() != ".":
                self._expected(f"`.` after @{match[1]}")
            self._at += 1
            return True
        word = self._word()
        if word.lower() in ("prefix", "base") and not self._text.startswith(":", self._at + len(word)):
            self._at += len(word)
            self._declaration(word.lower())
            return True
        return False

    def _declaration(self, kind: str) -> None:
        self._skip_space()
        name = ""
        if kind == "prefix":
            match = self._match(self._names.prefix)
            if match is None:
                self._expected("a prefix with its colon")
            name = match[1]
            self._skip_space()
        start = self._at
        target = self._iri_reference()
        if not isinstance(target, Const):
            self._fail("T105", "a declaration with a cell in it", start, self._at)
        if kind == "prefix":
            self._prefixes[name] = target.term[1:-1]
        else:
            self._base = target.term[1:-1]

    def _statement(self) -> None:
        start = self._at
        character = self._text[start]
        if character == "[":
            subject: TemplateSlot = self._fresh_blank()
            has_properties = self._property_list(subject)
            if has_properties and self._skip_space() in (".", ""):
                return
        elif character == "(":
            subject = self._collection(lambda head: None)
        elif self._is_reified_triple():
            subject = self._reified_triple(lambda reifier: None)
            if self._skip_space() in (".", ""):
                return
        else:
            subject = self._node("a subject")
            self._check_subject(subject, start)
        self._predicates(subject)

    def _predicates(self, subject: TemplateSlot) -> None:
        while True:
            self._skip_space()
            predicate = self._predicate()
            while True:
                value = self._object(lambda value, predicate=predicate: self._add_triple(subject, predicate, value))  # type: ignore[misc]
                self._annotations(subject, predicate, value)
                if self._skip_space() != ",":
                    break
                self._at += 1
            if self._skip_space() != ";":
                return
            while self._skip_space() == ";":
                self._at += 1
            if self._at >= self._end or self._text[self._at] in ".]|":
                return

    def _predicate(self) -> TemplateSlot:
        start = self._at
        if self._word() == "a" and not self._text.startswith(":", start + 1):
            self._at += 1
            return Const(RDF_TYPE)
        predicate = self._node("a predicate")
        if is_term_slot(predicate):
            self._problem("T106", "a triple term cannot be a predicate", start, self._at, _PREDICATE)
        elif is_literal_slot(predicate):
            self._problem("T106", "a literal cannot be a predicate", start, self._at, literal_hint(predicate))
        elif isinstance(predicate, Blank):
            self._problem("T106", "a blank node cannot be a predicate", start, self._at, _PREDICATE)
        return predicate

    def _add_triple(self, subject: TemplateSlot, predicate: TemplateSlot, value: TemplateSlot) -> None:
        self._triples[subject, predicate, value] = None

    # --- nodes ---

    def _object(self, emit: Callable[[TemplateSlot], None]) -> TemplateSlot:
        """Parse an object; call `emit` with its slot before its own triples are added."""
        character = self._skip_space()
        if character == "[":
            node: TemplateSlot = self._fresh_blank()
            emit(node)
            self._property_list(node)
            return node
        if character == "(":
            return self._collection(emit)
        if self._is_reified_triple():
            return self._reified_triple(emit)
        node = self._node("an object")
        emit(node)
        return node

    def _fresh_blank(self) -> Blank:
        self._anonymous_count += 1
        return Blank(f"[{self._anonymous_count}]")

    def _property_list(self, node: TemplateSlot) -> bool:
        """Parse `[ … ]` as properties of a node; return whether there are any."""
        opening = self._at
        self._at += 1
        if self._skip_space() == "]":
            self._at += 1
            return False
        if isinstance(node, Blank):
            self.bracketed[node] = None
        self._predicates(node)
        if self._skip_space() != "]":
            if self._at >= self._end:
                self._fail("T102", "this bracket is never closed", opening, opening + 1, "Write ] after its properties.")
            self._expected("`]`, `;` or `,`")
        self._at += 1
        return True

    def _collection(self, emit: Callable[[TemplateSlot], None]) -> TemplateSlot:
        """Parse `( … )`; call `emit` with the first node of the list, or rdf:nil.

        `emit` and then the rdf:rest of each node receive the next node once its text begins, so
        that triples are in the order of the text.
        """
        opening = self._at
        self._at += 1
        head: TemplateSlot | None = None
        link = emit
        while self._skip_space() != ")":
            if self._at >= self._end:
                self._fail("T102", "this list is never closed", opening, opening + 1, "Write ) where the list ends.")
            node = self._fresh_blank()
            link(node)
            head = head or node
            self._object(lambda value, node=node: self._add_triple(node, Const(RDF_FIRST), value))  # type: ignore[misc]
            link = lambda value, node=node: self._add_triple(node, Const(RDF_REST), value)  # type: ignore[misc]  # noqa: E731
        self._at += 1
        link(Const(RDF_NIL))
        return head or Const(RDF_NIL)
