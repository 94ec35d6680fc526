"""Report policies of windows: the defaults, and checks of those in the text.

Source: continuous.md, sections 4 and 10.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, assert_never

from dotr.errors.diagnostics import Diagnostic, Severity
from dotr.languages.continuous.codes import WindowCode
from dotr.languages.continuous.model import (
    ContinuousQuery,
    ContinuousWindow,
    ElementsExtent,
    Extent,
    LandmarkExtent,
    NowExtent,
    RangeExtent,
    RelationToStream,
    ReportPolicies,
    TriplesExtent,
)
from dotr.languages.continuous.text.statements import FromSyntax, StatementSyntax
from dotr.languages.linking import unbound_warnings
from dotr.model.algebra import Bgp, MatchPattern, Pattern, WindowBlock
from dotr.model.places import Span
from dotr.model.terms import Term
from dotr.model.time import Micros
from dotr.model.traverse import AlgebraNode, children, in_scope, never_bound
from dotr.syntax.cursor import clipped
from dotr.syntax.rendering import duration_text
from dotr.temporal.intervals.patterns import plain_groups

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
