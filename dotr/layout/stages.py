"""Stages of a rule: runs of consecutive clauses, each evaluated in the bucket of a key, and the
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

from dataclasses import dataclass
from typing import TypeAlias

from dotr.layout.keys import Partitioning
from dotr.model.rules import Role, Rule
from dotr.model.terms import Label, Variable


@dataclass(frozen=True, slots=True)
class AliveRules:
    """The rules of the stream that the binding satisfies so far: their numbers among
    `BindingStream.rules`, in ascending order, as decimal numbers with one space between two."""

    @property
    def name(self) -> Variable:
        """The name of the column at the port."""
        return "rules"


@dataclass(frozen=True, slots=True)
class BranchSize:
    """The product of the numbers of events that the clauses before have chosen on the binding's
    way, for the limit on branches; a decimal number."""

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

    A row is a binding of a positive event to each label of the stages before, and of the value of
    each aggregate there. It arrives at the moment at which its anchor stands (the anchor's time and
    delay), and only in the layer of its stage: `Router.events` brings it there, as it brings
    composite events. The ordinal of an arrival says nothing, and rows may come in any order.

    - `rules`: the names of the rules whose bindings travel together, in ascending order: rules
      alike but for constants, whose roles have the same ports in every stage.
    - `stage`: the number of the stage, from 1 on.
    - `columns`: the items of a row, in this order:
      1. `AliveRules`, where there are several rules;
      2. `BranchSize`, where a clause before the stage may choose several events;
      3. for each place, ascending: of a positive role `BoundTime`, `BoundOrdinal`, and the
         `BoundValue` of each attribute that travels, in ascending order; of an aggregate
         `AggregatedValue`; of a negation nothing.

      Of the anchor all attributes travel, as dead letters tell them. Of another positive role all
      travel, hidden ones too, if the template of one of the rules has fresh names, since these are
      functions of the whole match; else those that the stage, or what follows, reads:
      constraints, `if`, `with` and the key of a stage.
    - `key`: the column by whose value a row finds its bucket. Unbound keys have bucket 0.

    >>> columns = (BoundTime(0), BoundOrdinal(0), BoundValue(0, "room"))
    >>> BindingStream(("R",), 1, columns, BoundValue(0, "room")).names
    ('0.time', '0.ordinal', '0.room?')
    """

    rules: tuple[str, ...]
    stage: int
    columns: tuple[BindingColumn, ...]
    key: BoundValue | AggregatedValue

    def __hash__(self) -> int:
        """A hash of the first rule and the stage, which no other stream has: each binding is looked up
        by its stream."""
        return hash((self.rules[0], self.stage))

    @property
    def names(self) -> tuple[Variable, ...]:
        """The names of the columns, which are the attributes of the port."""
        return tuple(column.name for column in self.columns)


@dataclass(frozen=True, slots=True)
class Stage:
    """A run of consecutive clauses of a rule, which are evaluated in one bucket.

    - `number`: its number among the stages of the rule, from 0 on.
    - `first`, `end`: its clauses are `rule.clauses[first:end]`. The places of their roles are
      `first + 1` to `end`, as the anchor's is 0.
    - `split`: the partitioning of its roles: `KeyedPartitions` has the key of each role that is not
      replicated (and of labels of earlier stages an attribute that holds the key's value);
      `AnyPartition` spreads anchors, and all clauses are replicated; `SinglePartition` has all in
      one partition. A later stage is always keyed.
    - `replicated`: the labels of its clauses whose events go to every bucket.
    - `enters`: the bindings that enter it; None: anchors do, and it is the first stage.
    - `leaves`: the bindings that leave it; None: matches do, and it is the last stage.

    A rule that is not cut has one stage with all its clauses, which anchors enter and matches
    leave. A consuming rule (one that consumes more than its anchor) and the rules of a recursive
    component always have one stage.
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
        """True if anchors enter the stage, where delayed ones wait."""
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
