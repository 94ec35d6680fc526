"""Interface of units of languages other than that of rules: the events that other units can read.

Source: semantics.md, section 8.
"""

from __future__ import annotations

from dataclasses import dataclass

from dotr.model.places import Span
from dotr.model.terms import Label, Variable


@dataclass(frozen=True, slots=True)
class UnitEvents:
    """Events of a unit.

    - `attributes`: those that an event may have, sorted.
    - `span`: the place of the label in the unit's file.
    - `has_graphs`: each event has a graph, so the label is a stream of graphs.
    - `certain`: attributes that every event has, sorted. Those of rules and `.epsparql` units
      depend on the units that they read, and are computed later.
    """

    label: Label
    attributes: tuple[Variable, ...]
    span: Span
    has_graphs: bool = False
    certain: tuple[Variable, ...] = ()
