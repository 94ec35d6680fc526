"""Intermediate representation of the passes: drafts of all rules, and the problems found.

Invariant: a part that a pass rejects stays `None` (or UNKNOWN), and later passes skip it, so one
mistake is reported once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import field, replace
from enum import Enum, auto
from typing import TypeAlias

from dotr.engine.spec import RulePlaces
from dotr.errors.diagnostics import Diagnostic, Severity
from dotr.evaluation.expressions.kinds import ObjectKinds, TermKinds
from dotr.languages.rules.syntax import (
    AbsentSyntax,
    AggregateSyntax,
    ByLabel,
    ChooseSyntax,
    DocumentSyntax,
    EventSyntax,
    QuerySyntax,
    RuleSyntax,
    ScopeSyntax,
    Word,
)
from dotr.model import dataclass
from dotr.model.algebra import Expression, Select
from dotr.model.calendars import Schedule
from dotr.model.places import Document, Span
from dotr.model.rules import Rule, SharedQuery
from dotr.model.templates import Template
from dotr.model.terms import Label, Prefixes, Variable
from dotr.model.time import Forms, Interval, Micros
from dotr.model.units import UnitEvents
from dotr.syntax.sparql import Reference, scan_references


@dataclass(frozen=True, slots=True)
class SplitQuery:
    """A SELECT query without its temporal constraints, and the constraints.

    - `references`: every `M.?v` and `time(M)` in its text.
    - `places`: the spans of its conditions.
    """

    text: Span
    select: Select
    constraints: tuple[Expression, ...]
    references: tuple[Reference, ...]
    places: Mapping[Expression, Span] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class QueryDraft:
    """Draft of a shared query."""

    syntax: QuerySyntax
    prefixes: Prefixes = field(default_factory=dict)
    query: SplitQuery | None = None


class RoleOrigin(Enum):
    """Source of a role's events: the rule's own query, a shared query, or the event of a rule."""

    OWN = auto()
    SHARED = auto()
    EVENT = auto()
    UNKNOWN = auto()


class RoleUse(Enum):
    """Use of a role in its rule."""

    ANCHOR = auto()
    CHOSEN = auto()
    ABSENT = auto()
    AGGREGATED = auto()

    @property
    def binds_label(self) -> bool:
        """True if a match has one event of the role."""
        return self in (RoleUse.ANCHOR, RoleUse.CHOSEN)


@dataclass(frozen=True, slots=True)
class RoleDraft:
    """Draft of the anchor or of a clause's event.

    - `scope`, `interval`: the window of a clause; None for the anchor. `between` has no interval.
    - `query`: the role's own query, or the shared query that it reads.
    - `filters`: the conjuncts of the FILTERs behind its label.
    - `period`: of ticks; `delay`: of the anchor, in µs, the greatest one where it has an
      expression, `delayed_by`.
    """

    use: RoleUse
    syntax: EventSyntax
    scope: ScopeSyntax | None = None
    origin: RoleOrigin = RoleOrigin.UNKNOWN
    query: SplitQuery | None = None
    filters: tuple[Expression, ...] = ()
    filter_references: tuple[Reference, ...] = ()
    filter_places: Mapping[Expression, Span] = field(default_factory=dict)
    interval: Interval | None = None
    period: Schedule | None = None
    delay: Micros = 0
    delayed_by: Expression | None = None

    @property
    def label(self) -> Word:
        """The label of the role in its rule."""
        return self.syntax.label

    @property
    def source_label(self) -> Word:
        """The label of the query or event that the role reads."""
        return self.syntax.origin if isinstance(self.syntax, ByLabel) else self.syntax.label

    @property
    def references(self) -> tuple[Reference, ...]:
        """Every `M.?v` and `time(M)` of the role's query and FILTERs."""
        return (self.query.references if self.query else ()) + self.filter_references


@dataclass(frozen=True, slots=True)
class RuleDraft:
    """Draft of a rule; `roles`: the anchor, then the clauses in the order written; `pause`: of
    `once`, in µs."""

    syntax: RuleSyntax
    roles: tuple[RoleDraft, ...]
    prefixes: Prefixes = field(default_factory=dict)
    template: Template | None = None
    condition: Expression | None = None
    condition_places: Mapping[Expression, Span] = field(default_factory=dict)
    expressions: tuple[Expression | None, ...] = ()
    pause: Micros | None = None

    @property
    def name(self) -> Word:
        """The rule's name, by default its event."""
        return self.syntax.name or self.syntax.event

    @property
    def positions(self) -> Mapping[Label, int]:
        """Index of each label among the roles; the first of two equal labels."""
        return {role.label.text: i for i, role in reversed(list(enumerate(self.roles)))}

    @property
    def references(self) -> tuple[Reference, ...]:
        """Every `M.?v` and `time(M)` of the rule."""
        delay = self.syntax.delay.value if self.syntax.delay is not None else None
        texts = [*filter(None, [self.syntax.condition, delay]), *(a.expression for a in self.syntax.assignments)]
        return tuple(r for role in self.roles for r in role.references) + tuple(r for text in texts for r in scan_references(text))

    @property
    def aggregates(self) -> frozenset[Variable]:
        """The variables of all aggregates of the rule."""
        return frozenset(c.variable.text for c in self.syntax.clauses if isinstance(c, AggregateSyntax))


