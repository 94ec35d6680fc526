"""Compiler of continuous queries: the text of `.rspql` files to `dotr.languages.continuous.model`.

All statements of a file are parsed, and all parts of a statement, also after one with an error.
Source: continuous.md, sections 1 to 7 and 10.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from itertools import pairwise
from typing import Final, assert_never

from dotr.errors.diagnostics import Diagnostic, Severity
from dotr.languages.continuous.codes import WindowCode
from dotr.languages.continuous.model import (
    AskForm,
    ContinuousQuery,
    ContinuousWindow,
    ElementsExtent,
    Extent,
    LandmarkExtent,
    NowExtent,
    RangeExtent,
    RelationToStream,
    ReportPolicies,
    SelectForm,
    StreamName,
    TriplesExtent,
)
from dotr.languages.continuous.text.bodies import read_body
from dotr.languages.continuous.text.statements import CONTINUOUS, FromSyntax, StatementSyntax, read_statement, statement_cursor
from dotr.languages.continuous.unit import QueryUnit
from dotr.languages.linking import ProgramNames, ResolvedUnits, UnitFiles, unbound_warnings
from dotr.model import dataclass
from dotr.model.algebra import Bgp, MatchPattern, Pattern, WindowBlock
from dotr.model.places import Document, Span
from dotr.model.terms import Label, Prefixes, Term, Variable
from dotr.model.time import Micros, Unit
from dotr.model.traverse import AlgebraNode, certain, children, in_scope, never_bound
from dotr.model.units import UnitEvents
from dotr.syntax import scan as rule_scan
from dotr.syntax.cursor import clipped, statement_spans
from dotr.syntax.rendering import duration_text
from dotr.syntax.sparql.tokens import TokenScan, lex
from dotr.temporal.intervals.patterns import plain_groups

# Report policies of windows: the defaults, and checks of those in the text.
#
# Source: continuous.md, sections 4 and 10.


_MANY_REPORTS: Final = 10_000


def check_computed(statement: StatementSyntax) -> None:
    """Report REPORT beside COMPUTED EVERY."""
    if statement.period_span is None:
        return
    for window in statement.windows:
        place = window.spec.places.get("REPORT")
        if place is not None:
            hint = "COMPUTED EVERY 10s is PERIODIC 10s AND NON-EMPTY CONTENT for every window. Write one of the two."
            statement.scan.report(WindowCode.REPORT_AND_COMPUTED, "REPORT beside COMPUTED EVERY", place.start, place.end, hint)
            statement.is_complete = False


def policies_of(window: FromSyntax, statement: StatementSyntax) -> ReportPolicies | None:
    """The policies of a window; None for a window that never reports.

    COMPUTED EVERY is of all windows. Otherwise, if some window has REPORT, the windows without
    REPORT never report; if none has, all windows have the default of their extent.
    """
    if statement.period is not None:
        return ReportPolicies(period=statement.period, non_empty=True)
    if any(each.spec.policies is not None for each in statement.windows):
        return window.spec.policies
    assert window.spec.extent is not None
    return _default(window.spec.extent, statement.relation or RelationToStream.RSTREAM)


def _default(extent: Extent, relation: RelationToStream) -> ReportPolicies:
    match extent:
        case NowExtent():
            return ReportPolicies(content_change=True)
        case ElementsExtent() | TriplesExtent():
            return ReportPolicies(window_close=True)
        case RangeExtent() | LandmarkExtent():
            return ReportPolicies(window_close=True, non_empty=relation is not RelationToStream.DSTREAM)
        case _:
            assert_never(extent)


def warnings(query: ContinuousQuery, statement: StatementSyntax) -> Iterator[Diagnostic]:
    """The warnings of a query that depend on its text alone."""
    yield from _unread_windows(query)
    yield from unbound_warnings(never_bound(query.query.pattern), statement.scan.span, in_scope(query.query.pattern))
    for window, syntax in zip(query.windows, statement.windows, strict=True):
        place = syntax.spec.places.get("REPORT")
        if place is not None and window.policies is not None:
            yield from _doubtful_policies(query.relation, window.policies, place)
        yield from _gaps(window.extent, syntax.spec.places.get("EXTENT") or syntax.span)
        yield from _many_reports(window, syntax, statement)


def _unread_windows(query: ContinuousQuery) -> Iterator[Diagnostic]:
    read = set(_windows_read(query.query))
    read.update(group.window for block in query.matches for group in plain_groups(block.events))
    for window in query.windows:
        if window.name not in read:
            if window.name is None:
                message, hint = "no pattern reads the default windows", "Patterns outside of WINDOW { … } read them."
            else:
                shown = clipped(window.name)
                message, hint = f"no pattern reads {shown}", f"Read it with WINDOW {shown} {{ … }}, or leave it out."
            yield Diagnostic(WindowCode.UNREAD_WINDOW, message, window.span, hint, Severity.WARNING)


def _windows_read(pattern: Pattern) -> Iterator[Term | None]:
    """The windows of a pattern's WINDOW blocks, and None for triples outside of them."""
    pending: list[AlgebraNode] = [pattern]
    while pending:
        node = pending.pop()
        match node:
            case WindowBlock(window, _):
                yield window
            case MatchPattern():
                pass
            case Bgp(patterns):
                if patterns:
                    yield None
            case _:
                pending += children(node)


