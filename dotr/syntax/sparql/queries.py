"""Translation of rdflib's tree to SELECT queries (SPARQL 1.1, sections 18.2.4 and 18.2.5)."""

from __future__ import annotations

from collections.abc import Callable, Set
from typing import Final

from rdflib.plugins.sparql.parserutils import CompValue

from dotr.model import dataclass
from dotr.model.algebra import (
    AggregateCall,
    Attribute,
    Direction,
    Expression,
    Extend,
    Filter,
    Group,
    OrderKey,
    Pattern,
    Select,
    TimeOf,
    Var,
    is_hidden,
)
from dotr.model.places import Span
from dotr.model.terms import Variable
from dotr.model.traverse import free_variables, grouping, in_scope, subexpressions, transform
from dotr.syntax.sparql.grammar import ParseNode
from dotr.syntax.sparql.patterns import PatternReader, join


@dataclass(slots=True)
class _Columns:
    """The SELECT line: projected names, and computed columns in order."""

    names: list[str]
    computed: list[tuple[str, Expression, ParseNode]]


class QueryReader(PatternReader):
    """Reader of SELECT queries.

    `shows_keys`: `SELECT *` with GROUP BY projects the keys, as CONSTRUCT and ASK need it.
    """

    shows_keys = False

    def select(self, node: ParseNode, *, top: bool) -> Select:
        """Return a query, or a sub-query where not `top`."""
        outer, self.aggregates = self.aggregates, None
        pattern = self.where(node.where)
        constraints = pattern.conditions if top and isinstance(pattern, Filter) else ()
        result = self._apply_modifiers(node, pattern)
        self.aggregates = outer
        self._check_constraints(node, constraints, result)
        return result

    def _apply_modifiers(self, node: ParseNode, pattern: Pattern) -> Select:
        """Apply grouping, computed columns, ORDER BY, projection and slice to the WHERE pattern."""
        visible = list(in_scope(pattern))
        self.aggregates = {}
        outer, self.no_references = self.no_references, self.no_references or "in GROUP BY"
        keys = self._group_keys(node, visible)
        self.no_references = outer or "in the SELECT line"
        columns = self._columns(node, visible, keys)
        self.no_references = outer or "in HAVING"
        having = [(c, self.expression(c)) for condition in self._items(node.having, "condition") for c in self.conjuncts(condition)]
        self.no_references = outer or "in ORDER BY"
        order = [self._order_key(c) for c in self._items(node.orderby, "condition")]
        self.no_references = outer
        if node.groupby is not None or self.aggregates or node.having is not None:
            pattern, having_conditions, order = self._apply_grouping(node, pattern, keys, columns, having, order)
            if having_conditions:
                pattern = Filter(pattern, having_conditions)
        self.aggregates = None
        if node.valuesClause is not None:
            pattern = join(pattern, self._values(node.valuesClause))
        for name, expression, _ in columns.computed:
            pattern = Extend(pattern, name, expression)
        slice_ = node.limitoffset
        return Select(
            tuple(columns.names),
            pattern,
            node.modifier is not None and str(node.modifier).upper() == "DISTINCT",
            tuple(order),
            self._slice_number(slice_ and slice_.offset) or 0,
            self._slice_number(slice_ and slice_.limit),
        )

    def _group_keys(self, node: ParseNode, visible: list[str]) -> list[tuple[str, Expression]]:
        keys: list[tuple[str, Expression]] = []
        outer, self.aggregates = self.aggregates, None
        for condition in self._items(node.groupby, "condition"):
            named = isinstance(condition, CompValue) and condition.name == "GroupAs"
            expression = self.expression(condition.expr if named else condition)
            if named and condition.var is not None:
                name = self.variable(condition.var)
                if name in visible:
                    self.problem("Q111", f"?{name} has a value already", self.span(condition.var), "Give AS a new variable.")
                keys.append((name, expression))
            else:
                keys.append((expression.name if isinstance(expression, Var) else self.fresh(), expression))
        self.aggregates = outer
        return keys

    def _columns(self, node: ParseNode, visible: list[str], keys: list[tuple[str, Expression]]) -> _Columns:
        columns = _Columns([], [])
        if node.projection is None:
            if self.shows_keys and (node.groupby is not None or node.having is not None):
                columns.names = [name for name, _ in keys if not is_hidden(name)]
                return columns
            if node.groupby is not None:
                self.problem("Q112", "SELECT * with GROUP BY", self.span(node.groupby), "Name the variables that are grouped by.")
            columns.names = [v for v in visible if not is_hidden(v)]
            return columns
        for column in node.projection:
            node_ = column.var if column.var is not None else column.evar
            name = self.variable(node_)
            if column.expr is not None:
                if name in visible or name in columns.names:
                    self.problem("Q111", f"?{name} has a value already", self.span(node_), "Give AS a new variable.")
                columns.computed.append((name, self.expression(column.expr), column.expr))
            if name not in columns.names:
                columns.names.append(name)
        return columns

    def _order_key(self, node: ParseNode) -> OrderKey:
        descending = node.order is not None and str(node.order).upper() == "DESC"
        return OrderKey(self.expression(node.expr), Direction.DESCENDING if descending else Direction.ASCENDING)

    def _apply_grouping(
        self,
        node: ParseNode,
        pattern: Pattern,
        keys: list[tuple[str, Expression]],
        columns: _Columns,
        having: list[tuple[ParseNode, Expression]],
        order: list[OrderKey],
    ) -> tuple[Pattern, tuple[Expression, ...], list[OrderKey]]:
        """Return the Group, the conditions of HAVING, and the sort keys over its solutions.

        In HAVING and ORDER BY a variable that is not grouped by is one value (SAMPLE) of it
        (18.2.4.1).
        """
        assert self.aggregates is not None
        computed = [name for name, _, _ in columns.computed]
        known = {name for name, _ in keys} | set(self.aggregates.values())
        hint = "Group by it, or use one value of it with SAMPLE."
        for column in node.projection or []:
            if column.var is not None and (name := self.variable(column.var)) not in known:
                self.problem("Q112", f"?{name} is neither grouped by nor aggregated", self.span(column.var), hint)
        for name, expression, node_ in columns.computed:
            for missing in sorted({*free_variables(expression)} - known):
                self.problem("Q112", f"?{missing} is neither grouped by nor aggregated", self.span(node_), hint)
            known.add(name)
        for node_, expression in having:
            for alias in sorted({*free_variables(expression)} & {*computed}):
                self.problem("Q112", f"HAVING cannot see ?{alias}, which SELECT computes", self.span(node_), "Repeat its expression.")
        bare = known - set(computed)
        having_conditions = tuple(sample_ungrouped(e, bare, self.aggregates, self.fresh) for _, e in having)
        order = [OrderKey(sample_ungrouped(k.expression, known, self.aggregates, self.fresh), k.direction) for k in order]
        return Group(pattern, tuple(keys), tuple((name, call) for call, name in self.aggregates.items())), having_conditions, order

    def _check_constraints(self, node: ParseNode, conditions: tuple[Expression, ...], query: Select) -> None:
        """Report variables of temporal constraints that the solutions do not have.

        With DISTINCT, GROUP BY, LIMIT or OFFSET they apply to the solutions of the query.
        """
        if not (query.distinct or grouping(query.pattern) is not None or query.limit is not None or query.offset):
            return
        for condition in conditions:
            if event_references(condition):
                for name in sorted({*free_variables(condition)} - {*query.projection}):
                    message = f"?{name} must be in the SELECT line: a condition on another event needs it"
                    hint = "With DISTINCT, GROUP BY, LIMIT or OFFSET such a condition applies to the query's solutions."
                    self.problem("Q119", message, self._span_of_variable(name, node), hint)

    def _span_of_variable(self, name: str, node: ParseNode) -> Span:
        return next((t.span for t in self.tokens_of(node.where) if t.value == Var(name)), self.scan.span)

    def _slice_number(self, node: ParseNode) -> int | None:
        if node is None:
            return None
        token = self.token(node)
        assert token is not None
        if not token.text.isdigit():
            self.problem("Q101", f"{token.text} is no whole number", token.span)
            return 0
        if len(token.text) > _MAX_DIGITS:
            self.problem("Q101", f"a number of {len(token.text):,} digits", token.span, "No query has so many solutions.")
            return 0
        return int(token.text)

    @staticmethod
    def _items(node: ParseNode, key: str) -> list[ParseNode]:
        return [] if node is None else list(node[key])


_MAX_DIGITS: Final = 18
"""Maximal number of digits of LIMIT and OFFSET."""


# References of expressions to other events, and values after grouping (SPARQL 1.1, 18.2.4.1).


def event_references(expression: Expression) -> frozenset[Attribute | TimeOf]:
    """Return the attributes and times of events that an expression reads.

    A condition is a temporal constraint if there are any.
    """
    return frozenset([each for each in subexpressions(expression) if isinstance(each, Attribute | TimeOf)])


def sample_ungrouped(
    expression: Expression, known: Set[Variable], aggregates: dict[AggregateCall, Variable], fresh: Callable[[], Variable]
) -> Expression:
    """Return the expression with SAMPLE of every variable that is unknown after grouping.

    `aggregates` receives the new aggregates; `fresh` returns names for their variables.
    """

    def sample(part: Expression) -> Expression:
        if not isinstance(part, Var) or part.name in known or part.name in aggregates.values():
            return part
        call = AggregateCall("SAMPLE", False, part)
        if call not in aggregates:
            aggregates[call] = fresh()
        return Var(aggregates[call])

    return transform(expression, sample)
