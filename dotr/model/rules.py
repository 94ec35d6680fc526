"""Temporal rules: the target of every rule language in `dotr.languages` (semantics.md, 3 to 5)."""

from __future__ import annotations

from dataclasses import replace
from enum import Enum
from typing import TypeAlias

from dotr.model import dataclass
from dotr.model.algebra import Expression, Select
from dotr.model.calendars import Schedule
from dotr.model.places import Span
from dotr.model.templates import Template
from dotr.model.terms import Label, Variable
from dotr.model.time import Interval, Micros


@dataclass(frozen=True, slots=True)
class FactSource:
    """The facts of interest of one query.

    - `query`: the SELECT without its temporal constraints, which projects `attributes`.
    - `attributes`: sorted by name, the projected variables and the hidden ones that the constraints
      of the rule need.
    - `projected`: the projected variables alone.
    - `period`: None for facts of instants. Otherwise the source yields ticks (`every 10 min for
      [ … ]`): at each multiple of the period in µs, or moment of the calendar, one for each answer
      over the background alone. `every 10 min` has the empty pattern as its query, which has one
      empty answer.
    """

    query: Select
    attributes: tuple[Variable, ...]
    projected: tuple[Variable, ...]
    period: Schedule | None = None


@dataclass(frozen=True, slots=True)
class EventSource:
    """Composite events of all rules that define `event`.

    `attributes`: those of all these rules, sorted by name.
    """

    event: Label
    attributes: tuple[Variable, ...]


Source: TypeAlias = FactSource | EventSource


@dataclass(frozen=True, slots=True)
class Role:
    """An event of a rule: its label, its source, and the constraints on candidates.

    - `origin`: the label of the shared query or event that is read (`last Fire as Old`: label Old,
      origin Fire).
    - `constraints`: conjuncts over a candidate. `Var(v)` is an attribute of the candidate,
      `Attribute(M, v)` an attribute of a label bound before (or, where M was aggregated before, the
      variable of its aggregate), `TimeOf(label)` the time of the candidate or of a label bound
      before.
    - `delay`: in µs, of an anchor. In the match the event has its own time plus the delay; `TimeOf`
      refers to its own time.
    - `delayed_by`: the delay as an expression over the anchor (`Var(v)`, `TimeOf(label)`), whose
      value is from 0 to `delay`; None: the delay is a constant.
    """

    label: Label
    origin: Label
    source: Source
    constraints: tuple[Expression, ...]
    span: Span
    delay: Micros = 0
    delayed_by: Expression | None = None

    @property
    def least_delay(self) -> Micros:
        """The least delay (µs) of an anchor."""
        return self.delay if self.delayed_by is None else 0


@dataclass(frozen=True, slots=True)
class Window:
    """`within I from R`; `before R` has the interval `EVER`."""

    interval: Interval
    reference: Label


@dataclass(frozen=True, slots=True)
class Between:
    """`between R1 and R2`: strictly between the times of two bound events, in either order."""

    first: Label
    second: Label


class Mode(Enum):
    """Selection mode of a clause."""

    EACH = "each"
    LAST = "last"
    FIRST = "first"


@dataclass(frozen=True, slots=True)
class Choose:
    """`each E`, `last E`, `first E`; with a count, `last n E` and `first n E`.

    `also`: the event may be one that has a role in the match already.
    """

    role: Role
    mode: Mode
    window: Window
    count: int | None = None
    also: bool = False


@dataclass(frozen=True, slots=True)
class Absent:
    """`not E …`."""

    role: Role
    scope: Window | Between


@dataclass(frozen=True, slots=True)
class Aggregate:
    """`?x = F(E.?v) of E …`; `attribute` is None for `count(*)`.

    - `fraction`: the number of `quantile(0.95, E.?v)`, as text without trailing zeros.
    """

    variable: Variable
    function: str
    distinct: bool
    attribute: Variable | None
    role: Role
    scope: Window | Between
    fraction: str | None = None


Clause: TypeAlias = Choose | Absent | Aggregate


@dataclass(frozen=True, slots=True)
class Assignment:
    """`with Event.?variable = expression`.

    In the expression an aggregate of the rule is a `Var`, an attribute of a bound event an
    `Attribute`.
    """

    variable: Variable
    expression: Expression


@dataclass(frozen=True, slots=True)
class Once:
    """`once in D per ?x, …`: a firing is held back less than D after one with an equal key.

    - `pause`: D in µs.
    - `keys`: attributes of the composite event, each once, sorted.
    """

    pause: Micros
    keys: tuple[Variable, ...]


@dataclass(frozen=True, slots=True)
class Rule:
    """A temporal rule: anchor, clauses in binding order, condition, and the event it defines.

    `internal`: the event is for other rules and units, and for outputs that name it.
    """

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
    internal: bool = False
    once: Once | None = None


@dataclass(frozen=True, slots=True)
class SharedQuery:
    """`query L = [ … ]`: its facts of interest are counted and shown also if no rule reads them."""

    label: Label
    query: Select
    span: Span


def facts_of(shared: SharedQuery) -> FactSource:
    """The facts of a shared query with its projected attributes, sorted."""
    attributes = tuple(sorted(shared.query.projection))
    return FactSource(replace(shared.query, projection=attributes), attributes, attributes)
