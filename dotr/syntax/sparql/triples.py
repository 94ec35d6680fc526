"""Translation of quoted tokens to patterns: triple terms, reified triples, annotations.

- `<<( s p o )>>`: a constant, or (with a variable) a fresh blank node and a `TermPattern`.
- `<< s p o ~ r >>`: `r`, and the pattern `r rdf:reifies <<( s p o )>>`.
- `~ r` after a triple: the same pattern; triples in `{| … |}` have the reifier before it, or a
  fresh one, as subject.

Invariant: the patterns of a quoted token are added once, to the basic graph pattern of the token.
Source: SPARQL 1.2, section 4.3.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from rdflib.plugins.sparql.parserutils import CompValue
from rdflib.term import BNode, Literal

from dotr.model.algebra import Attribute, BgpItem, Const, Slot, TermPattern, TimeOf, TriplePattern, Var
from dotr.model.places import Span
from dotr.model.terms import RDF_REIFIES, RDF_TYPE, triple_term
from dotr.syntax.sparql.expressions import ExpressionReader, signed_number
from dotr.syntax.sparql.grammar import ParseNode
from dotr.syntax.sparql.quoted_triples import QUOTED_TRIPLE, with_quoted_parts
from dotr.syntax.sparql.tokens import Annotation, Quoted, SparqlTokenKind, Token, TokenScan


class TripleReader(ExpressionReader):
    """Reader of the slots of triples. `bgp` is the number of the current basic graph pattern."""

    def __init__(self, scan: TokenScan, no_references: str) -> None:
        super().__init__(scan, no_references)
        self.bgp = 0
        self._bgp_of_blank: dict[str, int] = {}  # number of the basic graph pattern by label
        self._slots: dict[Span, Slot] = {}
        self._pending_items: list[BgpItem] = []
        self._triple_term_spans: dict[Slot, Span] = {}

    def verb(self, node: ParseNode) -> Slot | None:
        """Return the slot of a predicate; None for a path."""
        raise NotImplementedError

    # --- places ---

    def slot(self, node: ParseNode) -> Slot:
        """Return the slot of a subject, predicate or object."""
        if isinstance(node, Literal):
            return self.number(node)
        token = self.token(node)
        if token is not None:
            return self._slot(token)
        value = self.leaf_value(node)
        assert isinstance(value, Var | Const)
        return value

    def constant_slot(self, node: ParseNode) -> Slot:
        """Return the slot of a constant, as in VALUES."""
        token = self.token(node)
        if token is None or not isinstance(token.value, Quoted):
            return self.slot(node)
        if not token.value.is_term:
            hint = "It denotes the reifier of the triple, which only a variable can match. The triple term itself is <<( … )>>."
            self.problem(QUOTED_TRIPLE, "a reified triple is no constant", token.span, hint)
            return Const(RDF_TYPE)
        for part in with_quoted_parts((token,)):
            if part.kind in (SparqlTokenKind.VARIABLE, SparqlTokenKind.BLANK, SparqlTokenKind.REFERENCE):
                what = "a blank node" if part.kind is SparqlTokenKind.BLANK else part.text
                self.problem(
                    QUOTED_TRIPLE, f"{what} in a constant triple term", part.span, "Bind the term by a triple of the query, or by BIND."
                )
                return Const(RDF_TYPE)
        return self._slot(token)

    def path_predicate(self, node: ParseNode) -> Slot:
        """Return the slot of a predicate of a path."""
        token = self.token(node)
        if token is not None and isinstance(token.value, Quoted):
            self.problem(QUOTED_TRIPLE, f"{token.text} cannot be a predicate", token.span, "A predicate is an IRI or a variable.")
            return Const(RDF_TYPE)
        return self.slot(node)

    def _slot(self, token: Token) -> Slot:
        if isinstance(token.value, Quoted):
            if token.span not in self._slots:
                self._slots[token.span] = (
                    self._read_triple_term(token, token.value) if token.value.is_term else self._read_reified_triple(token.value)
                )
            return self._slots[token.span]
        if token.kind is SparqlTokenKind.BLANK and token.text != "[]" and self._bgp_of_blank.setdefault(token.text, self.bgp) != self.bgp:
            hint = "A blank node belongs to one basic graph pattern; use a variable."
            self.problem("Q116", f"{token.text} occurs in two graph patterns", token.span, hint)
        if token.kind is SparqlTokenKind.NUMBER:
            return signed_number(token)
        match self.token_value(token):
            case Var() | Const() as value:
                return value
            case Attribute(label) | TimeOf(label):
                return Var(label)  # after a reported problem

    def _read_triple_term(self, token: Token, quoted: Quoted) -> Slot:
        subject, predicate, value = map(self._slot, quoted.parts)
        slot = self._triple_term(subject, predicate, value)
        self._triple_term_spans[slot] = token.span
        return slot

    def _triple_term(self, subject: Slot, predicate: Slot, value: Slot) -> Slot:
        """Return the triple term of three slots, or the variable of a new `TermPattern`."""
        match subject, predicate, value:
            case Const(s), Const(p), Const(o):
                term = triple_term(s, p, o)
                return Const(RDF_TYPE if term is None else term)  # after a reported problem
            case _:
                node = self.fresh_blank()
                self._pending_items.append(TermPattern(node, subject, predicate, value))
                return node

    def _read_reified_triple(self, quoted: Quoted) -> Slot:
        subject, predicate, value = map(self._slot, quoted.parts)
        reifier = self.fresh_blank() if quoted.reifier is None else self._slot(quoted.reifier)
        self._add_reification(reifier, subject, predicate, value)
        return reifier

    def _add_reification(self, reifier: Slot, subject: Slot, predicate: Slot, value: Slot) -> None:
        self._pending_items.append(TriplePattern(reifier, Const(RDF_REIFIES), self._triple_term(subject, predicate, value)))

    def drain_pending(self) -> list[BgpItem]:
        """Return and remove the patterns of the quoted tokens read so far."""
        pending, self._pending_items = self._pending_items, []
        return pending

    def is_statement(self, subject: ParseNode) -> bool:
        """Return whether the subject is a reified triple that forms a whole statement.

        The predicate and object of its row are then those of its placeholder.
        """
        token = self.token(subject)
        return token is not None and isinstance(token.value, Quoted) and token.value.is_statement

    def check_subjects(self, items: Iterable[BgpItem]) -> None:
        """Report triple terms that are subjects or predicates."""
        for item in items:
            if not isinstance(item, TriplePattern):
                continue
            for slot, what in ((item.subject, "subject"), (item.predicate, "predicate")):
                if slot in self._triple_term_spans:
                    hint = "A triple term is an object. Its reifier can be a subject: << … >> instead of <<( … )>>."
                    hint = hint if what == "subject" else "A predicate is an IRI or a variable."
                    self.problem(QUOTED_TRIPLE, f"a triple term cannot be a {what}", self._triple_term_spans[slot], hint)

    # --- annotations ---

    def read_annotations(
        self, rows: list[tuple[ParseNode, ParseNode, ParseNode]], items: list[BgpItem]
    ) -> Iterator[tuple[ParseNode, ParseNode, ParseNode]]:
        """Yield the rows that are triples; add the patterns of rows that encode annotations.

        An annotation is encoded as a further object of the triple before it: a blank node, which is
        the subject of a row with the mark, and of one row per annotating triple. `:s :p :o {| :q :v
        |}` has the rows `:s :p :o`, `:s :p _:b`, `_:b mark mark` and `_:b :q :v`, of which the
        first and the last are yielded.
        """
        marks = {s: token for s, p, _ in rows if (token := self._annotation_token(p)) is not None}
        triples: list[tuple[ParseNode, ParseNode, ParseNode]] = []
        for row in rows:
            subject, predicate, value = row
            if self._annotation_token(predicate) is not None:
                continue
            mark = marks.get(value) if isinstance(value, BNode) else None
            if mark is None:
                triples.append(row)
                yield row
                continue
            assert isinstance(mark.value, Annotation)
            reifier = self.fresh_blank() if mark.value.reifier is None else self._slot(mark.value.reifier)
            self.bind_anonymous(value, reifier)
            annotated = next(o for s, p, o in reversed(triples) if s is subject and p is predicate)
            verb = self.verb(predicate)
            if verb is None:
                hint = "Only a triple with a single predicate can be annotated: write the last step of the path as a separate triple."
                self.problem(QUOTED_TRIPLE, "an annotation after a path", mark.span, hint)
            else:
                self._add_reification(reifier, self.slot(subject), verb, self.slot(annotated))

    def _annotation_token(self, predicate: ParseNode) -> Token | None:
        """Return the mark of an annotation that a predicate encodes, or None."""
        while isinstance(predicate, CompValue) and predicate.name in ("PathAlternative", "PathSequence", "PathElt"):
            part = predicate.part
            if not isinstance(part, CompValue | str):
                if len(part) != 1:
                    return None
                part = part[0]
            predicate = part
        token = self.token(predicate) if not isinstance(predicate, BNode | CompValue) else None
        return token if token is not None and token.kind is SparqlTokenKind.ANNOTATION else None
