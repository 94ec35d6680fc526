"""Reasons of events: a fact of interest, a firing of a rule, a report of a continuous query.

A unit of another language adds a kind of reason here, how it is found (`UnitReasons` in
`dotr.explanations.unit_reasons`), and its text (`dotr.explanations.unit_text`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias

from dotr.engine.match_blocks import EventMapping
from dotr.explanations.conditions import ConditionOutcome
from dotr.explanations.evaluations import AnchorEvaluation, ClauseEvaluation
from dotr.explanations.firings import NamedFiring, UnitFiring
from dotr.explanations.history import RecordedEvent
from dotr.explanations.proofs import TripleProof
from dotr.explanations.query_proof import Evidence
from dotr.explanations.report_scene import ReportScene
from dotr.model.rules import FactSource
from dotr.model.terms import Label, Term, Triple, Variable
from dotr.model.time import Micros


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


UnitReason: TypeAlias = FiringReason | ReportReason
"""The reason of a composite event: one kind for each language of units."""
SourceReason: TypeAlias = FactReason | UnitReason
