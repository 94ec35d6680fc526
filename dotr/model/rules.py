"""Temporal rules as data: what every language of `dotr.languages` is compiled to (semantics.md, sections 3 to 5)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias

from dotr.model.algebra import Expression, Select
from dotr.model.places import Span
from dotr.model.templates import Template
from dotr.model.terms import Label, Variable
from dotr.model.time import Interval, Micros


@dataclass(frozen=True, slots=True)
class FactSource:
    """Facts of interest of one query. `query` is the SELECT without its temporal constraints, projecting `attributes`: the projected
    variables and the hidden ones that this rule's constraints need, sorted by name. `reported` are the projected ones alone.

    With a `period` they are no facts of instants but ticks (`every 10 min for [ … ]`): at each multiple of the period, one for each answer
    of the background alone. `every 10 min` without a query has the query of no patterns, whose one answer is empty.
    """

    query: Select
    attributes: tuple[Variable, ...]
    reported: tuple[Variable, ...]
    period: Micros | None = None


@dataclass(frozen=True, slots=True)
class EventSource:
    """Composite events: the union of those of all rules that define the event, with all their attributes, sorted by name."""

    event: Label
    attributes: tuple[Variable, ...]


Source: TypeAlias = FactSource | EventSource


@dataclass(frozen=True, slots=True)
class Role:
    """An event's place in a rule: a label, where its events come from, and the temporal constraints that choose among them.

    `origin` is the label of the shared query or event that the role reads (`last Fire as Old`: label Old, origin Fire).
    In a constraint, `Var(v)` is an attribute of the candidate, `Attribute(M, v)` one of a label bound before (where M was
    aggregated before, its aggregate's variable), and `TimeOf(label)` the time of this candidate or of a label bound before. The constraints
    are conjuncts.

    An anchor may have a `delay`: its event stands in the match at that much after its own time, to which only `TimeOf` refers.
    """

    label: Label
    origin: Label
    source: Source
    constraints: tuple[Expression, ...]
    span: Span
    delay: Micros = 0


@dataclass(frozen=True, slots=True)
class Window:
    """`within I from R`."""

    interval: Interval
    reference: Label


@dataclass(frozen=True, slots=True)
class Between:
    """`between R1 and R2`: strictly between the two bound events in time, whichever is the earlier."""

    first: Label
    second: Label


class Mode(Enum):
    EACH = "each"
    LAST = "last"
    FIRST = "first"


@dataclass(frozen=True, slots=True)
class Choose:
    """`each E`, `last E`, `first E`; `last n E` and `first n E` have a count."""

    role: Role
    mode: Mode
    window: Window
    count: int | None = None


@dataclass(frozen=True, slots=True)
class Absent:
    """`not E …`."""

    role: Role
    scope: Window | Between


@dataclass(frozen=True, slots=True)
class Aggregate:
    """`?x = F(E.?v) of E …`; `attribute` is None for `count(*)`."""

    variable: Variable
    function: str
    distinct: bool
    attribute: Variable | None
    role: Role
    scope: Window | Between


Clause: TypeAlias = Choose | Absent | Aggregate


@dataclass(frozen=True, slots=True)
class Assignment:
    """`with Event.?variable = expression`; aggregates are `Var`, attributes of bound events `Attribute`."""

    variable: Variable
    expression: Expression


@dataclass(frozen=True, slots=True)
class Rule:
    name: str
    documentation: str
    event: Label
    template: Template
    anchor: Role
    clauses: tuple[Clause, ...]
    condition: Expression | None
    assignments: tuple[Assignment, ...]
    consuming: tuple[Label, ...]
    span: Span


@dataclass(frozen=True, slots=True)
class SharedQuery:
    """`query L = [ … ]`: reported as facts of interest under its label even where no rule reads it."""

    label: Label
    query: Select
    span: Span
