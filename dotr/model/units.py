"""Streams that units of languages other than that of rules read, and the events that they make.

Source: semantics.md, section 8.
"""

from __future__ import annotations

from typing import TypeAlias

from dotr.model import dataclass
from dotr.model.places import Span
from dotr.model.rules import EventSource, FactSource
from dotr.model.terms import Label, Term, Variable
from dotr.model.time import TimeForm


@dataclass(frozen=True, slots=True)
class UnitEvents:
    """Events of a unit.

    - `attributes`: those that an event may have, sorted.
    - `span`: the place of the label in the unit's file.
    - `has_graphs`: each event has a graph, so the label is a stream of graphs.
    - `certain`: attributes that every event has, sorted. Those of rules and `.epsparql` units
      depend on the units that they read, and are computed later.
    - `forms`: of attributes that are times, or lengths between two.
    """

    label: Label
    attributes: tuple[Variable, ...]
    span: Span
    has_graphs: bool = False
    certain: tuple[Variable, ...] = ()
    forms: tuple[tuple[Variable, TimeForm], ...] = ()


@dataclass(frozen=True, slots=True)
class MadeGraphs:
    """The stream of the graphs of a label's events."""

    label: Label


@dataclass(frozen=True, slots=True)
class FedGraphs:
    """The stream that inputs feed, by its name (`StreamName`)."""

    name: str


@dataclass(frozen=True, slots=True)
class InstantTriples:
    """The triples of an instant that the background K(B) does not entail: those of K(t), or, if
    `asserted`, of I(t). Each is one arrival, a row (subject, predicate, object), in their order.

    - `predicates`: the predicates of the triples that are read; None: all.
    """

    asserted: bool
    predicates: frozenset[Term] | None


@dataclass(frozen=True, slots=True)
class IntervalEvents:
    """The events of a label with their starts.

    A row is the start in µs since 1970, as text, then the attributes; if these are None, the
    triples of the event's graph.
    """

    label: Label
    attributes: tuple[Variable, ...] | None


GraphStream: TypeAlias = MadeGraphs | FedGraphs
"""A stream of graphs; each graph is one arrival, the row of its triples (`dotr.temporal.items`)."""


InstantStream: TypeAlias = FedGraphs | InstantTriples
"""The streams other than facts whose rows arrive only at instants."""


UnitStream: TypeAlias = FactSource | EventSource | MadeGraphs | FedGraphs | InstantTriples | IntervalEvents
"""A stream that a unit can read.

- `FactSource`: the facts of a shared query or of a plain group, as rows of its `attributes`, at
  instants. Equal sources of rules and units are one stream, with one number.
- `EventSource`: the events of a label, as rows of `attributes`, which are all those of the label,
  sorted (`CompiledProgram.attributes`), None where unbound.
"""
