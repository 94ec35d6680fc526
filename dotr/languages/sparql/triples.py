"""From quoted tokens to patterns: what a triple term, a reified triple and an annotation say of a graph (SPARQL 1.2, section 4.3).

`<<( s p o )>>` with a variable in it becomes a fresh blank node and a `TermPattern`, without one a constant. `<< s p o ~ r >>` is `r`, and
says `r rdf:reifies <<( s p o )>>`; so does `~ r` behind a triple, and what stands in `{| … |}` is said of the reifier just before it, or
of a fresh one. Invariant: what a quoted token says is said once, in the basic graph pattern where it stands.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from rdflib.plugins.sparql.parserutils import CompValue
from rdflib.term import BNode, Literal

from dotr.languages.sparql.expressions import ExpressionReader, signed_number
from dotr.languages.sparql.grammar import ParseNode
from dotr.languages.sparql.quoted_triples import QUOTED_TRIPLE, with_quoted_parts
from dotr.languages.sparql.tokens import Annotation, Quoted, SparqlTokenKind, Token, TokenScan
from dotr.model.algebra import Attribute, BgpItem, Const, Slot, TermPattern, TimeOf, TriplePattern, Var
from dotr.model.places import Span
from dotr.model.terms import RDF_REIFIES, RDF_TYPE, triple_term


class TripleReader(ExpressionReader):
    """A text whose places in triples can be read. `bgp` numbers the basic graph pattern that is being read."""

    def __init__(self, scan: TokenScan, no_references: str) -> None:
        super().__init__(scan, no_references)
        self.bgp = 0
        self._bgp_of_blank: dict[str, int] = {}  # a blank node label, and the basic graph pattern that it belongs to
        self._slots: dict[Span, Slot] = {}
        self._pending_items: list[BgpItem] = []
        self._triple_term_spans: dict[Slot, Span] = {}

    def verb(self, node: ParseNode) -> Slot | None:
        """What stands as a predicate; None: a path. The reader of paths knows how."""
        raise NotImplementedError

    # --- places ---

    def slot(self, node: ParseNode) -> Slot:
        """A place of a triple."""
        if isinstance(node, Literal):
            return self.number(node)
        token = self.token(node)
        if token is not None:
            return self._slot(token)
        noun = self.leaf_value(node)
        assert isinstance(noun, Var | Const)
        return noun

    def constant_slot(self, node: ParseNode) -> Slot:
        """A constant, as in VALUES or a path."""
        token = self.token(node)
        if token is None or not isinstance(token.value, Quoted):
            return self.slot(node)
        if not token.value.is_term:
            hint = "It stands for what reifies the triple, which is a variable's to find. The triple term itself is <<( … )>>."
            self.problem(QUOTED_TRIPLE, "a reified triple is no constant", token.span, hint)
            return Const(RDF_TYPE)
        for part in with_quoted_parts((token,)):
            if part.kind in (SparqlTokenKind.VARIABLE, SparqlTokenKind.BLANK, SparqlTokenKind.REFERENCE):
                what = "a blank node" if part.kind is SparqlTokenKind.BLANK else part.text
                self.problem(
                    QUOTED_TRIPLE, f"{what} in a constant triple term", part.span, "Bind the term in the query's triples, or by BIND."
                )
                return Const(RDF_TYPE)
        return self._slot(token)

    def path_predicate(self, node: ParseNode) -> Slot:
        """A step of a path."""
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
            self.problem("Q116", f"{token.text} stands in two graph patterns", token.span, hint)
        if token.kind is SparqlTokenKind.NUMBER:
            return signed_number(token)
        match self.token_value(token):
            case Var() | Const() as noun:
                return noun
            case Attribute(label) | TimeOf(label):
                return Var(label)  # told as a problem

    def _read_triple_term(self, token: Token, quoted: Quoted) -> Slot:
        subject, predicate, value = map(self._slot, quoted.parts)
        slot = self._triple_term(subject, predicate, value)
        self._triple_term_spans[slot] = token.span
        return slot

    def _triple_term(self, subject: Slot, predicate: Slot, value: Slot) -> Slot:
        """The triple term of three places."""
        match subject, predicate, value:
            case Const(s), Const(p), Const(o):
                term = triple_term(s, p, o)
                return Const(RDF_TYPE if term is None else term)  # what is none has been told as a problem
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
        """What the quoted tokens that were read since it was last asked have said."""
        said, self._pending_items = self._pending_items, []
        return said

    def is_statement(self, subject: ParseNode) -> bool:
        """Whether a triple was made up around a reified triple that is a whole statement."""
        token = self.token(subject)
        return token is not None and isinstance(token.value, Quoted) and token.value.is_statement

    def check_subjects(self, items: Iterable[BgpItem]) -> None:
        for item in items:
            if not isinstance(item, TriplePattern):
                continue
            for slot, what in ((item.subject, "subject"), (item.predicate, "predicate")):
                if slot in self._triple_term_spans:
                    hint = "A triple term is an object. As a subject stands what reifies it: << … >> in place of <<( … )>>."
                    hint = hint if what == "subject" else "A predicate is an IRI or a variable."
                    self.problem(QUOTED_TRIPLE, f"a triple term cannot be a {what}", self._triple_term_spans[slot], hint)

    # --- annotations ---

    def read_annotations(
        self, rows: list[tuple[ParseNode, ParseNode, ParseNode]], found: list[BgpItem]
    ) -> Iterator[tuple[ParseNode, ParseNode, ParseNode]]:
        """The rows without those that stand for annotations, which are read on the way: each is a further object of the triple before it,
        a node of which the annotation's mark is said, and then what the annotation says."""
        marks = {s: token for s, p, _ in rows if (token := self._annotation_token(p)) is not None}
        before: list[tuple[ParseNode, ParseNode, ParseNode]] = []
        for row in rows:
            subject, predicate, value = row
            if self._annotation_token(predicate) is not None:
                continue
            mark = marks.get(value) if isinstance(value, BNode) else None
            if mark is None:
                before.append(row)
                yield row
                continue
            assert isinstance(mark.value, Annotation)
            reifier = self.fresh_blank() if mark.value.reifier is None else self._slot(mark.value.reifier)
            self.bind_anonymous(value, reifier)
            annotated = next(o for s, p, o in reversed(before) if s is subject and p is predicate)
            verb = self.verb(predicate)
            if verb is None:
                hint = "Only the triple of a single predicate can be annotated: write the path's last step as a triple of its own."
                self.problem(QUOTED_TRIPLE, "an annotation behind a path", mark.span, hint)
            else:
                self._add_reification(reifier, self.slot(subject), verb, self.slot(annotated))

    def _annotation_token(self, predicate: ParseNode) -> Token | None:
        """The mark of an annotation that a predicate is."""
        while isinstance(predicate, CompValue) and predicate.name in ("PathAlternative", "PathSequence", "PathElt"):
            part = predicate.part
            if not isinstance(part, CompValue | str):
                if len(part) != 1:
                    return None
                part = part[0]
            predicate = part
        token = self.token(predicate) if not isinstance(predicate, BNode | CompValue) else None
        return token if token is not None and token.kind is SparqlTokenKind.ANNOTATION else None
