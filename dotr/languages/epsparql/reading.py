"""Compiler of EP-SPARQL: the text of `.epsparql` files to `dotr.temporal.intervals.patterns`.

All units of a file are parsed, and all parts of a unit, also after one with an error.
Source: ep-sparql.md, sections 1 to 4 and 6.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final

from dotr.errors.diagnostics import CheckedFiles, Diagnostic
from dotr.languages.declarations import declares_nothing_else
from dotr.languages.epsparql.codes import TemporalCode
from dotr.languages.epsparql.text.keywords import PLAIN
from dotr.languages.epsparql.text.lexemes import UnitCursor
from dotr.languages.epsparql.text.statements import EXAMPLE, read_unit
from dotr.languages.epsparql.text.units import unit_of
from dotr.model.places import Document, Span
from dotr.model.terms import Prefixes
from dotr.syntax import scan as rule_scan
from dotr.syntax.cursor import statement_spans
from dotr.syntax.sparql.tokens import TokenScan, lex
from dotr.temporal.intervals.patterns import TemporalQuery

__all__ = ["TemporalCode", "TemporalSet", "compile_temporal"]


@dataclass(frozen=True, slots=True)
class TemporalSet(CheckedFiles):
    """Result of compiling `.epsparql` files.

    - `units`: those without an error, in the order of the files.
    - `diagnostics`: by file and offset.
    - `prefixes`: those of files (of two declarations the first), then the configuration's.
    """

    units: tuple[TemporalQuery, ...]
    diagnostics: tuple[Diagnostic, ...]
    prefixes: Prefixes = field(default_factory=dict, repr=False)


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
        span = Span(document, 0, min(1, len(document.text)))
        problems.append(Diagnostic(TemporalCode.NO_UNIT, "there is no unit in this file", span, f"A unit is {EXAMPLE}"))
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