def _doubtful_policies(relation: RelationToStream, policies: ReportPolicies, place: Span) -> Iterator[Diagnostic]:
    """Warnings of policies that report empty windows, or that never report the last deletions."""
    if relation is RelationToStream.RSTREAM and policies.window_close and not policies.non_empty:
        hint = "It reports empty windows too, up to the end of the stream. Add AND NON-EMPTY CONTENT, unless you want to count nothing."
        yield Diagnostic(WindowCode.EMPTY_ANSWERS, "RSTREAM ON WINDOW CLOSE without NON-EMPTY CONTENT", place, hint, Severity.WARNING)
    if relation is RelationToStream.DSTREAM and policies.non_empty:
        hint = "The last answers go when the window is empty, which is then no report. Leave NON-EMPTY CONTENT out."
        yield Diagnostic(WindowCode.LAST_ANSWERS_STAY, "DSTREAM with NON-EMPTY CONTENT", place, hint, Severity.WARNING)


def _gaps(extent: Extent, place: Span) -> Iterator[Diagnostic]:
    """A warning if the windows leave elements out that come between them."""
    match extent:
        case RangeExtent(width, step, lag) if step > width - lag:
            length, distance, missed = map(duration_text, (width - lag, step, step - width + lag))
            message = f"STEP is greater than RANGE: the elements of {missed} in every {distance} are in no window"
            hint = f"Write STEP {length} for each element once, or RANGE {distance}."
        case ElementsExtent(count, step) | TriplesExtent(count, step) if step > count:
            message = f"STEP is greater than the window: of every {step}, {step - count} may be in none"
            hint = f"Write STEP {count}, or a window of {step}."
        case _:
            return
    yield Diagnostic(WindowCode.GAPS, message, place, hint, Severity.WARNING)


def _many_reports(window: ContinuousWindow, syntax: FromSyntax, statement: StatementSyntax) -> Iterator[Diagnostic]:
    """A warning if one element is in the window at more than 10⁴ reports."""
    lifetime, step = _lifetime_and_step(window.extent)
    if window.policies is None or lifetime is None:
        return
    periods = [each for each in (window.policies.period, step if window.policies.window_close else None) if each is not None]
    if periods and lifetime > _MANY_REPORTS * max(periods):
        place = statement.period_span or syntax.spec.places.get("EXTENT") or syntax.span
        message = f"{lifetime // max(periods):,} reports for one element"
        yield Diagnostic(WindowCode.MANY_REPORTS, message, place, "Is the unit right? A longer STEP gives fewer.", Severity.WARNING)


def _lifetime_and_step(extent: Extent) -> tuple[Micros | None, Micros | None]:
    """The greatest time that an element is in the window, and the distance of closes, in µs."""
    match extent:
        case RangeExtent(width, step, lag):
            return width - lag, step
        case LandmarkExtent(step):
            return extent.longest, step
        case ElementsExtent() | TriplesExtent() | NowExtent():
            return None, None
        case _:
            assert_never(extent)


def duplicate_windows(windows: Sequence[FromSyntax], statement: StatementSyntax) -> None:
    """Report windows of equal names."""
    places: dict[Term, FromSyntax] = {}
    for window in windows:
        if window.name is None or window.name_span is None:
            continue
        first = places.setdefault(window.name, window)
        if first is not window and first.name_span is not None:
            line, column = first.name_span.line_column
            hint = f"The first is at line {line}, column {column}. Give each window a name of its own."
            span = window.name_span
            statement.scan.report(WindowCode.WINDOW_TWICE, f"two windows are called {clipped(span.text)}", span.start, span.end, hint)
            statement.is_complete = False


__all__ = ["ContinuousSet", "WindowCode", "compile_continuous", "statement_spans"]


@dataclass(frozen=True, slots=True)
class ContinuousSet(UnitFiles):
    """Result of compiling `.rspql` files.

    - `queries`: those of statements without an error, in the order of the files.
    - `diagnostics`: by file and offset.
    - `prefixes`: those of files (of two declarations the first), then the configuration's.
    """

    queries: tuple[ContinuousQuery, ...]
    diagnostics: tuple[Diagnostic, ...]
    prefixes: Prefixes = field(default_factory=dict, repr=False)

    @property
    def events(self) -> tuple[UnitEvents, ...]:
        """The events of all queries."""
        return events_of(self.queries)

    @property
    def names(self) -> Mapping[StreamName, Label]:
        """The label of each query by its name, which is that of the stream of its graphs."""
        return {query.name: query.label for query in self.queries}

    def resolve(self, names: ProgramNames) -> ResolvedUnits:
        """The queries with the streams of all windows; reports D224 and D225."""
        problems: list[Diagnostic] = []
        resolved: list[QueryUnit] = []
        for query in self.queries:
            streams = [names.stream_of(window.stream, window.stream_span, problems) for window in query.windows]
            known = tuple(stream for stream in streams if stream is not None)
            if len(known) == len(streams):
                resolved.append(QueryUnit(query, known, attributes_of(query)))
        return ResolvedUnits(resolved, problems)

    def without_cycle(self, unit: str) -> str:
        """Every query."""
        return "A continuous query"


