"""What flows: elements, instants, events and what could not flow (semantics.md, sections 1, 3 and 6)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from dotr.model.terms import Label, Term, Triple, Variable
from dotr.model.time import Micros


class Element(NamedTuple):
    """A time-stamped RDF graph as read: its blank nodes are `_:0`, `_:1`, … in order of appearance in the triples, local to it."""

    time: Micros
    triples: tuple[Triple, ...]


class Instant(NamedTuple):
    """The RDF merge of all elements of one time; its blank nodes have their final names. May be empty: it is an instant all the same."""

    time: Micros
    triples: tuple[Triple, ...]


@dataclass(frozen=True, slots=True)
class Fact:
    """A fact of interest: a solution of a query at one instant, before any temporal constraint."""

    type: Label
    time: Micros
    attributes: Mapping[Variable, Term]


class Firing(NamedTuple):
    """One match of a rule, as it leaves the engine. `attributes` are (name, term) pairs sorted by name; `graph` the output graph's triples,
    in the template's order, each once; `dropped` counts the triples that could not be written (semantics.md, section 5)."""

    time: Micros
    rule: str
    event: Label
    attributes: tuple[tuple[Variable, Term], ...]
    graph: tuple[Triple, ...]
    dropped: int


class Reason(Enum):
    """Why an element became a dead letter. IDLE: not late, but its instant had closed while its input was declared idle; SECOND: the second
    one of a time in an input whose every element is an instant."""

    LATE = "late"
    UNREADABLE = "unreadable"
    INCONSISTENT = "inconsistent"
    LIMIT = "limit"
    FAILED = "failed"
    IDLE = "idle"
    SECOND = "second"


class DeadLetter(NamedTuple):
    """What was not processed: nothing is lost. `line` counts from 1; `time` is None where none could be read; `text` is the
    element's own text; `why` says in a sentence what was wrong."""

    reason: Reason
    input: str
    file: str
    line: int
    time: Micros | None
    text: str
    why: str
