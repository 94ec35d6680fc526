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

from dotr.errors.diagnostics import Diagnostic, did_you_mean
from dotr.languages.declarations import declares_nothing_else
from dotr.languages.epsparql.codes import TemporalCode
from dotr.languages.epsparql.component import with_components
from dotr.languages.epsparql.resolution import ProgramLabels, interval_warnings, resolve_intervals
from dotr.languages.epsparql.text.keywords import PLAIN
from dotr.languages.epsparql.text.lexemes import UnitCursor
from dotr.languages.epsparql.text.statements import EXAMPLE, read_unit
from dotr.languages.epsparql.text.units import forms_of, length_warnings, unit_of
from dotr.languages.linking import ProgramNames, ResolvedUnits, UnitFiles
from dotr.model.places import Document, Span
from dotr.model.terms import Prefixes
from dotr.model.units import UnitEvents
from dotr.syntax import scan as rule_scan
from dotr.syntax.cursor import statement_spans
from dotr.syntax.sparql.tokens import TokenScan, lex
from dotr.temporal.intervals.patterns import EventRead, TemporalQuery, operand_reads
from dotr.temporal.layout.units import StreamUnit

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
