"""Units of other languages than that of rules, as rules and each other know them: by label.

Source: semantics.md, section 8.
"""

from __future__ import annotations

from dataclasses import dataclass

from dotr.model.places import Span
from dotr.model.terms import Label, Variable


@dataclass(frozen=True, slots=True)
class UnitEvents:
    """Events that a unit makes.

    - `attributes`: those that an event may have, sorted.
    - `span`: the place of the label in the unit's file.
    - `has_graphs`: each event has a graph, so that the label is a stream of graphs.
    - `certain`: attributes that every event has, sorted; of rules and `.epsparql` units they depend
      on what these read, and are found later.
    """

    label: Label
    attributes: tuple[Variable, ...]
    span: Span
    has_graphs: bool = False
    certain: tuple[Variable, ...] = ()
