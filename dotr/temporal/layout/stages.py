"""Stages of a rule: sequences of consecutive clauses, each evaluated in the bucket of a key, and the
bindings that travel between them.

Idea: a rule without a key that ties all its clauses is a chain of lookups. Each clause's events are
stored under the clause's own key, and the binding of an anchor visits clause after clause, in the
bucket of the value of the next key. A clause without a key is *replicated*: its events go to every
bucket of its stage.
Example: `from SlowDown and each Beside [?section = SlowDown.?section] and last Parking [?park =
Beside.?park]` has two stages. The first, by section, holds SlowDown and Beside; the second, by
park, holds Parking. Its bindings are rows of the values of SlowDown and Beside.
Invariant: a bucket is a function of times and values, never of an ordinal, so that equal bindings,
and then equal matches, meet in one bucket.
"""

from __future__ import annotations

from typing import TypeAlias

from dotr.model import dataclass
from dotr.model.rules import Role, Rule
from dotr.model.terms import Label, Variable
from dotr.temporal.layout.keys import Partitioning


@dataclass(frozen=True, slots=True)
class AliveRules:
    """The rules of the stream whose constraints the binding satisfies so far: their indexes in
    `BindingStream.rules`, ascending, as decimal numbers separated by one space."""

    @property
    def name(self) -> Variable:
        """The name of the column at the port."""
        return "rules"


@dataclass(frozen=True, slots=True)
class BranchSize:
    """The product of the numbers of events that the earlier clauses have chosen for this binding,
    for the limit on branches; a decimal number.
    """

    @property
    def name(self) -> Variable:
        """The name of the column at the port."""
        return "branches"


@dataclass(frozen=True, slots=True)
class BoundTime:
    """The time in µs since 1970, as a decimal number, of the event bound to the role at a place: 0
    is the anchor, n the clause `rule.clauses[n - 1]`."""

    place: int

    @property
    def name(self) -> Variable:
        """The name of the column at the port."""
        return f"{self.place}.time"


@dataclass(frozen=True, slots=True)
class BoundOrdinal:
    """The ordinal, as a decimal number, of the event bound to the role at a place."""

    place: int

    @property
    def name(self) -> Variable:
        """The name of the column at the port."""
        return f"{self.place}.ordinal"


@dataclass(frozen=True, slots=True)
class BoundValue:
    """The attribute of the event bound to the role at a place; None where unbound."""

    place: int
    attribute: Variable

    @property
    def name(self) -> Variable:
        """The name of the column at the port."""
        return f"{self.place}.{self.attribute}?"


@dataclass(frozen=True, slots=True)
class AggregatedValue:
    """The value of the aggregate at a place; None where unbound."""

    place: int

    @property
    def name(self) -> Variable:
        """The name of the column at the port."""
        return f"{self.place}.value"


BindingColumn: TypeAlias = AliveRules | BranchSize | BoundTime | BoundOrdinal | BoundValue | AggregatedValue
"""One item of a binding's row. All items are texts or None, as those of events are."""


@dataclass(frozen=True, slots=True)
class BindingStream:
    """The bindings that enter a stage: the stream of a port that is keyed by one of its columns.

    A row binds each positive label of the earlier stages to an event, and each aggregate there to
    its value. It arrives at the time of its anchor plus the anchor's delay, in the layer of its
    stage alone: `Router.events` routes it as it routes composite events. Rows arrive in no
    particular order, and their ordinals have no meaning.

    - `rules`: the names of the rules whose bindings share the stream, in ascending order: rules of
      one rule shape, whose roles have the same ports in every stage.
    - `stage`: the number of the stage, from 1 on.
    - `columns`: the items of a row, in this order:
      1. `AliveRules`, where there are several rules;
      2. `BranchSize`, where a clause before the stage may choose several events;
      3. for each place, ascending: of a positive role `BoundTime`, `BoundOrdinal`, and the
         `BoundValue` of some attributes, in ascending order; of an aggregate `AggregatedValue`; a
         negation has no column.

    Of the anchor all attributes are columns, since dead letters show them. Of another positive role
      all are, hidden ones too, if the template of one of the rules has fresh names, which are
      functions of the whole match; otherwise those that this stage or a later one reads, in
      constraints, `if`, `with` or the key of a stage.
    - `key`: the column whose value selects the bucket of a row. Unbound keys have bucket 0.

    >>> columns = (BoundTime(0), BoundOrdinal(0), BoundValue(0, "room"))
    >>> BindingStream(("R",), 1, columns, BoundValue(0, "room")).names
    ('0.time', '0.ordinal', '0.room?')
    """

    rules: tuple[str, ...]
    stage: int
    columns: tuple[BindingColumn, ...]
    key: BoundValue | AggregatedValue

    def __hash__(self) -> int:
        """A hash of the first rule and the stage, which identify a stream: bindings are looked up
        by their stream, so the hash must be cheap.
        """
        return hash((self.rules[0], self.stage))

    @property
    def names(self) -> tuple[Variable, ...]:
        """The names of the columns, which are the attributes of the port."""
        return tuple(column.name for column in self.columns)


@dataclass(frozen=True, slots=True)
class HeldFirings:
    """The firings of a rule with `once` that hold others back: the stream of a port at which
    nothing arrives. A firing is stored by the rule itself, with its keys as attributes."""

    rule: str


@dataclass(frozen=True, slots=True)
class Stage:
    """A sequence of consecutive clauses of a rule, which are evaluated in one bucket.

    - `number`: its index among the stages of the rule.
    - `first`, `end`: its clauses are `rule.clauses[first:end]`. The places of their roles are
      `first + 1` to `end`; the anchor's is 0.
    - `split`: the partitioning of its roles: `KeyedPartitions` has the key of each role that is not
      replicated (and of labels of earlier stages an attribute with the key's value);
      `AnyPartition` spreads anchors, and all clauses are replicated; `SinglePartition` has one
      partition for all. A later stage is always keyed.
    - `replicated`: the labels of its clauses whose events are in every bucket.
    - `enters`: the bindings that enter it; None for a first stage, which anchors enter.
    - `leaves`: the bindings that leave it; None for a last stage, which matches leave.

    A rule that is not cut has one stage with all its clauses, which anchors enter and matches
    leave. A consuming rule (one that consumes more than its anchor), a rule with `once`, and the
    rules of a recursive component always have one stage.
    """

    number: int
    first: int
    end: int
    split: Partitioning
    replicated: frozenset[Label] = frozenset()
    enters: BindingStream | None = None
    leaves: BindingStream | None = None

    @property
    def is_first(self) -> bool:
        """True if anchors enter the stage; delayed anchors wait in it."""
        return self.enters is None

    @property
    def is_last(self) -> bool:
        """True if matches leave the stage."""
        return self.leaves is None

    @property
    def is_whole(self) -> bool:
        """True if the stage is the only one of its rule."""
        return self.is_first and self.is_last

    def roles_of(self, rule: Rule) -> tuple[Role, ...]:
        """The roles whose events the stage of a rule reads: the anchor's in the first stage, and
        those of its clauses."""
        own = tuple(clause.role for clause in rule.clauses[self.first : self.end])
        return (rule.anchor, *own) if self.number == 0 else own


def whole_stage(rule: Rule, split: Partitioning) -> Stage:
    """The only stage of a rule that is not cut."""
    return Stage(0, 0, len(rule.clauses), split)
