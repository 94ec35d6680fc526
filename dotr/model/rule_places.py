"""Places of a rule's parts in its file: attributes in the order of the text, and conditions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from dotr.model.algebra import Expression
from dotr.model.places import Span
from dotr.model.terms import Variable


@dataclass(frozen=True, slots=True)
class RolePlaces:
    """Places of the anchor or of a clause's event.

    - `attributes`: those that the text names, in the order of the SELECT line or of `with`.
    - `conditions`: the span of each conjunct of the FILTERs, those of the query included.
    """

    attributes: tuple[Variable, ...] = ()
    conditions: Mapping[Expression, Span] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RulePlaces:
    """Places of a rule: of its anchor and clauses in the order written, and of each conjunct of
    `if`.
    """

    roles: tuple[RolePlaces, ...]
    condition: Mapping[Expression, Span] = field(default_factory=dict)
