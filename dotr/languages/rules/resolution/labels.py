"""Passes 4, 5 and 11: labels of a rule, its embedded texts, and cycles of labels.

Pass 4 checks that each label of a rule is bound once, and before it is used.

Checked are the labels behind `from`, `between` and `consuming`, and those of aggregates. Clauses
bind in the order written, so a clause can refer to the anchor and to the clauses before it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from functools import partial
from typing import TypeVar

from dotr.errors.diagnostics import Diagnostic, Refused, did_you_mean
from dotr.languages.codes import RuleCode
from dotr.languages.rules.program import ProgramDraft, QueryDraft, RoleDraft, RoleOrigin, RoleUse, RuleDraft, SplitQuery, warning
from dotr.languages.rules.syntax import AggregateSyntax, BetweenSyntax, ByLabel, Inline, TicksSyntax, WindowSyntax, Word
from dotr.model import dataclass
from dotr.model.algebra import Bgp, Select
from dotr.model.graphs import components, shortest_path
from dotr.model.places import Span
from dotr.model.terms import Label, Prefixes
from dotr.model.time import Micros
from dotr.syntax.sparql import ConditionPlaces, parse_expression, parse_filters, parse_select, scan_references, split_constraints
from dotr.syntax.turtle.parser import parse_template


def check_labels(program: ProgramDraft) -> ProgramDraft:
    """Report D203, D204, D212 to D214, D308 and D311."""
    return program.with_problems(problem for rule in program.rules for problem in _problems(rule))


def unbound_label(label: Label, span: Span, roles: Sequence[RoleDraft], position: int) -> Diagnostic | None:
    """The error of a label that no role before `position` binds to one event; None if one does."""
    before = [role.label.text for role in roles[:position] if role.use.binds_label]
    if label in before:
        return None
    role = next((role for role in roles[: position + 1] if role.label.text == label), None)
    if role is not None and not role.use.binds_label:
        negated = role.use is RoleUse.ABSENT
        message = f"{label} is {'negated' if negated else 'aggregated'}: it is not one event"
        hint = "There is no such event in a match." if negated else "Use the aggregate's variable."
        return Diagnostic(RuleCode.NOT_ONE_EVENT, message, span, f"{hint} Bound are {_label_list(before)}.")
    all_bound = f"The rule binds {_label_list([role.label.text for role in roles if role.use.binds_label])}."
    if label in (role.label.text for role in roles[position:]):
        hint = (
            f"Before this clause: {_label_list(before)}. Clauses bind in the order written."
            if before
            else "Nothing is bound before the anchor."
        )
        return Diagnostic(RuleCode.UNBOUND_LABEL, f"{label} is not bound yet", span, hint)
    suggestion = did_you_mean(label, before)
    return Diagnostic(RuleCode.UNBOUND_LABEL, f"unbound label {label}", span, f"{all_bound} {suggestion}".rstrip())


def _label_list(labels: Sequence[str]) -> str:
    return ", ".join(labels) or "no label"


def _problems(rule: RuleDraft) -> Iterator[Diagnostic]:
    yield from _duplicate_labels(rule)
    for position, role in enumerate(rule.roles):
        match role.scope:
            case WindowSyntax(_, reference):
                words: tuple[Word, ...] = (reference,)
            case BetweenSyntax(first, second):
                words = (first, second)
            case None:
                words = ()
        for word in words:
            if problem := unbound_label(word.text, word.span, rule.roles, position):
                yield problem
    for clause in rule.syntax.clauses:
        if isinstance(clause, AggregateSyntax) and clause.argument is not None:
            label, variable = clause.argument
            if label.text != clause.event.label.text:
                hint = f"Write {clause.event.label.text}.?{variable.text}, or `of {label.text}`."
                message = f"the aggregate is over {clause.event.label.text}, not over {label.text}"
                yield Diagnostic(RuleCode.WRONG_AGGREGATED_LABEL, message, label.span, hint)
    yield from _consuming_problems(rule)


def _duplicate_labels(rule: RuleDraft) -> Iterator[Diagnostic]:
    labels: set[Label] = set()
    for role in rule.roles:
        label = role.label.text
        if label in labels:
            replacement = f"{label}2 = [ SELECT … ]" if isinstance(role.syntax, Inline) else f"{role.source_label.text} as {label}2"
            hint = f"Give it a label of its own: {replacement}."
            yield Diagnostic(RuleCode.LABEL_TWICE, f"two events of the rule are called {label}", role.label.span, hint)
        labels.add(label)
    variables: set[str] = set()
    for clause in rule.syntax.clauses:
        if isinstance(clause, AggregateSyntax):
            name = clause.variable
            if name.text in variables:
                hint = "Give each aggregate a variable of its own."
                yield Diagnostic(RuleCode.AGGREGATE_TWICE, f"two aggregates are called ?{name.text}", name.span, hint)
            variables.add(name.text)


def _consuming_problems(rule: RuleDraft) -> Iterator[Diagnostic]:
    positions = rule.positions
    for word in rule.syntax.consuming:
        position = positions.get(word.text)
        if position is None:
            labels = [role.label.text for role in rule.roles if role.use is not RoleUse.ABSENT]
            hint = f"The rule binds {_label_list(labels)}. {did_you_mean(word.text, labels)}".rstrip()
            yield Diagnostic(RuleCode.UNBOUND_LABEL, f"unbound label {word.text}", word.span, hint)
        elif rule.roles[position].use is RoleUse.ABSENT:
            hint = "No event has that place in a match, so there is nothing to consume."
            yield Diagnostic(RuleCode.NEGATED_CONSUMED, f"{word.text} is negated and cannot be consumed", word.span, hint)
        elif rule.roles[position].use is RoleUse.ANCHOR:
            hint = "An anchor is used once anyway. Leave it out."
            yield warning(RuleCode.ANCHOR_CONSUMED, f"consuming the anchor {word.text} has no effect", word.span, hint)


# Pass 5: parses the embedded texts: queries and expressions as SPARQL, templates as Turtle.
#
# A query is split into its SELECT, which stage one evaluates, and its temporal constraints (FILTER
# conjuncts with `M.?v` or `time(M)`), which stage two evaluates.
#
# Before: `SELECT ?r WHERE { ?r :is_in ?x FILTER(?x = Smoke.?room1) }`.
# After: `SELECT ?r WHERE { ?r :is_in ?x }` and `?x = Smoke.?room1`.


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


# Pass 11: rejects cycles of events that depend on each other within one instant.
#
# Idea: a clause reaches the instant of the match if the lower bounds of the windows between it and
# the anchor sum to zero; `between` is strict. A cycle in the graph of such dependencies is an error;
# recursion in the past is allowed.
# Cost: linear in the roles.
# Source: Tarjan 1972 (strongly connected components).


@dataclass(frozen=True, slots=True)
class EventDependency:
    """Edge of the dependency graph: `event`, derived by `rule`, reads `source` in `role`.

    `same_instant`: the two events may have the same time.
    """

    event: Label
    source: Label
    same_instant: bool
    rule: RuleDraft
    role: RoleDraft


def check_cycles(program: ProgramDraft) -> ProgramDraft:
    """Report D401 and D402."""
    return program.with_problems(_cycle_problems([edge for edge in dependencies(program) if edge.same_instant]))


def dependencies(program: ProgramDraft) -> Iterator[EventDependency]:
    """The dependencies between events, one for each role that reads an event."""
    for rule in program.rules:
        for role, distance in zip(rule.roles, _least_distances(rule), strict=True):
            if role.origin is RoleOrigin.EVENT:
                yield EventDependency(rule.syntax.event.text, role.source_label.text, distance == 0, rule, role)


def _least_distances(rule: RuleDraft) -> list[Micros]:
    """For each role, the least distance in µs from its events to the time of the match.

    It is 1 for an unknown window, whose error is already reported, and the delay for the event of
    a delayed anchor.
    """
    by_label: dict[Label, Micros] = {}
    distances: list[Micros] = []
    for role in rule.roles:
        match role.scope:
            case None:
                distance = (role.delay if role.delayed_by is None else 0) if role is rule.roles[0] else 1
            case WindowSyntax(_, reference):
                distance = by_label.get(reference.text, 0) + (role.interval.bounds[0] if role.interval else 1)
            case BetweenSyntax():
                distance = 1
        distances.append(distance)
        if role.use.binds_label:
            by_label.setdefault(role.label.text, 0 if role is rule.roles[0] else distance)
    return distances


def _cycle_problems(edges: list[EventDependency]) -> Iterator[Diagnostic]:
    component_of = components((edge.event, edge.source) for edge in edges)
    reported: set[int] = set()
    for edge in edges:
        component = component_of[edge.event]
        if component != component_of[edge.source] or component in reported:
            continue
        reported.add(component)
        inner = [other for other in edges if component_of[other.event] == component_of[other.source] == component]
        is_delayed = any(other.role.delayed_by is not None for other in inner)
        delays = " A delay by value may be 0: one of constant length is in the past, too." if is_delayed else ""
        if edge.event == edge.source:
            hint = f"An event may depend on itself only in the past: choose it by a clause, within (0, …] from the anchor.{delays}"
            message = f"{edge.event} needs {edge.event} of the same instant"
            yield Diagnostic(RuleCode.SAME_INSTANT_RECURSION, message, edge.role.source_label.span, hint)
        else:
            path = " needs ".join([edge.event, *_shortest_path(edge.source, edge.event, inner)])
            hint = f"Let one of them look strictly into the past: within (0, …] from its anchor.{delays}"
            yield Diagnostic(RuleCode.SAME_INSTANT_CYCLE, f"a cycle at one instant: {path}", edge.role.source_label.span, hint)


def _shortest_path(start: Label, end: Label, edges: list[EventDependency]) -> list[Label]:
    """The shortest path between two events along the dependencies."""
    sources: dict[Label, list[Label]] = {}
    for edge in edges:
        sources.setdefault(edge.event, []).append(edge.source)
    return shortest_path(start, end, lambda event: sources.get(event, []))
