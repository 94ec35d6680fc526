"""Warnings for continuous queries that need the background: answers without the stream, and keys.

Source: continuous.md, section 10.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from dotr.errors.diagnostics import Diagnostic, Severity
from dotr.evaluation.limits import LimitExceeded, Limits
from dotr.evaluation.triples.index import TripleIndex
from dotr.instant.datalog.background.knowledge import Knowledge
from dotr.instant.queries.evaluate import AlgebraCompiler
from dotr.instant.queries.graph import Graph
from dotr.instant.queries.operators import EMPTY
from dotr.instant.queries.window_operators import ReportGraph
from dotr.languages.continuous.codes import WindowCode
from dotr.languages.continuous.keys import query_key
from dotr.languages.continuous.model import AskForm, ContinuousQuery, EntailmentLevel, StreamQuery
from dotr.model.traverse import grouping


def query_warnings(queries: Sequence[StreamQuery], knowledge: Knowledge, limits: Limits) -> Iterator[Diagnostic]:
    """A warning for each query that the background alone answers, and for each with one
    partition."""
    for each in queries:
        query = each.query
        if _answers_without_windows(query, knowledge, limits):
            message = f"the background alone answers {query.label}: it has solutions where every window is empty"
            hint = "Add a pattern that only a window can match."
            yield Diagnostic(WindowCode.BACKGROUND_ANSWERS, message, query.label_span, hint, Severity.WARNING)
        if reason := query_key(query).reason:
            hint = "It runs on one core; other queries run on others."
            if not knowledge.has_rules and (instead := _reason_without_rules(query)) != reason:
                reason = instead or "the level of its window is not NONE or SNAPSHOT"
                hint = (
                    hint
                    if instead
                    else "Write ENTAILMENT NONE: without Datalog and an entailment the solutions are the same, on all cores."
                )
            message = f"query {query.label} has one partition: {reason}"
            yield Diagnostic(WindowCode.ONE_PARTITION, message, query.label_span, hint, Severity.WARNING)


def _reason_without_rules(query: ContinuousQuery) -> str:
    """The first reason against a key where no rule concludes anything, so that the level has no
    effect; empty if there is none."""
    levels = [window.block_level for window in query.windows]
    if not all(isinstance(level, EntailmentLevel) for level in levels):
        return query_key(query).reason
    windows = tuple([replace(window, level=EntailmentLevel.NONE) for window in query.windows])
    return query_key(replace(query, windows=windows)).reason


def _answers_without_windows(query: ContinuousQuery, knowledge: Knowledge, limits: Limits) -> bool:
    """True if the background alone has solutions. The one row of an aggregate over no solutions
    does not count."""
    group = grouping(query.query.pattern)
    if group is not None and not group.keys and not isinstance(query.form, AskForm):
        return False
    nothing = Graph(TripleIndex(), TripleIndex())
    windows = {window.name: nothing for window in query.windows if window.name is not None}
    graph = ReportGraph(knowledge.background, TripleIndex(), windows, [()] * len(query.matches), limits)
    try:
        return AlgebraCompiler().compile(query.query).has_solution(graph, EMPTY)
    except LimitExceeded:
        return True