def rule_draft(syntax: RuleSyntax) -> RuleDraft:
    """The draft of a rule before any pass."""
    roles = [RoleDraft(RoleUse.ANCHOR, syntax.anchor)]
    for clause in syntax.clauses:
        match clause:
            case ChooseSyntax():
                roles.append(RoleDraft(RoleUse.CHOSEN, clause.event, clause.scope))
            case AbsentSyntax():
                roles.append(RoleDraft(RoleUse.ABSENT, clause.event, clause.scope))
            case AggregateSyntax():
                roles.append(RoleDraft(RoleUse.AGGREGATED, clause.event, clause.scope))
    return RuleDraft(syntax, tuple(roles))


@dataclass(frozen=True, slots=True)
class ProgramDraft:
    """Draft of a program.

    - `object_kinds`: the kinds of predicates' objects in known data.
    - `units`: events of units of other languages.
    - `integer_times`: times are known to be integers.
    """

    documents: tuple[Document, ...]
    default_prefixes: Prefixes
    object_kinds: ObjectKinds = field(default_factory=dict)
    units: tuple[UnitEvents, ...] = ()
    integer_times: bool = False
    files: tuple[DocumentSyntax, ...] = ()
    queries: tuple[QueryDraft, ...] = ()
    rules: tuple[RuleDraft, ...] = ()
    emitted_rules: tuple[Rule, ...] = ()
    emitted_queries: tuple[SharedQuery, ...] = ()
    emitted_places: Mapping[str, RulePlaces] = field(default_factory=dict)
    forms: Mapping[Label, Forms] = field(default_factory=dict)
    kinds: Mapping[Label, Mapping[Variable, TermKinds]] = field(default_factory=dict)
    diagnostics: tuple[Diagnostic, ...] = ()

    @property
    def is_error_free(self) -> bool:
        """True if no error has been reported."""
        return all(d.severity is Severity.WARNING for d in self.diagnostics)

    @property
    def event_attributes(self) -> Mapping[Label, tuple[Variable, ...]]:
        """Attributes of each event, sorted: `with` variables of its rules, or those of its unit."""
        by_event: dict[Label, set[Variable]] = {unit.label: set(unit.attributes) for unit in self.units}
        for rule in self.rules:
            by_event.setdefault(rule.syntax.event.text, set()).update(a.variable.text for a in rule.syntax.assignments)
        return {label: tuple(sorted(names)) for label, names in by_event.items()}

    @property
    def rules_by_event(self) -> Mapping[Label, list[RuleDraft]]:
        """The rules that make each event, in the order of the program."""
        by_event: dict[Label, list[RuleDraft]] = {}
        for rule in self.rules:
            by_event.setdefault(rule.syntax.event.text, []).append(rule)
        return by_event

    @property
    def shared_queries(self) -> Mapping[Label, QueryDraft]:
        """Shared queries by label; the first of two with one label."""
        return {query.syntax.label.text: query for query in reversed(self.queries)}

    def with_problems(self, diagnostics: Iterable[Diagnostic]) -> ProgramDraft:
        """This draft with more diagnostics."""
        return replace(self, diagnostics=self.diagnostics + tuple(diagnostics))


def event_reads(rules: Mapping[Label, Iterable[RuleDraft]]) -> dict[Label, list[Label]]:
    """The events that the rules of each event read, each once."""
    return {
        event: list(dict.fromkeys(role.source_label.text for rule in own for role in rule.roles if role.origin is RoleOrigin.EVENT))
        for event, own in rules.items()
    }


Pass: TypeAlias = Callable[[ProgramDraft], ProgramDraft]


def warning(code: str, message: str, span: Span, hint: str = "") -> Diagnostic:
    """A `Diagnostic` of the severity WARNING."""
    return Diagnostic(code, message, span, hint, Severity.WARNING)


def role_attributes(role: RoleDraft, events: Mapping[Label, tuple[Variable, ...]]) -> tuple[Variable, ...] | None:
    """The attributes `?v` that `M.?v` may name for a role M; None if they are unknown."""
    match role.origin:
        case RoleOrigin.OWN | RoleOrigin.SHARED:
            return role.query.select.projection if role.query else None
        case RoleOrigin.EVENT:
            return events[role.source_label.text]
        case RoleOrigin.UNKNOWN:
            return None
