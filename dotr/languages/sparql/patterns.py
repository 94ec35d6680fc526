"""From rdflib's tree to graph patterns (SPARQL 1.1, section 18.2.2), with its rules of scope checked.

Sequences and inverses of plain links become triple patterns over fresh blank nodes, as section 18.2.2.4 has it.
"""

from __future__ import annotations

from typing import Final

from pyparsing import ParseResults
from rdflib.plugins.sparql.parserutils import CompValue
from rdflib.term import BNode, Literal

from dotr.languages.sparql.grammar import Node
from dotr.languages.sparql.reading import Reading
from dotr.languages.sparql.scope import in_scope
from dotr.languages.sparql.tokens import Kind, Scan
from dotr.model.algebra import (
    Alternative,
    Bgp,
    Call,
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
    TriplePattern,
    Union,
    Values,
    Var,
)
from dotr.model.terms import RDF_TYPE, Term

EMPTY: Final = Bgp(())


class Patterns(Reading):
    """A text whose patterns can be read."""

    def __init__(self, scan: Scan, forbidden: str) -> None:
        super().__init__(scan, forbidden)
        self._blanks: dict[str, int] = {}  # a blank node label, and the basic graph pattern that it belongs to
        self._bgps = 0
        self._bgp = 0

    def select(self, node: Node, *, top: bool) -> Select:
        """A query, or a sub-query; the reader of queries knows how."""
        raise NotImplementedError

    def where(self, node: Node) -> Pattern:
        return self._sub_select(node) if node.name == "SubSelect" else self._group(node)

    # --- groups ---

    def group(self, node: Node) -> Pattern:
        return self.where(node)

    def _sub_select(self, node: Node) -> Select:
        before, self.forbidden = self.forbidden, self.forbidden or "in a sub-query"
        query = self.select(node, top=False)
        self.forbidden = before
        return query

    def _within(self, place: str, node: Node) -> Pattern:
        before, self.forbidden = self.forbidden, self.forbidden or place
        pattern = self.group(node)
        self.forbidden = before
        return pattern

    def _group(self, node: Node) -> Pattern:
        result, conditions = self._parts(node)
        return Filter(result, conditions) if conditions else result

    def _parts(self, node: Node) -> tuple[Pattern, tuple[Expression, ...]]:
        """A group's parts from the left, and the FILTERs that apply to all of it (18.2.2.6)."""
        result: Pattern = EMPTY
        conditions: list[Expression] = []
        triples: list[TriplePattern | PathPattern] = []
        self._bgps += 1
        self._bgp = self._bgps

        def close() -> None:
            nonlocal result, triples
            if triples:
                result = join(result, Bgp(tuple(triples)))
                triples = []
            self._bgps += 1
            self._bgp = self._bgps

        for part in node.part or []:
            if part.name == "Filter":
                held = self._bgp
                conditions += [self.expression(c) for c in self.conjuncts(part.expr)]
                self._bgp = held
                continue
            if part.name == "TriplesBlock":
                before, self.forbidden = self.forbidden, self.forbidden or "in a triple"
                triples += self._triples(part)
                self.forbidden = before
                continue
            close()
            match part.name:
                case "GroupOrUnionGraphPattern":
                    result = join(result, self._union(part))
                case "OptionalGraphPattern":
                    result = self._optional(part.graph, result)
                case "MinusGraphPattern":
                    result = Minus(result, self._within("inside MINUS", part.graph))
                case "Bind":
                    result = self._bind(part, result)
                case "InlineData":
                    result = join(result, self._values(part))
                case name:
                    raise AssertionError(f"a part of a group that words.py should have refused: {name}")
            close()
        close()
        return result, tuple(conditions)

    def _optional(self, node: Node, before: Pattern) -> Pattern:
        """The FILTERs of OPTIONAL's own group see both sides; those of a group inside it do not."""
        held, self.forbidden = self.forbidden, self.forbidden or "inside OPTIONAL"
        right, conditions = (self._sub_select(node), ()) if node.name == "SubSelect" else self._parts(node)
        self.forbidden = held
        return LeftJoin(before, right, _conjunction(conditions) if conditions else None)

    def _union(self, part: Node) -> Pattern:
        place = "in a branch of UNION" if len(part.graph) > 1 else "in a nested group"
        result = self._within(place, part.graph[0])
        for branch in part.graph[1:]:
            result = Union(result, self._within(place, branch))
        return result

    def _bind(self, part: Node, before: Pattern) -> Pattern:
        held, self.forbidden = self.forbidden, self.forbidden or "in BIND"
        name, expression = self.variable(part.var), self.expression(part.expr)
        self.forbidden = held
        if name in in_scope(before):
            self.problem("Q111", f"?{name} has a value already", self.span(part.var), "Give BIND a new variable, or compare in a FILTER.")
        return Extend(before, name, expression)

    def _values(self, node: Node) -> Values:
        held, self.forbidden = self.forbidden, self.forbidden or "in VALUES"
        names = tuple(self.variable(v) for v in node.var or [])
        rows: list[tuple[Term | None, ...]] = []
        for row in node.value or []:
            cells = list(row) if isinstance(row, ParseResults) else [row]
            rows.append(tuple(None if c == "UNDEF" else self._constant(c) for c in cells))
            if len(cells) != len(names):
                message = f"a row of {len(cells)} for {len(names)} variables"
                self.problem("Q114", message, self.span(row if cells else node), "UNDEF stands for no value.")
        for name in {n for n in names if names.count(n) > 1}:
            self.problem("Q111", f"?{name} stands twice in VALUES", self.span(node.var))
        self.forbidden = held
        return Values(names, tuple(rows))

    def _constant(self, node: Node) -> Term:
        slot = self._slot(node)
        assert isinstance(slot, Const)
        return slot.term

    # --- triples and paths ---

    def _triples(self, block: Node) -> list[TriplePattern | PathPattern]:
        found: list[TriplePattern | PathPattern] = []
        for flat in block.triples:
            parts = list(flat)
            for s, p, o in zip(parts[::3], parts[1::3], parts[2::3], strict=True):
                subject, object_ = self._slot(s), self._slot(o)
                if isinstance(p, CompValue) and p.name.startswith("Path"):
                    self._along(subject, self._path(p), object_, found)
                else:
                    found.append(TriplePattern(subject, self._slot(p), object_))
        return found

    def _slot(self, node: Node) -> Slot:
        if isinstance(node, Literal):
            return self.number(node)
        token = self.token(node)
        if isinstance(node, BNode) and token is not None and self._blanks.setdefault(token.text, self._bgp) != self._bgp:
            hint = "A blank node belongs to one basic graph pattern; use a variable."
            self.problem("Q116", f"{token.text} stands in two graph patterns", token.span, hint)
        noun = self.leaf(node)
        return noun if isinstance(noun, Var | Const) else Var(noun.label)

    def _along(self, subject: Slot, path: Path, object_: Slot, found: list[TriplePattern | PathPattern]) -> None:
        match path:
            case Link(predicate):
                found.append(TriplePattern(subject, Const(predicate), object_))
            case Inverse(inner):
                self._along(object_, inner, subject, found)
            case Sequence(left, right):
                middle = self.fresh_blank()
                self._along(subject, left, middle, found)
                self._along(middle, right, object_, found)
            case _:
                found.append(PathPattern(subject, path, object_))

    def _path(self, node: Node) -> Path:
        if not isinstance(node, CompValue):
            return Link(self._constant(node))
        match node.name:
            case "PathAlternative" | "PathSequence":
                parts = [self._path(p) for p in node.part]
                result = parts[0]
                for part in parts[1:]:
                    result = Alternative(result, part) if node.name == "PathAlternative" else Sequence(result, part)
                return result
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

    def _negated(self, node: Node) -> Negated:
        forward: list[Term] = []
        backward: list[Term] = []
        for part in node.part or []:
            token = self.token(part)
            inverse = token is not None and token.kind is Kind.INVERSE
            (backward if inverse else forward).append(self._constant(part))
        return Negated(tuple(forward) if forward or not backward else None, tuple(backward) or None)


def join(left: Pattern, right: Pattern) -> Pattern:
    return right if left == EMPTY else left if right == EMPTY else Join(left, right)


def _conjunction(conditions: tuple[Expression, ...]) -> Expression:
    result = conditions[0]
    for condition in conditions[1:]:
        result = Call("&&", (result, condition))
    return result
