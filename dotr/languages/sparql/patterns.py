"""From rdflib's tree to graph patterns and SELECT queries (SPARQL 1.1, section 18.2), with its rules of scope checked.

Sequences and inverses of plain links become triple patterns over fresh blank nodes, as section 18.2.2.4 has it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from pyparsing import ParseResults
from rdflib.plugins.sparql.parserutils import CompValue
from rdflib.term import BNode, Literal

from dotr.languages.sparql.grammar import Node
from dotr.languages.sparql.reading import Reading
from dotr.languages.sparql.scope import in_scope, references, sampled, variables
from dotr.languages.sparql.tokens import Kind, Scan
from dotr.model.algebra import (
    Alternative,
    Bgp,
    Call,
    Const,
    Direction,
    Expression,
    Extend,
    Filter,
    Group,
    Inverse,
    Join,
    LeftJoin,
    Link,
    Minus,
    Negated,
    OrderKey,
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
from dotr.model.places import Span
from dotr.model.terms import RDF_TYPE, Term

EMPTY: Final = Bgp(())


@dataclass(slots=True)
class _Columns:
    """The SELECT line: what is projected, and the computed columns in order."""

    names: list[str]
    computed: list[tuple[str, Expression, Node]]


class Patterns(Reading):
    """A text whose patterns can be read."""

    def __init__(self, scan: Scan, forbidden: str) -> None:
        super().__init__(scan, forbidden)
        self._blanks: dict[str, int] = {}  # a blank node label, and the basic graph pattern that it belongs to
        self._bgps = 0
        self._bgp = 0

    # --- queries ---

    def select(self, node: Node, *, top: bool) -> Select:
        outer, self.aggregates = self.aggregates, None
        pattern = self.where(node.where, top=top)
        constraints = pattern.conditions if top and isinstance(pattern, Filter) else ()
        result = self._modified(node, pattern)
        self.aggregates = outer
        self._check_constraints(node, constraints, result)
        return result

    def where(self, node: Node, *, top: bool) -> Pattern:
        if node.name == "SubSelect":
            return self._sub_select(node)
        return self._group(node, top=top)

    def _modified(self, node: Node, pattern: Pattern) -> Select:
        """Grouping, computed columns, order, projection, slice."""
        visible = list(in_scope(pattern))
        self.aggregates = {}
        before, self.forbidden = self.forbidden, self.forbidden or "in GROUP BY"
        keys = self._keys(node, visible)
        self.forbidden = before or "in the SELECT line"
        columns = self._columns(node, visible)
        self.forbidden = before or "in HAVING"
        having = [(c, self.expression(c)) for condition in self._list(node.having, "condition") for c in self.conjuncts(condition)]
        self.forbidden = before or "in ORDER BY"
        order = [self._order(c) for c in self._list(node.orderby, "condition")]
        self.forbidden = before
        if node.groupby is not None or self.aggregates or node.having is not None:
            pattern, having_, order = self._grouped(node, pattern, keys, columns, having, order)
            if having_:
                pattern = Filter(pattern, having_)
        self.aggregates = None
        if node.valuesClause is not None:
            pattern = _join(pattern, self._values(node.valuesClause))
        for name, expression, _ in columns.computed:
            pattern = Extend(pattern, name, expression)
        slice_ = node.limitoffset
        return Select(
            tuple(columns.names),
            pattern,
            node.modifier is not None and str(node.modifier).upper() == "DISTINCT",
            tuple(order),
            self._count(slice_ and slice_.offset) or 0,
            self._count(slice_ and slice_.limit),
        )

    def _keys(self, node: Node, visible: list[str]) -> list[tuple[str, Expression]]:
        keys: list[tuple[str, Expression]] = []
        held, self.aggregates = self.aggregates, None
        for condition in self._list(node.groupby, "condition"):
            named = isinstance(condition, CompValue) and condition.name == "GroupAs"
            expression = self.expression(condition.expr if named else condition)
            if named and condition.var is not None:
                name = self.variable(condition.var)
                if name in visible:
                    self.problem("Q111", f"?{name} has a value already", self.span(condition.var), "Give AS a new variable.")
                keys.append((name, expression))
            else:
                keys.append((expression.name if isinstance(expression, Var) else self.fresh(), expression))
        self.aggregates = held
        return keys

    def _columns(self, node: Node, visible: list[str]) -> _Columns:
        columns = _Columns([], [])
        if node.projection is None:
            if node.groupby is not None:
                self.problem("Q112", "SELECT * with GROUP BY", self.span(node.groupby), "Name the variables that are grouped by.")
            columns.names = [v for v in visible if v[0] not in "_."]
            return columns
        for column in node.projection:
            place = column.var if column.var is not None else column.evar
            name = self.variable(place)
            if column.expr is not None:
                if name in visible or name in columns.names:
                    self.problem("Q111", f"?{name} has a value already", self.span(place), "Give AS a new variable.")
                columns.computed.append((name, self.expression(column.expr), column.expr))
            if name not in columns.names:
                columns.names.append(name)
        return columns

    def _order(self, node: Node) -> OrderKey:
        descending = node.order is not None and str(node.order).upper() == "DESC"
        return OrderKey(self.expression(node.expr), Direction.DESCENDING if descending else Direction.ASCENDING)

    def _grouped(
        self,
        node: Node,
        pattern: Pattern,
        keys: list[tuple[str, Expression]],
        columns: _Columns,
        having: list[tuple[Node, Expression]],
        order: list[OrderKey],
    ) -> tuple[Pattern, tuple[Expression, ...], list[OrderKey]]:
        """The Group under all that follows; HAVING and ORDER BY see one value of a variable that is not grouped by (18.2.4.1)."""
        assert self.aggregates is not None
        computed = [name for name, _, _ in columns.computed]
        known = {name for name, _ in keys} | set(self.aggregates.values())
        hint = "Group by it, or take one value of it with SAMPLE."
        for column in node.projection or []:
            if column.var is not None and (name := self.variable(column.var)) not in known:
                self.problem("Q112", f"?{name} is neither grouped by nor aggregated", self.span(column.var), hint)
        for name, expression, place in columns.computed:
            for missing in sorted(variables(expression) - known):
                self.problem("Q112", f"?{missing} is neither grouped by nor aggregated", self.span(place), hint)
            known.add(name)
        for place, expression in having:
            for alias in sorted(variables(expression) & set(computed)):
                self.problem("Q112", f"HAVING cannot see ?{alias}, which SELECT computes", self.span(place), "Repeat its expression.")
        bare = known - set(computed)
        having_ = tuple(sampled(e, bare, self.aggregates, self.fresh) for _, e in having)
        order = [OrderKey(sampled(k.expression, known, self.aggregates, self.fresh), k.direction) for k in order]
        return Group(pattern, tuple(keys), tuple((name, call) for call, name in self.aggregates.items())), having_, order

    def _check_constraints(self, node: Node, conditions: tuple[Expression, ...], query: Select) -> None:
        """With DISTINCT, GROUP BY or LIMIT a temporal constraint applies to the solutions, so they must show what it needs."""
        grouped = node.groupby is not None or node.having is not None
        if not (query.distinct or grouped or query.limit is not None or query.offset):
            return
        for condition in conditions:
            if references(condition):
                for name in sorted(variables(condition) - set(query.projection)):
                    message = f"?{name} must be in the SELECT line: a condition on another event needs it"
                    hint = "With DISTINCT, GROUP BY, LIMIT or OFFSET such a condition applies to the query's solutions."
                    self.problem("Q119", message, self._place_of(name, node), hint)

    def _place_of(self, name: str, node: Node) -> Span:
        return next((t.span for t in self.tokens_of(node.where) if t.noun == Var(name)), self.scan.span)

    def _count(self, node: Node) -> int | None:
        if node is None:
            return None
        token = self.token(node)
        assert token is not None
        if not token.text.isdigit():
            self.problem("Q101", f"{token.text} is no whole number", token.span)
            return 0
        return int(token.text)

    @staticmethod
    def _list(node: Node, key: str) -> list[Node]:
        return [] if node is None else list(node[key])

    # --- groups ---

    def group(self, node: Node) -> Pattern:
        return self.where(node, top=False)

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

    def _group(self, node: Node, *, top: bool) -> Pattern:
        """A group's parts from the left; its FILTERs apply to all of it (18.2.2.6)."""
        result: Pattern = EMPTY
        conditions: list[Expression] = []
        triples: list[TriplePattern | PathPattern] = []
        self._bgps += 1
        self._bgp = self._bgps

        def close() -> None:
            nonlocal result, triples
            if triples:
                result = _join(result, Bgp(tuple(triples)))
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
                    result = _join(result, self._union(part))
                case "OptionalGraphPattern":
                    right = self._within("inside OPTIONAL", part.graph)
                    condition = None
                    if isinstance(right, Filter):
                        condition, right = _conjunction(right.conditions), right.pattern
                    result = LeftJoin(result, right, condition)
                case "MinusGraphPattern":
                    result = Minus(result, self._within("inside MINUS", part.graph))
                case "Bind":
                    result = self._bind(part, result)
                case "InlineData":
                    result = _join(result, self._values(part))
                case name:
                    raise AssertionError(f"a part of a group that words.py should have refused: {name}")
            close()
        close()
        return Filter(result, tuple(conditions)) if conditions else result

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


def _join(left: Pattern, right: Pattern) -> Pattern:
    return right if left == EMPTY else left if right == EMPTY else Join(left, right)


def _conjunction(conditions: tuple[Expression, ...]) -> Expression:
    result = conditions[0]
    for condition in conditions[1:]:
        result = Call("&&", (result, condition))
    return result
