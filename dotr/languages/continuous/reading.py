"""Compiler of continuous queries: the text of `.rspql` files to `dotr.languages.continuous.model`.

All statements of a file are parsed, and all parts of a statement, also after one with an error.
Source: continuous.md, sections 1 to 7 and 10.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final

from dotr.errors.diagnostics import Diagnostic
from dotr.evaluation.joins.scope import certain
from dotr.languages.continuous.codes import WindowCode
from dotr.languages.continuous.model import AskForm, ContinuousQuery, ContinuousWindow, RelationToStream, SelectForm, StreamName
from dotr.languages.continuous.text.bodies import read_body
from dotr.languages.continuous.text.keywords import CONTINUOUS
from dotr.languages.continuous.text.policies import check_computed, duplicate_windows, policies_of, warnings
from dotr.languages.continuous.text.statements import StatementSyntax, read_statement, statement_cursor
from dotr.languages.continuous.unit import QueryUnit
from dotr.languages.linking import ProgramNames, ResolvedUnits, UnitFiles
from dotr.model.places import Document, Span
from dotr.model.terms import Label, Prefixes, Variable
from dotr.model.time import Unit
from dotr.model.units import UnitEvents
from dotr.syntax import scan as rule_scan
from dotr.syntax.cursor import statement_spans
from dotr.syntax.sparql.tokens import TokenScan, lex

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
