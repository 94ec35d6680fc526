"""Reasons of events: of a fact of interest, a firing of a rule, and an event of each other
language.

To add a language of units: a class of reasons here, its finder in `UnitReasons`
(`dotr.explanations.why`), and its text in `dotr.explanations.text.unit_text`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, TypeAlias

from dotr.explanations.evidence.evaluations import AnchorEvaluation, ClauseEvaluation, ConditionOutcome
from dotr.explanations.evidence.proofs import TripleProof
from dotr.explanations.replay.firings import NamedFiring, UnitFiring
from dotr.explanations.replay.history import RecordedEvent
from dotr.instant.queries.evidence import Evidence
from dotr.languages.continuous.evaluation.match_blocks import EventMapping
from dotr.languages.continuous.explanation.dataset import ReportDataset
from dotr.model.places import Span
from dotr.model.rules import FactSource
from dotr.model.terms import Label, Term, Triple, Variable
from dotr.model.time import Micros

if TYPE_CHECKING:  # loaded only for programs with such units
    from dotr.languages.lars.closure.proof import LarsReason
    from dotr.languages.lars.explanation.lars_atoms import GroundAtom
    from dotr.languages.lars.model import LarsNot, LarsReport, LarsRule
    from dotr.temporal.intervals.patterns import EventRead, InstantGroup, TemporalOperator, TemporalQuery


@dataclass(frozen=True, eq=False)
class FactReason:
    """A fact of interest or a tick.

    - `event`, `source`: the fact, and its query.
    - `evidence`: the evidence of its query; empty if it is not found.
    - `proofs`: the proof of each triple in the evidence.
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
        clauses: the evaluation of each clause along the match.
        conditions: the outcome of each conjunct of `if`.
        sources: the reason of each event that the match binds, by label, down to the maximum depth.
    """

    firing: NamedFiring
    anchor: AnchorEvaluation
    clauses: tuple[ClauseEvaluation, ...]
    conditions: tuple[ConditionOutcome, ...]
    sources: Mapping[Label, SourceReason]


ProofScope: TypeAlias = "Term | tuple[Term, Micros] | None"
"""The graph of a triple in the evidence: a window, an item of a window at a time (µs since 1970), or
None for the default graph."""


@dataclass(frozen=True, eq=False)
class SolutionReason:
    """A solution of a query at a report.

    Attributes:
        row: its bound variables.
        multiplicity: how often the report has it.
        evidence: its evidence; empty if it is not found.
        proofs: the proof of each triple in the evidence, by graph and triple.
        mappings: the used mappings of MATCH blocks, by block and number.
    """

    row: Mapping[Variable, Term]
    multiplicity: int
    evidence: Evidence
    proofs: Mapping[tuple[ProofScope, Triple], TripleProof]
    mappings: Mapping[tuple[int, int], EventMapping]


class SolutionStatus(Enum):
    """Status of a reported solution against the report before: any, new, or removed."""

    ALL = "all"
    NEW = "new"
    REMOVED = "gone"


@dataclass(frozen=True, eq=False)
class ReportReason:
    """An event of a continuous query.

    Attributes:
        firing: the event.
        dataset: the dataset over which the solutions hold: at the report, or for DSTREAM at the
            report before.
        now: the dataset at the report of the event.
        before: the time of the report before in µs since 1970; None for the first report.
        status: the status of the solutions.
        solutions: the first solutions of the event; `total` is the number of all.
        counts: for NEW and REMOVED, the multiplicity of the first solution at the report and at the
            report before.
        made: the reasons of the events whose graphs the evidence uses as elements, by label, time
            and number, down to the maximum depth.
    """

    firing: UnitFiring
    dataset: ReportDataset
    now: ReportDataset
    before: Micros | None
    status: SolutionStatus
    solutions: tuple[SolutionReason, ...]
    total: int
    counts: tuple[int, int]
    made: Mapping[tuple[Label, Micros, int], UnitReason]


@dataclass(frozen=True, eq=False)
class PointAtom:
    """An atom of the stream at a point, or of the background.

    Attributes:
        time: the time of its element or event in µs since 1970; None for the background.
        proof: the proof of a triple at its instant; None for an event.
        made: the reason of an event; None for a triple, and beyond the maximum depth.
        attributes: the attributes of the event.
    """

    time: Micros | None
    proof: TripleProof | None
    made: SourceReason | None
    attributes: Mapping[Variable, Term] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class LarsNode:
    """A node of the derivation of an atom of a LARS file.

    Attributes:
        reason: the derivation: the atom, its points and the rule that concludes it.
        atom: the atom.
        rule: the rule; None for an atom of the stream or of the background.
        bindings: the terms of the rule's variables, as far as its head and premises bind them.
        points: for an atom of the stream, its origin at each point.
        premises: the atoms that the rule's literals match.
        fact: the place of a fact of the file; None for other atoms.
        time: for a conclusion `AT` a point, its time in µs since 1970.
    """

    reason: LarsReason
    atom: GroundAtom
    rule: LarsRule | None
    bindings: Mapping[Variable, Term]
    points: tuple[PointAtom, ...]
    premises: tuple[LarsNode, ...]
    fact: Span | None = None
    time: Micros | None = None


@dataclass(frozen=True, eq=False)
class LarsEventReason:
    """An event of a LARS file.

    Attributes:
        firing: the event.
        report: the REPORT that makes it.
        before: the time of the point before, in µs since 1970.
        is_first: True if there is no point before.
        node: the derivation of the row, for ENDED at the point before; None if it is not found.
        ended: for ENDED, the atoms of the derivation that have left their windows.
        refuted: for ENDED without such atoms, the NOT items that fail now, each with the atoms that
            hold.
    """

    firing: UnitFiring
    report: LarsReport
    before: Micros
    is_first: bool
    node: LarsNode | None
    ended: tuple[LarsNode, ...] = ()
    refuted: tuple[tuple[LarsNot, tuple[LarsNode, ...]], ...] = ()


@dataclass(frozen=True, eq=False)
class PartReason:
    """A part of an event of EP-SPARQL.

    Attributes:
        operand: the plain group or EVENT with this solution; None for a QUERY with SPARQL's
            solution modifiers.
        start, end: its interval in µs since 1970.
        attributes: its bound variables.
        source: the reason of its fact or event; None if it is not found, or beyond the maximum
            depth.
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
        start: the start of its interval in µs since 1970.
        parts: its parts, in the order of the text.
        absent: the optional operands without a part, each with the operator that makes it optional.
    """

    firing: UnitFiring
    query: TemporalQuery
    start: Micros
    parts: tuple[PartReason, ...]
    absent: tuple[tuple[InstantGroup | EventRead, TemporalOperator], ...]


UnitReason: TypeAlias = FiringReason | ReportReason | LarsEventReason | IntervalReason
"""The reasons of a composite event: one class for each language of units."""
SourceReason: TypeAlias = FactReason | UnitReason


def lars_nodes(reason: LarsEventReason) -> Iterator[LarsNode]:
    """All nodes of the derivations of an event, in no defined order."""
    pending = [*([] if reason.node is None else [reason.node]), *reason.ended, *(node for _, found in reason.refuted for node in found)]
    while pending:
        node = pending.pop()
        yield node
        pending += node.premises
