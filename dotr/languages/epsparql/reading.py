"""Compiler of EP-SPARQL: the text of `.epsparql` files to `dotr.temporal.intervals.patterns`.

All units of a file are parsed, and all parts of a unit, also after one with an error.
Source: ep-sparql.md, sections 1 to 4 and 6.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import field, replace
from itertools import pairwise
from typing import Final, assert_never

from dotr.errors.diagnostics import Diagnostic, Severity, did_you_mean
from dotr.evaluation.expressions import query_with_lengths
from dotr.languages.declarations import declares_nothing_else
from dotr.languages.epsparql.codes import TemporalCode
from dotr.languages.epsparql.component import with_components
from dotr.languages.epsparql.interval_keys import OperandInput, interval_key
from dotr.languages.epsparql.text.keywords import PLAIN
from dotr.languages.epsparql.text.lexemes import UnitCursor
from dotr.languages.epsparql.text.statements import EXAMPLE, read_unit
from dotr.languages.epsparql.text.units import forms_of, length_warnings, unit_of
from dotr.languages.epsparql.unit import IntervalUnit
from dotr.languages.linking import ProgramNames, ResolvedUnits, UnitFiles
from dotr.model import dataclass
from dotr.model.algebra import Attribute, Call, Const, Expression, Select, TimeOf, TriplePattern, Var
from dotr.model.graphs import least_fixpoint
from dotr.model.places import Document, Span
from dotr.model.rules import EventSource, FactSource, Rule, SharedQuery
from dotr.model.templates import TemplateSlot
from dotr.model.terms import Label, Prefixes, Variable
from dotr.model.traverse import certain, walk
from dotr.model.units import IntervalEvents, UnitEvents
from dotr.syntax import scan as rule_scan
from dotr.syntax.cursor import statement_spans
from dotr.syntax.sparql.tokens import TokenScan, lex
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
from dotr.temporal.layout.units import StreamUnit, UnitRead

# Resolution of `.epsparql` units: the streams that feed their operands, certain
# variables, and warnings that need the whole program.
#
# Idea: a plain group reads its facts and, if it is basic, the graphs of each STREAM whose template
# may make one of its triples. An EVENT reads a shared query, or the events of a label, with their
# starts where a unit of EP-SPARQL makes them. The variables that every event of a label binds are
# found by iteration to a fixpoint, from none; they can be partition keys.
# Source: ep-sparql.md, sections 2.1, 4 to 6.


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
    graphs = _MadeGraphs(whole)
    made = {query.label for query in whole}
    return [_Resolver(made, graphs, labels).unit(query) for query in whole]


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


class _MadeGraphs:
    """The templates of all STREAMs, by the constant predicates of their triples: a group with one
    constant predicate is compared with the templates of this predicate, not with all.
    """

    def __init__(self, queries: Sequence[TemporalQuery]) -> None:
        self._templates = {query.label: query.form.template for query in queries if isinstance(query.form, ConstructedGraphs)}
        self._labels: dict[TemplateSlot | None, dict[Label, int]] = {}
        for number, (label, template) in enumerate(self._templates.items()):
            for _, predicate, _ in template.triples:
                self._labels.setdefault(None if isinstance(predicate, Var) else predicate, {})[label] = number

    def readable(self, group: InstantGroup) -> list[Label]:
        """The labels of the STREAMs whose graphs a group may read, in the order of the program."""
        predicate = next((triple.predicate for triple in group.triples if isinstance(triple.predicate, Const)), None)
        if predicate is None:
            found: Iterable[Label] = self._templates
        else:
            numbers = self._labels.get(predicate, {}) | self._labels.get(None, {})
            found = sorted(numbers, key=numbers.__getitem__)
        return [label for label in found if may_read(group, self._templates[label])]


class _Resolver:
    """The reads of one unit. A stream is one read for each way of reading: at the same moment
    (`now`), or strictly in the past.
    """

    def __init__(self, made: Set[Label], graphs: _MadeGraphs, labels: ProgramLabels) -> None:
        self._made = made
        self._graphs = graphs
        self._labels = labels
        self._reads: list[UnitRead] = []
        self._numbers: dict[tuple[object, bool], int] = {}

    def unit(self, query: TemporalQuery) -> IntervalUnit:
        """The unit of a query."""
        if query.where is None:
            assert isinstance(query.form, InstantAnswers)
            self._number(UnitRead(_facts(query_with_lengths(query.form.query), query.attributes), True, query.span))
            return IntervalUnit(query, tuple(self._reads), ())
        operands = tuple(tuple(self._inputs(operand, now)) for operand, now in operand_reads(query.where))
        return IntervalUnit(query, tuple(self._reads), operands)

    def _number(self, read: UnitRead) -> int:
        number = self._numbers.setdefault((read.stream, read.now), len(self._reads))
        if number == len(self._reads):
            self._reads.append(read)
        return number

    def _inputs(self, operand: InstantGroup | EventRead, now: bool) -> Iterator[OperandInput]:
        if isinstance(operand, InstantGroup):
            names = tuple(sorted(operand.visible))
            facts = _facts(query_with_lengths(operand.query), names)
            yield OperandInput(self._number(UnitRead(facts, now, operand.span)), tuple(range(len(names))), False)
            for label in self._graphs.readable(operand):
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


__all__ = ["TemporalCode", "TemporalSet", "compile_temporal"]


@dataclass(frozen=True, slots=True)
class TemporalSet(UnitFiles):
    """Result of compiling `.epsparql` files.

    - `units`: those without an error, in the order of the files.
    - `diagnostics`: by file and offset.
    - `prefixes`: those of files (of two declarations the first), then the configuration's.
    """

    units: tuple[TemporalQuery, ...]
    diagnostics: tuple[Diagnostic, ...]
    prefixes: Prefixes = field(default_factory=dict, repr=False)

    @property
    def events(self) -> tuple[UnitEvents, ...]:
        """The events of all units."""
        return tuple(
            UnitEvents(each.label, each.attributes, each.label_span, each.makes_graphs, forms=tuple(forms_of(each, {})[0].items()))
            for each in self.units
        )

    def resolve(self, names: ProgramNames) -> ResolvedUnits:
        """The units with the streams of their operands; reports E205 and E206."""
        problems = [problem for query in self.units for problem in _unknown(query, names)]
        if problems:
            return ResolvedUnits((), problems)
        units = resolve_intervals(self.units, ProgramLabels(names.labels, names.shared, names.rules))
        further = [each for unit in self.units for each in length_warnings(unit, names.forms) if each not in self.diagnostics]
        return ResolvedUnits(units, [*interval_warnings([unit.query for unit in units]), *further])

    def joined(self, units: Sequence[StreamUnit], names: ProgramNames) -> Sequence[StreamUnit]:
        """The units and rules of each recursive component as one unit."""
        return with_components(names.rules, units, names.labels)


def _unknown(query: TemporalQuery, names: ProgramNames) -> Iterator[Diagnostic]:
    """EVENTs of an unknown label (E205), or of an attribute that no event of the label has
    (E206)."""
    known = {label: each.attributes for label, each in names.labels.items()}
    known |= {label: tuple(each.query.projection) for label, each in names.shared.items()}
    for operand, _ in () if query.where is None else operand_reads(query.where):
        if not isinstance(operand, EventRead):
            continue
        if operand.label not in known:
            labels = sorted(known)
            hint = did_you_mean(operand.label, labels) or f"Labels are {', '.join(labels)}."
            yield Diagnostic(TemporalCode.UNKNOWN_LABEL, f"nothing makes events {operand.label}", operand.label_span, hint)
            continue
        for attribute, _ in operand.attributes:
            if attribute not in known[operand.label]:
                attributes = [f"?{name}" for name in sorted(known[operand.label])]
                hint = f"Its attributes are {', '.join(attributes)}." if attributes else "Its events have none."
                yield Diagnostic(
                    TemporalCode.UNKNOWN_ATTRIBUTE, f"no event {operand.label} can have an attribute ?{attribute}", operand.span, hint
                )


def compile_temporal(documents: Sequence[Document], prefixes: Prefixes) -> TemporalSet:
    """Compile `.epsparql` files.

    `prefixes`: prefix to namespace IRI, for files that declare no PREFIX of their own.

    Problems are in `TemporalSet.diagnostics`; none is raised. Labels are checked later, with the
    whole program.

    >>> text = "REGISTER QUERY Fall AS SELECT ?c WHERE { ?c <e:p> ?p } SEQ { ?c <e:p> ?q } FILTER(?q < ?p) WITHIN 10 s"
    >>> (unit,) = compile_temporal([Document("q.epsparql", text)], {}).checked().units
    >>> unit.label, unit.attributes, unit.where.pattern.operator, unit.where.pattern.bound
    ('Fall', ('c',), <TemporalOperator.SEQ: 'SEQ'>, 10000000)
    """
    units: list[TemporalQuery] = []
    diagnostics: list[Diagnostic] = []
    declared: dict[str, str] = {}
    for document in documents:
        problems: list[Diagnostic] = []
        for unit, scan in _units(document, prefixes, problems):
            units += [unit] if unit is not None else []
            declared = {**scan.prefixes, **declared}
        diagnostics += sorted(dict.fromkeys(problems), key=lambda each: each.span.start if each.span else -1)
    return TemporalSet(tuple(units), tuple(diagnostics), {**prefixes, **declared})


_PREFIX: Final = re.compile(r"(?i)prefix")


def _units(document: Document, prefixes: Prefixes, problems: list[Diagnostic]) -> Iterator[tuple[TemporalQuery | None, TokenScan]]:
    """Yield each unit of a file (None after a problem), and the scan with its prefixes."""
    tokens = [token[0] for token in rule_scan.tokens(Span(document, 0, len(document.text)))]
    declares = any(_PREFIX.fullmatch(one) and other.endswith(":") for one, other in pairwise(tokens))
    known, base = dict({} if declares else prefixes), ""
    if declares_nothing_else(document):
        return
    if not any(token.upper() == "REGISTER" for token in tokens):
        form = re.search(r"(?i)\b(?:SELECT|CONSTRUCT)\b", document.text)
        span = Span(document, *(form.span() if form else (0, min(1, len(document.text)))))
        hint = f"Give it a name: write REGISTER QUERY Name AS before {form[0]}." if form else f"A unit is {EXAMPLE}"
        problems.append(Diagnostic(TemporalCode.NO_UNIT, "there is no unit in this file", span, hint))
        return
    for span in statement_spans(document):
        scan = TokenScan(span, dict(known), base, [], [], PLAIN)
        lexemes = list(lex(scan))
        cursor = UnitCursor(scan, lexemes, 0, len(lexemes), TemporalCode.UNEXPECTED)
        cursor.take_prologue()
        known, base = dict(scan.prefixes), scan.base
        unit = unit_of(read_unit(cursor))
        problems += scan.problems
        yield unit, scan
