"""Syntax tree of a rule file: words with spans; embedded texts are spans, not parsed yet."""

from __future__ import annotations

from typing import TypeAlias

from dotr.model import dataclass
from dotr.model.places import Document, Span
from dotr.model.rules import Mode


@dataclass(frozen=True, slots=True)
class Word:
    """Token with its span; `text` is without question mark (variable) or quotes (string, IRI)."""

    text: str
    span: Span


@dataclass(frozen=True, slots=True)
class PrefixSyntax:
    """`PREFIX NAME: <IRI>`."""

    name: Word
    iri: Word


@dataclass(frozen=True, slots=True)
class QuerySyntax:
    """`query LABEL = [ SELECT … ]`; `text` is the span between the brackets."""

    label: Word
    text: Span


@dataclass(frozen=True, slots=True)
class Inline:
    """`LABEL = [ SELECT … ]`: a query of one rule; `text` is the span between the brackets."""

    label: Word
    text: Span


@dataclass(frozen=True, slots=True)
class ByLabel:
    """`ORIGIN as LABEL [ FILTER … ]`: a shared query or event; `label` is by default `origin`."""

    origin: Word
    label: Word
    filters: Span | None


@dataclass(frozen=True, slots=True)
class Quantities:
    """`1 h 30 min`: numbers with their units; `0` is one number without a unit."""

    parts: tuple[tuple[Word, Word | None], ...]
    span: Span


@dataclass(frozen=True, slots=True)
class Lexical:
    """`"PT5M"^^xsd:duration`, a duration as a typed literal; `PT5M` has no datatype."""

    value: Word
    datatype: Word | None
    span: Span


DurationSyntax: TypeAlias = Quantities | Lexical


@dataclass(frozen=True, slots=True)
class CalendarSyntax:
    """`day at 06:00 in "Europe/Berlin"`, the moments of ticks."""

    unit: Word
    at: Word | None
    zone: Word | None


@dataclass(frozen=True, slots=True)
class TicksSyntax:
    """`every PERIOD for [ SELECT … ] as LABEL`; `text` is between the brackets, if any."""

    keyword: Word
    period: DurationSyntax | CalendarSyntax
    text: Span | None
    label: Word


EventSyntax: TypeAlias = Inline | ByLabel | TicksSyntax


@dataclass(frozen=True, slots=True)
class DelaySyntax:
    """`delayed by LENGTH`, or `delayed by VALUE at most LENGTH`."""

    keyword: Word
    length: DurationSyntax
    value: Span | None = None


@dataclass(frozen=True, slots=True)
class IntervalSyntax:
    """`[LOW, HIGH)`; a round bracket is an open end."""

    low: DurationSyntax
    high: DurationSyntax
    low_closed: bool
    high_closed: bool
    span: Span


@dataclass(frozen=True, slots=True)
class WindowSyntax:
    """`within EXTENT from REFERENCE`; the extent of `before REFERENCE` is its keyword."""

    extent: DurationSyntax | IntervalSyntax | Word
    reference: Word


@dataclass(frozen=True, slots=True)
class BetweenSyntax:
    """`between FIRST and SECOND`."""

    first: Word
    second: Word


ScopeSyntax: TypeAlias = WindowSyntax | BetweenSyntax


@dataclass(frozen=True, slots=True)
class ChooseSyntax:
    """`and also last 3 E within …`; a missing window is `None` and is reported by pass 8."""

    keyword: Word
    mode: Mode
    count: Word | None
    event: EventSyntax
    scope: WindowSyntax | None
    also: Word | None = None


@dataclass(frozen=True, slots=True)
class AbsentSyntax:
    """`and not E within …`, or `between …`."""

    keyword: Word
    event: EventSyntax
    scope: ScopeSyntax | None


@dataclass(frozen=True, slots=True)
class AggregateSyntax:
    """`and ?x = avg(E.?v) of E within …`; `argument` is None for `*`, `fraction` is the number of
    `quantile(0.95, E.?v)`."""

    variable: Word
    function: Word
    distinct: bool
    argument: tuple[Word, Word] | None
    event: EventSyntax
    scope: ScopeSyntax | None
    fraction: Word | None = None


ClauseSyntax: TypeAlias = ChooseSyntax | AbsentSyntax | AggregateSyntax


@dataclass(frozen=True, slots=True)
class AssignmentSyntax:
    """`LABEL.?variable = expression`."""

    label: Word
    variable: Word
    expression: Span


@dataclass(frozen=True, slots=True)
class OnceSyntax:
    """`once in PAUSE per ?KEY, …`; a missing pause is `None` and is reported by pass 8."""

    keyword: Word
    pause: DurationSyntax | None
    keys: tuple[Word, ...]


@dataclass(frozen=True, slots=True)
class RuleSyntax:
    """`rule NAME "…" define EVENT = [TEMPLATE] from ANCHOR and … if … with … consuming … once …`.

    `internal`: the word of `define internal EVENT`.
    """

    name: Word | None
    documentation: str
    event: Word
    template: Span
    anchor: EventSyntax
    delay: DelaySyntax | None
    clauses: tuple[ClauseSyntax, ...]
    condition: Span | None
    assignments: tuple[AssignmentSyntax, ...]
    consuming: tuple[Word, ...]
    span: Span
    internal: Word | None = None
    once: OnceSyntax | None = None


@dataclass(frozen=True, slots=True)
class DocumentSyntax:
    """Statements of one file; `broken`: labels that invalid statements seem to define."""

    document: Document
    prefixes: tuple[PrefixSyntax, ...]
    queries: tuple[QuerySyntax, ...]
    rules: tuple[RuleSyntax, ...]
    broken: frozenset[str]
