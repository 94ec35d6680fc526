"""Pass 5: parses the embedded texts: queries and expressions as SPARQL, templates as Turtle.

A query is split into its SELECT, which stage one evaluates, and its temporal constraints (FILTER
conjuncts with `M.?v` or `time(M)`), which stage two evaluates.

Before: `SELECT ?r WHERE { ?r :is_in ?x FILTER(?x = Smoke.?room1) }`.
After: `SELECT ?r WHERE { ?r :is_in ?x }` and `?x = Smoke.?room1`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TypeVar

from dotr.errors.diagnostics import Diagnostic, Refused
from dotr.languages.rules.program import ProgramDraft, QueryDraft, RoleDraft, RoleOrigin, RuleDraft, SplitQuery
from dotr.languages.rules.syntax import ByLabel, Inline, TicksSyntax
from dotr.model.algebra import Bgp, Select
from dotr.model.places import Span
from dotr.model.terms import Label, Prefixes
from dotr.syntax.sparql import ConditionPlaces, parse_expression, parse_filters, parse_select, scan_references, split_constraints
from dotr.syntax.turtle.parser import parse_template

_Read = TypeVar("_Read")


@dataclass(slots=True)
class _FragmentReader:
    """Reader of embedded texts; collects the errors of their parsers in `problems`."""

    problems: list[Diagnostic] = field(default_factory=list)

    def read(self, parser: Callable[[Span, Prefixes], _Read], span: Span, prefixes: Prefixes) -> _Read | None:
        """The result of a parser for a span; None after an error."""
        try:
            return parser(span, prefixes)
        except Refused as refused:
            self.problems += refused.diagnostics
            return None

    def split_query(self, span: Span, prefixes: Prefixes) -> SplitQuery | None:
        """The query in a span, split from its temporal constraints; None after an error."""
        places: ConditionPlaces = {}
        select = self.read(partial(parse_select, places=places), span, prefixes)
        if select is None:
            return None
        return SplitQuery(span, *split_constraints(select), scan_references(span), places)


def read_fragments(program: ProgramDraft) -> ProgramDraft:
    """Parse all embedded texts; reports the errors of the SPARQL and Turtle parsers."""
    reader = _FragmentReader()
    queries = tuple(replace(q, query=reader.split_query(q.syntax.text, q.prefixes)) for q in program.queries)
    shared = replace(program, queries=queries).shared_queries
    rules = tuple(_read_rule(reader, rule, shared) for rule in program.rules)
    return replace(program, queries=queries, rules=rules).with_problems(reader.problems)


def _read_rule(reader: _FragmentReader, rule: RuleDraft, shared: Mapping[Label, QueryDraft]) -> RuleDraft:
    syntax, prefixes = rule.syntax, rule.prefixes
    template = reader.read(parse_template, syntax.template, prefixes)
    anchor, *roles = (_read_role(reader, role, prefixes, shared) for role in rule.roles)
    if syntax.delay is not None and syntax.delay.value is not None:
        anchor = replace(anchor, delayed_by=reader.read(parse_expression, syntax.delay.value, prefixes))
    places: ConditionPlaces = {}
    condition = reader.read(partial(parse_expression, places=places), syntax.condition, prefixes) if syntax.condition else None
    expressions = tuple(reader.read(parse_expression, a.expression, prefixes) for a in syntax.assignments)
    return replace(rule, template=template, roles=(anchor, *roles), condition=condition, condition_places=places, expressions=expressions)


def _read_role(reader: _FragmentReader, role: RoleDraft, prefixes: Prefixes, shared: Mapping[Label, QueryDraft]) -> RoleDraft:
    match role.syntax:
        case Inline(_, text):
            return replace(role, query=reader.split_query(text, prefixes))
        case TicksSyntax(keyword, _, text):
            if text is None:
                return replace(role, query=SplitQuery(keyword.span, Select((), Bgp(())), (), ()))
            return replace(role, query=reader.split_query(text, prefixes))
        case ByLabel(origin, _, block):
            if role.origin is RoleOrigin.SHARED:
                role = replace(role, query=shared[origin.text].query)
            if block is None:
                return role
            places: ConditionPlaces = {}
            conditions = reader.read(partial(parse_filters, places=places), block, prefixes) or ()
            return replace(role, filters=conditions, filter_references=scan_references(block), filter_places=places)
