"""Reasons of events: a fact of interest, a firing of a rule, and an event of each other language.

A unit of another language adds a kind of reason here, how it is found (`UnitReasons` in
`dotr.explanations.unit_reasons`), and its text (`dotr.explanations.unit_text`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, TypeAlias

from dotr.engine.match_blocks import EventMapping
from dotr.explanations.conditions import ConditionOutcome
from dotr.explanations.evaluations import AnchorEvaluation, ClauseEvaluation
from dotr.explanations.firings import NamedFiring, UnitFiring
from dotr.explanations.history import RecordedEvent
from dotr.explanations.proofs import TripleProof
from dotr.explanations.query_proof import Evidence
from dotr.explanations.report_scene import ReportScene
from dotr.model.places import Span
from dotr.model.rules import FactSource
from dotr.model.terms import Label, Term, Triple, Variable
from dotr.model.time import Micros

if TYPE_CHECKING:  # loaded where a program has such units
    from dotr.explanations.lars_atoms import GroundAtom
    from dotr.horizons.lars_proof import LarsReason
    from dotr.model.intervals import EventRead, InstantGroup, TemporalOperator, TemporalQuery
    from dotr.model.lars import LarsNot, LarsReport, LarsRule


@dataclass(frozen=True, eq=False)
class FactReason:
    """A fact of interest or a tick.

    `evidence`: what its query used; empty where it cannot be found. `proofs`: of each triple used.
    """

    event: RecordedEvent
    source: FactSource
    evidence: Evidence
    proofs: Mapping[Triple, TripleProof]


@dataclass(frozen=True, eq=False)
class FiringReason:
    """A firing.

    Attributes:
        firing: the firing.
        anchor: the evaluation of its anchor.
        clauses: for each clause its evaluation on the way of the match.
        conditions: the outcome of each conjunct of `if`.
        sources: the reason of each event that the match binds, by label; left out where it is not
            followed.
    """

    firing: NamedFiring
    anchor: AnchorEvaluation
    clauses: tuple[ClauseEvaluation, ...]
    conditions: tuple[ConditionOutcome, ...]
    sources: Mapping[Label, SourceReason]


ProofScope: TypeAlias = "Term | tuple[Term, Micros] | None"
"""The graph of a triple that a query used: a window, an item of a window at a time, or None for the
default graph."""


@dataclass(frozen=True, eq=False)
class SolutionReason:
    """A solution of a query at a report.

    Attributes:
        row: its bound variables.
        times: how often the report gives it.
        evidence: what it used; empty where it cannot be found.
        proofs: of each triple used, in its graph.
        mappings: those of MATCH blocks, by block and number.
    """

    row: Mapping[Variable, Term]
    times: int
    evidence: Evidence
    proofs: Mapping[tuple[ProofScope, Triple], TripleProof]
    mappings: Mapping[tuple[int, int], EventMapping]


class Given(Enum):
    """Why a report gives a solution: it is one, it is new, or it went."""

    ALL = "all"
    NEW = "new"
    GONE = "gone"


@dataclass(frozen=True, eq=False)
class ReportReason:
    """An event of a continuous query.

    Attributes:
        firing: the event.
        scene: what the query saw where its solutions hold: at the report, for DSTREAM at the report
            before.
        now: what it saw at the report of the event.
        before: the report before, in µs since 1970; None: there was none.
        given: why the solutions are given.
        solutions: the first solutions of the event; `total` is the number of all.
        counts: for NEW and GONE, how often the report and the one before have the first solution.
        made: the reasons of the events whose graphs are elements that the solutions used, by label,
            time and number; left out where they are not followed.
    """

    firing: UnitFiring
    scene: ReportScene
    now: ReportScene
    before: Micros | None
    given: Given
    solutions: tuple[SolutionReason, ...]
    total: int
    counts: tuple[int, int]
    made: Mapping[tuple[Label, Micros, int], UnitReason]


@dataclass(frozen=True, eq=False)
class PointAtom:
    """An atom of the stream at a point, or of the background.

    Attributes:
        time: of the element or the event that has it, in µs since 1970; None: of the background.
        proof: of a triple, at its instant.
        made: the reason of an event; None where it is not followed.
        attributes: those of the event.
    """

    time: Micros | None
    proof: TripleProof | None
    made: SourceReason | None
    attributes: Mapping[Variable, Term] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class LarsNode:
    """An atom of a LARS file with what it follows from.

    Attributes:
        reason: the atom, its points and the rule that concludes it.
        atom: the same with its predicate.
        rule: the rule; None of an atom of the stream, or of the background.
        bindings: the terms of the rule's variables, as far as the derivation tells them.
        points: of an atom of the stream, what brings it, by point.
        below: what the rule's literals match.
        fact: the place of a fact of the file.
        time: of a conclusion that its rule puts at a point, in µs since 1970.
    """

    reason: LarsReason
    atom: GroundAtom
    rule: LarsRule | None
    bindings: Mapping[Variable, Term]
    points: tuple[PointAtom, ...]
    below: tuple[LarsNode, ...]
    fact: Span | None = None
    time: Micros | None = None


@dataclass(frozen=True, eq=False)
class LarsEventReason:
    """An event of a LARS file.

    Attributes:
        firing: the event.
        report: the REPORT that makes it.
        before: the time of the point before, in µs since 1970.
        is_first: there is no point before.
        node: the derivation of the row, for ENDED at the point before; None where it is not found.
        gone: for ENDED, the atoms of the derivation that have left their windows.
        refuted: for ENDED, where none has, what stood under NOT and holds now.
    """

    firing: UnitFiring
    report: LarsReport
    before: Micros
    is_first: bool
    node: LarsNode | None
    gone: tuple[LarsNode, ...] = ()
    refuted: tuple[tuple[LarsNot, tuple[LarsNode, ...]], ...] = ()


@dataclass(frozen=True, eq=False)
class PartReason:
    """A part of an event of EP-SPARQL.

    Attributes:
        operand: the plain group or EVENT that it answers; None of a QUERY with SPARQL's modifiers.
        start, end: its interval in µs since 1970.
        attributes: its bound variables.
        source: what it is made of: a fact at its instant, or an event; None where it is not
            followed.
    """

    operand: InstantGroup | EventRead | None
    start: Micros
    end: Micros
    attributes: Mapping[Variable, Term]
    source: SourceReason | None


@dataclass(frozen=True, eq=False)
class IntervalReason:
    """An event of EP-SPARQL.

    Attributes:
        firing: the event.
        query: its QUERY or STREAM.
        start: of its interval, in µs since 1970.
        parts: its parts, in the order of the text.
        absent: operands of which it has no part, with the operator that lets it be so.
    """

    firing: UnitFiring
    query: TemporalQuery
    start: Micros
    parts: tuple[PartReason, ...]
    absent: tuple[tuple[InstantGroup | EventRead, TemporalOperator], ...]


UnitReason: TypeAlias = FiringReason | ReportReason | LarsEventReason | IntervalReason
"""The reason of a composite event: one kind for each language of units."""
SourceReason: TypeAlias = FactReason | UnitReason


def lars_nodes(reason: LarsEventReason) -> Iterator[LarsNode]:
    """All nodes of the derivations of an event."""
    pending = [*([] if reason.node is None else [reason.node]), *reason.gone, *(node for _, found in reason.refuted for node in found)]
    while pending:
        node = pending.pop()
        yield node
        pending += node.below
