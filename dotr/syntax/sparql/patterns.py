"""Translation of rdflib's tree to graph patterns (SPARQL 1.1, section 18.2.2), with scope checks.

Sequences and inverses of single predicates become triple patterns over fresh blank nodes (section
18.2.2.4). A triple term with variables becomes a fresh blank node and a `TermPattern`
(`triples.py`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from pyparsing import ParseResults
from rdflib.plugins.sparql.parserutils import CompValue
from rdflib.term import BNode, Literal

from dotr.model.algebra import (
    Alternative,
    Attribute,
    Bgp,
    BgpItem,
    Const,
    Expression,
    Extend,
    Filter,
    Inverse,
    Join,
    LeftJoin,
    Link,
    Minus,
    Negated,
    Path,
    PathPattern,
    Pattern,
    Repeat,
    Select,
    Sequence,
    Slot,
    TermPattern,
    TimeOf,
    TriplePattern,
    Union,
    Values,
    Var,
    chain,
    fold_balanced,
)
from dotr.model.places import Span
from dotr.model.terms import RDF_REIFIES, RDF_TYPE, Term, triple_term
from dotr.model.traverse import in_scope, subpatterns
from dotr.syntax.sparql.expressions import ExpressionReader, signed_number
from dotr.syntax.sparql.grammar import ParseNode
from dotr.syntax.sparql.quoted_triples import QUOTED_TRIPLE, with_quoted_parts
from dotr.syntax.sparql.tokens import Annotation, Quoted, SparqlTokenKind, Token, TokenScan

# Translation of quoted tokens to patterns: triple terms, reified triples, annotations.
#
# - `<<( s p o )>>`: a constant, or (with a variable) a fresh blank node and a `TermPattern`.
# - `<< s p o ~ r >>`: `r`, and the pattern `r rdf:reifies <<( s p o )>>`.
# - `~ r` after a triple: the same pattern; triples in `{| … |}` have the reifier before it, or a
#   fresh one, as subject.
#
# Invariant: the patterns of a quoted token are added once, to the basic graph pattern of the token.
# Source: SPARQL 1.2, section 4.3.


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


EMPTY_BGP: Final = Bgp(())

_MAX_PARTS: Final = 128
"""Maximal number of parts of a group, without triples and FILTERs."""

_MAX_TRIPLES: Final = 512
"""Maximal number of triples that are joined with each other: each is a nested loop of the join."""

_MAX_STEPS: Final = 256
"""Maximal number of steps of a path: each is a join with the step before it."""


def _steps(path: Path) -> int:
    """The number of steps of a sequence; 1 for any other path."""
    return _steps(path.left) + _steps(path.right) if isinstance(path, Sequence) else 1


def _joined(pattern: Pattern) -> int:
    """The greatest number of triples that one solution of a pattern joins."""
    if isinstance(pattern, Bgp):
        return len(pattern.patterns)
    inside = map(_joined, subpatterns(pattern))
    return sum(inside) if isinstance(pattern, Join) else max(inside, default=0)


class PatternReader(TripleReader):
    """Reader of graph patterns. `condition_places`: the span of each conjunct of a FILTER."""

    def __init__(self, scan: TokenScan, no_references: str) -> None:
        super().__init__(scan, no_references)
        self._bgp_count = 0
        self.condition_places: dict[Expression, Span] = {}

    def select(self, node: ParseNode, *, top: bool) -> Select:
        """Return a query or sub-query."""
        raise NotImplementedError

    def where(self, node: ParseNode) -> Pattern:
        """Return the pattern of a group or of a sub-query."""
        return self._sub_select(node) if node.name == "SubSelect" else self._group(node)

    def window_or_match(self, node: ParseNode) -> Pattern:
        """Return the pattern of a WINDOW block or of MATCH, parts of continuous queries alone."""
        raise NotImplementedError

    # --- groups ---

    def group(self, node: ParseNode) -> Pattern:
        """Return the pattern of a group."""
        return self.where(node)

    def _sub_select(self, node: ParseNode) -> Select:
        outer, self.no_references = self.no_references, self.no_references or "in a sub-query"
        query = self.select(node, top=False)
        self.no_references = outer
        return query

    def nested_group(self, location: str, node: ParseNode) -> Pattern:
        """Return the pattern of a group in which `M.?v` is refused; `location` is for messages."""
        outer, self.no_references = self.no_references, self.no_references or location
        pattern = self.group(node)
        self.no_references = outer
        return pattern

    def _group(self, node: ParseNode) -> Pattern:
        result, conditions = self._group_parts(node)
        return Filter(result, conditions) if conditions else result

    def _group_parts(self, node: ParseNode) -> tuple[Pattern, tuple[Expression, ...]]:
        """Return the parts of a group, joined from the left, and its FILTERs (18.2.2.6)."""
        if sum(part.name not in ("Filter", "TriplesBlock") for part in node.part or []) > _MAX_PARTS:
            hint = "Split it into several queries, or into nested groups."
            self.problem("Q117", f"a group of more than {_MAX_PARTS} parts, each joined to those before it", self.span(node), hint)
            return EMPTY_BGP, ()
        result: Pattern = EMPTY_BGP
        conditions: list[Expression] = []
        triples: list[BgpItem] = []
        self._bgp_count += 1
        self.bgp = self._bgp_count

        def close() -> None:
            nonlocal result, triples
            if triples:
                result = join(result, Bgp(tuple(triples)))
                triples = []
            self._bgp_count += 1
            self.bgp = self._bgp_count

        for part in node.part or []:
            if part.name == "Filter":
                current_bgp = self.bgp
                for conjunct in self.conjuncts(part.expr):
                    conditions.append(self.expression(conjunct))
                    self.condition_places.setdefault(conditions[-1], self.span(conjunct))
                self.bgp = current_bgp
                continue
            if part.name == "TriplesBlock":
                outer, self.no_references = self.no_references, self.no_references or "in a triple"
                triples += self._triples(part)
                self.no_references = outer
                continue
            close()
            match part.name:
                case "GroupOrUnionGraphPattern":
                    result = join(result, self._union(part))
                case "OptionalGraphPattern":
                    result = self._optional(part.graph, result)
                case "MinusGraphPattern":
                    result = Minus(result, self.nested_group("inside MINUS", part.graph))
                case "Bind":
                    result = self._bind(part, result)
                case "InlineData":
                    result = join(result, self._values(part))
                case "GraphGraphPattern":
                    result = join(result, self.window_or_match(part))
                case name:
                    raise AssertionError(f"a part of a group that keywords.py should have refused: {name}")
            close()
        close()
        if _joined(result) > _MAX_TRIPLES:
            hint = "Split it into several queries, or let a rule of a .dlog file name a part of it."
            self.problem("Q117", f"a group of more than {_MAX_TRIPLES} triples, each joined to those before it", self.span(node), hint)
            return EMPTY_BGP, ()
        return result, tuple(conditions)

    def _optional(self, node: ParseNode, left: Pattern) -> Pattern:
        """Return the LeftJoin of OPTIONAL; its own FILTERs apply to the joined solutions."""
        outer, self.no_references = self.no_references, self.no_references or "inside OPTIONAL"
        right, conditions = (self._sub_select(node), ()) if node.name == "SubSelect" else self._group_parts(node)
        self.no_references = outer
        return LeftJoin(left, right, _conjunction(conditions) if conditions else None)

    def _union(self, part: ParseNode) -> Pattern:
        location = "in a branch of UNION" if len(part.graph) > 1 else "in a nested group"
        return fold_balanced([self.nested_group(location, branch) for branch in part.graph], Union)

    def _bind(self, part: ParseNode, left: Pattern) -> Pattern:
        outer, self.no_references = self.no_references, self.no_references or "in BIND"
        name, expression = self.variable(part.var), self.expression(part.expr)
        self.no_references = outer
        if name in in_scope(left):
            self.problem("Q111", f"?{name} has a value already", self.span(part.var), "Give BIND a new variable, or compare in a FILTER.")
        return Extend(left, name, expression)

    def _values(self, node: ParseNode) -> Values:
        outer, self.no_references = self.no_references, self.no_references or "in VALUES"
        names = tuple(self.variable(v) for v in node.var or [])
        rows: list[tuple[Term | None, ...]] = []
        for row in node.value or []:
            cells = list(row) if isinstance(row, ParseResults) else [row]
            rows.append(tuple(None if c == "UNDEF" else self._constant(c) for c in cells))
            if len(cells) != len(names):
                message = f"a row of {len(cells)} for {len(names)} variables"
                self.problem("Q114", message, self.span(row if cells else node), "UNDEF is an unbound variable.")
        for name in {n for n in names if names.count(n) > 1}:
            self.problem("Q111", f"?{name} occurs twice in VALUES", self.span(node.var))
        self.no_references = outer
        return Values(names, tuple(rows))

    def _constant(self, node: ParseNode) -> Term:
        slot = self.constant_slot(node)
        return slot.term if isinstance(slot, Const) else RDF_TYPE  # after a reported problem

    def _path_predicate(self, node: ParseNode) -> Term:
        slot = self.path_predicate(node)
        return slot.term if isinstance(slot, Const) else RDF_TYPE

    # --- triples and paths ---

    def _triples(self, block: ParseNode) -> list[BgpItem]:
        """Return the patterns of a block of triples, its paths, quoted triples and annotations."""
        items: list[BgpItem] = []
        for flat in block.triples:
            parts = list(flat)
            rows = list(zip(parts[::3], parts[1::3], parts[2::3], strict=True))
            for s, p, o in self.read_annotations(rows, items):
                subject, object_ = self.slot(s), self.slot(o)
                if self.is_statement(s):
                    continue
                if isinstance(p, CompValue) and p.name.startswith("Path"):
                    self._append_path(subject, self._path(p), object_, items)
                else:
                    items.append(TriplePattern(subject, self.slot(p), object_))
        items += self.drain_pending()
        self.check_subjects(items)
        return items

    def verb(self, node: ParseNode) -> Slot | None:
        """Return the slot of a single predicate; None for any other path."""
        if not (isinstance(node, CompValue) and node.name.startswith("Path")):
            return self.slot(node)
        path = self._path(node)
        return Const(path.predicate) if isinstance(path, Link) else None

    def _append_path(self, subject: Slot, path: Path, object_: Slot, items: list[BgpItem]) -> None:
        """Append the patterns of a path to `items`.

        `?a ^:p/:q ?b` gives `_:.0 :p ?a . _:.0 :q ?b`.
        """
        match path:
            case Link(predicate):
                items.append(TriplePattern(subject, Const(predicate), object_))
            case Inverse(inner):
                self._append_path(object_, inner, subject, items)
            case Sequence(left, right):
                middle = self.fresh_blank()
                self._append_path(subject, left, middle, items)
                self._append_path(middle, right, object_, items)
            case _:
                items.append(PathPattern(subject, path, object_))

    def _path(self, node: ParseNode) -> Path:
        if not isinstance(node, CompValue):
            return Link(self._path_predicate(node))
        match node.name:
            case "PathAlternative" | "PathSequence":
                parts = [self._path(p) for p in node.part]
                if node.name == "PathSequence" and sum(map(_steps, parts)) > _MAX_STEPS:
                    hint = "Split it: a rule of a .dlog file can name a part of it."
                    self.problem("Q117", f"a path of more than {_MAX_STEPS} steps", self.span(node), hint)
                    return parts[0]
                return fold_balanced(parts, Alternative if node.name == "PathAlternative" else Sequence)
            case "PathEltOrInverse":
                return Inverse(self._path(node.part))
            case "PathElt":
                path = self._path(node.part)
                match node.mod:
                    case "*":
                        return Repeat(path, 0, True)
                    case "+":
                        return Repeat(path, 1, True)
                    case "?":
                        return Repeat(path, 0, False)
                return path
            case "PathNegatedPropertySet":
                return self._negated(node)
            case _:
                self.problem("Q101", "a DISTINCT path is not SPARQL 1.1", self.span(node))
                return Link(RDF_TYPE)

    def _negated(self, node: ParseNode) -> Negated:
        forward: list[Term] = []
        backward: list[Term] = []
        for part in node.part or []:
            token = self.token(part)
            inverse = token is not None and token.kind is SparqlTokenKind.INVERSE
            (backward if inverse else forward).append(self._path_predicate(part))
        return Negated(tuple(forward) if forward or not backward else None, tuple(backward) or None)


def join(left: Pattern, right: Pattern) -> Pattern:
    """Return the join of two patterns; of an empty pattern and another one, the other one."""
    return right if left == EMPTY_BGP else left if right == EMPTY_BGP else Join(left, right)


def _conjunction(conditions: tuple[Expression, ...]) -> Expression:
    return chain(["&&"] * (len(conditions) - 1), conditions)