def compile_continuous(documents: Sequence[Document], prefixes: Prefixes, unit: Unit = Unit.SECOND) -> ContinuousSet:
    """Compile `.rspql` files.

    - `prefixes`: prefix to namespace IRI, for files that declare no PREFIX of their own.
    - `unit`: the unit of a number without one in a duration, and of an integer as a time.

    Problems are in `ContinuousSet.diagnostics`; none is raised. Streams and labels are checked
    later, with the whole program.

    >>> text = "REGISTER RSTREAM <out> AS SELECT ?x FROM NAMED WINDOW <w> ON <in> [RANGE 10] { WINDOW <w> { ?x <p:p> ?y } }"
    >>> (query,) = compile_continuous([Document("q.rspql", text)], {}).checked().queries
    >>> query.label, query.windows[0].stream, query.windows[0].extent
    ('out', 'in', RangeExtent(width=10000000, step=10000000, lag=0, start=None))
    """
    queries: list[ContinuousQuery] = []
    diagnostics: list[Diagnostic] = []
    declared: dict[str, str] = {}
    for document in documents:
        problems: list[Diagnostic] = []
        for query, scan in _statements(document, prefixes, unit, problems):
            queries += [query] if query is not None else []
            declared = {**scan.prefixes, **declared}
        diagnostics += sorted(dict.fromkeys(problems), key=lambda each: each.span.start if each.span else -1)
    return ContinuousSet(tuple(queries), tuple(diagnostics), {**prefixes, **declared})


_PREFIX: Final = re.compile(r"(?i)prefix")


def _statements(
    document: Document, prefixes: Prefixes, unit: Unit, problems: list[Diagnostic]
) -> Iterator[tuple[ContinuousQuery | None, TokenScan]]:
    """Yield the query of each statement (None after a problem), and the scan with its prefixes."""
    tokens = [token[0] for token in rule_scan.tokens(Span(document, 0, len(document.text)))]
    declares = any(_PREFIX.fullmatch(one) and other.endswith(":") for one, other in pairwise(tokens))
    known, base = dict({} if declares else prefixes), ""
    spans = list(statement_spans(document))
    for span in spans:
        scan = TokenScan(span, dict(known), base, [], [], CONTINUOUS)
        cursor = statement_cursor(scan, list(lex(scan)))
        known, base = dict(scan.prefixes), scan.base
        if cursor.position >= cursor.end:  # only a prologue: the file has no REGISTER, at which spans are cut
            problems += scan.problems
            return
        statement = read_statement(cursor, unit)
        query = _query(statement)
        problems += scan.problems
        yield query, scan


def _query(statement: StatementSyntax) -> ContinuousQuery | None:
    """The query of a statement; None after a problem. All diagnostics are recorded in its scan."""
    duplicate_windows(statement.windows, statement)
    check_computed(statement)
    problems = statement.scan.problems
    if not statement.windows and statement.is_complete and statement.form_span is not None:
        hint = "Add FROM NAMED WINDOW <w> ON <stream> [RANGE 10s STEP 5s], and read it with WINDOW <w> { … }."
        problems.append(Diagnostic(WindowCode.NO_WINDOW, "a query without a window", statement.form_span, hint))
    body = read_body(statement)
    if problems or body is None or statement.label_span is None:
        return None
    windows: list[ContinuousWindow] = []
    for window in statement.windows:
        spec = window.spec
        extent = spec.placed_extent
        assert extent is not None, "an extent without a problem"
        policies = policies_of(window, statement)
        windows.append(ContinuousWindow(window.name, window.stream, extent, spec.level, policies, window.span, window.stream_span))
    query = ContinuousQuery(
        statement.name,
        statement.label,
        statement.relation or RelationToStream.RSTREAM,
        body.form,
        tuple(windows),
        body.matches,
        statement.span,
        statement.label_span,
    )
    problems += warnings(query, statement)
    return query


# Events of queries, as rules can read them.

ANSWER: Variable = "answer"
"""The attribute of the events of an ASK."""


def attributes_of(query: ContinuousQuery) -> tuple[Variable, ...]:
    """The attributes that the events of a query can have, sorted (continuous.md, section 6)."""
    match query.form:
        case SelectForm(select):
            return tuple(sorted(set(select.projection)))
        case AskForm():
            return (ANSWER,)
        case _:
            return ()


def events_of(queries: Sequence[ContinuousQuery]) -> tuple[UnitEvents, ...]:
    """The events of queries, as rules can read them."""
    return tuple(
        UnitEvents(query.label, attributes_of(query), query.label_span, query.makes_graphs, _certain_attributes(query)) for query in queries
    )


def _certain_attributes(query: ContinuousQuery) -> tuple[Variable, ...]:
    """The attributes that every event of a query has, sorted; one of an OPTIONAL may be unbound."""
    names = attributes_of(query)
    return names if isinstance(query.form, AskForm) else tuple(sorted(certain(query.query) & set(names)))
