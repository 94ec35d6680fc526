"""Warnings for EP-SPARQL that need the whole program: other units, or the background.

Source: ep-sparql.md, section 6.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from dotr.errors.diagnostics import Diagnostic, Severity
from dotr.languages.epsparql.codes import TemporalCode
from dotr.languages.epsparql.interval_keys import interval_key
from dotr.model.algebra import Select, TriplePattern
from dotr.model.places import Span
from dotr.model.rules import FactSource
from dotr.model.terms import Variable
from dotr.model.traverse import walk
from dotr.temporal.intervals.patterns import (
    ConstructedGraphs,
    InstantAnswers,
    InstantGroup,
    TemporalQuery,
    combinations,
    may_read,
    operand_reads,
)
from dotr.temporal.layout.units import StreamUnit


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


def background_groups(units: Sequence[StreamUnit], static: Collection[Select]) -> Iterator[Diagnostic]:
    """E401 for each plain group among `static`, the queries that the background alone answers."""
    for unit in units:
        of_rules = {rule.span.document.name for rule in unit.rules}
        for stream, _, span in unit.reads:
            if isinstance(stream, FactSource) and stream.query in static and span.document.name not in of_rules:
                yield background_warning(span)


def background_warning(span: Span) -> Diagnostic:
    """E401 at a plain group."""
    message = "the background alone answers this group: it has solutions at every instant"
    hint = "Put its triples into the group that they describe, or add a pattern that only the stream can match."
    return _warning(TemporalCode.OF_THE_BACKGROUND, message, span, hint)


def _warning(code: TemporalCode, message: str, span: Span, hint: str) -> Diagnostic:
    return Diagnostic(code, message, span, hint, Severity.WARNING)
