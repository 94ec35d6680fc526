"""Resolution of `.epsparql` units: the streams that feed their operands, certain
variables, and warnings that need the whole program.

Idea: a plain group reads its facts and, if it is basic, the graphs of each STREAM whose template
may make one of its triples. An EVENT reads a shared query, or the events of a label, with their
starts where a unit of EP-SPARQL makes them. The variables that every event of a label binds are
found by iteration to a fixpoint, from none; they can be partition keys.
Source: ep-sparql.md, sections 2.1, 4 to 6.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, assert_never

from dotr.errors.diagnostics import Diagnostic, Severity
from dotr.evaluation.expressions import query_with_lengths
from dotr.evaluation.joins.scope import certain
from dotr.languages.epsparql.codes import TemporalCode
from dotr.languages.epsparql.interval_keys import OperandInput, interval_key
from dotr.languages.epsparql.unit import IntervalUnit
from dotr.model.algebra import Attribute, Call, Const, Expression, Select, TimeOf, TriplePattern
from dotr.model.graphs import least_fixpoint
from dotr.model.places import Span
from dotr.model.rules import EventSource, FactSource, Rule, SharedQuery
from dotr.model.terms import Label, Variable
from dotr.model.traverse import walk
from dotr.model.units import IntervalEvents, UnitEvents
from dotr.temporal.intervals.patterns import (
    Alternatives,
    Chain,
    Combination,
    ConstructedGraphs,
    EventRead,
    InstantAnswers,
    InstantGroup,
    IntervalPattern,
    SelectedSolutions,
    TemporalQuery,
    certain_variables,
    combinations,
    may_read,
    operand_reads,
    visible_variables,
)
from dotr.temporal.layout.retention import positive_roles
from dotr.temporal.layout.units import UnitRead

_TOTAL: Final = frozenset(("SAMETERM", "ISIRI", "ISBLANK", "ISLITERAL"))
"""Functions that have a value wherever their arguments have one."""


@dataclass(frozen=True, slots=True)
class ProgramLabels:
    """Labels that a unit can read: events that rules and other units make, and shared queries."""

    events: Mapping[Label, UnitEvents]
    shared: Mapping[Label, SharedQuery]
    rules: Sequence[Rule]


def resolve_intervals(queries: Sequence[TemporalQuery], labels: ProgramLabels) -> list[IntervalUnit]:
    """The units of `.epsparql` files, in the order of `queries`; the label of each EVENT must be
    known."""
    whole = _with_certain(queries, labels)
    made = {query.label: query for query in whole}
    return [_Resolver(made, labels).unit(query) for query in whole]


# --- variables that every event binds ---


def _with_certain(queries: Sequence[TemporalQuery], labels: ProgramLabels) -> list[TemporalQuery]:
    """The queries with the certain variables of their EVENTs filled in."""
    nothing: frozenset[Variable] = frozenset()
    start = {label: frozenset(each.certain) for label, each in labels.events.items()}
    start |= {label: frozenset(certain(query.query)) for label, query in labels.shared.items()}
    start |= dict.fromkeys((query.label for query in queries), nothing)
    start |= dict.fromkeys((rule.event for rule in labels.rules), nothing)
    makers: dict[Label, list[TemporalQuery | Rule]] = {}
    for query in queries:
        makers.setdefault(query.label, []).append(query)
    for rule in labels.rules:
        makers.setdefault(rule.event, []).append(rule)

    def certain_of_makers(label: Label, known: Mapping[Label, frozenset[Variable]]) -> frozenset[Variable]:
        return frozenset.intersection(
            *(
                _certain_attributes(_filled(each, known)) if isinstance(each, TemporalQuery) else _certain_of_rule(each, known)
                for each in makers[label]
            )
        )

    known = least_fixpoint(
        start, {label: [read for each in own for read in _labels_read(each)] for label, own in makers.items()}, certain_of_makers
    )
    return [_filled(query, known) for query in queries]


def _labels_read(maker: TemporalQuery | Rule) -> Iterator[Label]:
    if isinstance(maker, Rule):
        yield from (role.source.event for role in positive_roles(maker) if not isinstance(role.source, FactSource))
    elif maker.where is not None:
        yield from (operand.label for operand, _ in operand_reads(maker.where) if isinstance(operand, EventRead))


def _certain_of_rule(rule: Rule, known: Mapping[Label, frozenset[Variable]]) -> frozenset[Variable]:
    """The attributes that every event of a rule has: copies of certain attributes, and expressions
    that never have an error.
    """
    bound = {
        role.label: certain(role.source.query) if isinstance(role.source, FactSource) else known.get(role.source.event, frozenset())
        for role in positive_roles(rule)
    }
    return frozenset(each.variable for each in rule.assignments if _never_errs(each.expression, bound))


def _never_errs(expression: Expression, bound: Mapping[Label, frozenset[Variable]]) -> bool:
    """True if an expression has a value for every match; `bound`: the certain attributes by
    label."""
    match expression:
        case Const() | TimeOf():
            return True
        case Attribute(label, name):
            return name in bound.get(label, ())
        case Call("COALESCE", arguments):
            return any(_never_errs(each, bound) for each in arguments)
        case Call(function, arguments):
            return function in _TOTAL and all(_never_errs(each, bound) for each in arguments)
        case _:
            return False


def _certain_attributes(query: TemporalQuery) -> frozenset[Variable]:
    match query.form:
        case SelectedSolutions(where, columns):
            return certain_variables(where) & {name for name, expression in columns if expression is None}
        case ConstructedGraphs(where, _):
            return certain_variables(where) & set(query.attributes)
        case InstantAnswers(select):
            return certain(select)
        case _:
            assert_never(query.form)


def _filled(query: TemporalQuery, known: Mapping[Label, frozenset[Variable]]) -> TemporalQuery:
    match query.form:
        case SelectedSolutions() | ConstructedGraphs():
            return replace(query, form=replace(query.form, where=_filled_pattern(query.form.where, known)))
        case InstantAnswers():
            return query
        case _:
            assert_never(query.form)


def _filled_pattern(pattern: IntervalPattern, known: Mapping[Label, frozenset[Variable]]) -> IntervalPattern:
    match pattern:
        case InstantGroup():
            return pattern
        case EventRead(label, attributes):
            return replace(pattern, certain=frozenset(variable for name, variable in attributes if name in known.get(label, ())))
        case Combination(_, left, right):
            return replace(pattern, left=_filled_pattern(left, known), right=_filled_pattern(right, known))
        case Alternatives(branches):
            return Alternatives(tuple(_filled_pattern(branch, known) for branch in branches))
        case Chain(inner):
            return replace(pattern, pattern=_filled_pattern(inner, known))
        case _:
            assert_never(pattern)


# --- reads ---


class _Resolver:
    """The reads of one unit. A stream is one read for each way of reading: at the same moment
    (`now`), or strictly in the past.
    """

    def __init__(self, made: Mapping[Label, TemporalQuery], labels: ProgramLabels) -> None:
        self._made = made
        self._labels = labels
        self._reads: dict[UnitRead, int] = {}

    def unit(self, query: TemporalQuery) -> IntervalUnit:
        """The unit of a query."""
        if query.where is None:
            assert isinstance(query.form, InstantAnswers)
            self._number(UnitRead(_facts(query_with_lengths(query.form.query), query.attributes), True, query.span))
            return IntervalUnit(query, tuple(self._reads), ())
        operands = tuple(tuple(self._inputs(operand, now)) for operand, now in operand_reads(query.where))
        return IntervalUnit(query, tuple(self._reads), operands)

    def _number(self, read: UnitRead) -> int:
        same = next((number for each, number in self._reads.items() if each[:2] == read[:2]), None)
        return self._reads.setdefault(read, len(self._reads)) if same is None else same

    def _inputs(self, operand: InstantGroup | EventRead, now: bool) -> Iterator[OperandInput]:
        if isinstance(operand, InstantGroup):
            names = tuple(sorted(operand.visible))
            facts = _facts(query_with_lengths(operand.query), names)
            yield OperandInput(self._number(UnitRead(facts, now, operand.span)), tuple(range(len(names))), False)
            for label, other in self._made.items():
                if isinstance(other.form, ConstructedGraphs) and may_read(operand, other.form.template):
                    yield OperandInput(self._number(UnitRead(IntervalEvents(label, None), now, operand.span)), None, True)
            return
        attribute_of = {variable: attribute for attribute, variable in operand.attributes}
        label = operand.label
        if label in self._labels.shared:
            query = self._labels.shared[label].query
            attributes = tuple(sorted(set(query.projection)))
            read = self._number(UnitRead(_facts(query, attributes), now, operand.label_span))
        else:
            attributes = self._labels.events[label].attributes
            stream = IntervalEvents(label, attributes) if label in self._made else EventSource(label, attributes)
            read = self._number(UnitRead(stream, now, operand.label_span))
        columns = tuple(attributes.index(attribute_of[variable]) for variable in sorted(visible_variables(operand)))
        yield OperandInput(read, columns, label in self._made)


def _facts(query: Select, attributes: tuple[Variable, ...]) -> FactSource:
    return FactSource(replace(query, projection=attributes), attributes, attributes)


# --- warnings ---


def interval_warnings(queries: Sequence[TemporalQuery]) -> Iterator[Diagnostic]:
    """E402, groups that could be matched in constructed graphs if they were basic, and E404, units
    with one partition. The certain variables of EVENTs must be filled in.
    """
    streams = {query.label: query.form.template for query in queries if isinstance(query.form, ConstructedGraphs)}
    for query in queries:
        for group in _groups(query):
            if group.is_basic:
                continue
            triples = tuple(node for node in walk(group.pattern) if isinstance(node, TriplePattern))
            for label, template in streams.items():
                if any(may_read(InstantGroup(group.pattern, (), frozenset(), (triple,), group.span), template) for triple in triples):
                    message = f"this group is not matched in the graphs of {label}: it is not basic"
                    hint = f"Write its triples in a group of triple patterns, FILTERs, BIND and VALUES alone, or read EVENT {label}."
                    yield _warning(TemporalCode.NOT_BASIC, message, group.span, hint)
        reason = interval_key(query).reason
        if reason and query.where is not None and any(combinations(query.where)):
            hint = "It runs on one core. Name a variable in every operand; with DISTINCT, project it."
            yield _warning(TemporalCode.ONE_PARTITION_KEY, f"{query.label} has one partition: {reason}", query.label_span, hint)


def _groups(query: TemporalQuery) -> Iterator[InstantGroup]:
    """The plain groups of a unit."""
    if isinstance(query.form, InstantAnswers):
        names: tuple[Variable, ...] = ()
        yield InstantGroup(query.form.query, names, frozenset(), (), query.span)
        return
    for operand, _ in operand_reads(query.form.where):
        if isinstance(operand, InstantGroup):
            yield operand


def _warning(code: TemporalCode, message: str, span: Span, hint: str) -> Diagnostic:
    return Diagnostic(code, message, span, hint, Severity.WARNING)
