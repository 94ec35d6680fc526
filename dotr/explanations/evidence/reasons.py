"""Reasons of events: of a fact of interest, of a firing of a rule, and of another unit's event."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from typing import TypeAlias

from dotr.explanations.evidence.evaluations import AnchorEvaluation, ClauseEvaluation, ConditionOutcome
from dotr.explanations.evidence.proofs import TripleProof
from dotr.explanations.replay.firings import AnyFiring, NamedFiring
from dotr.explanations.replay.history import RecordedEvent
from dotr.instant.queries.evidence import Evidence
from dotr.model import dataclass
from dotr.model.rules import FactSource
from dotr.model.terms import Label, Triple


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
class UnitReason(ABC):
    """The reasons of a composite event; each language has a class of its own.

    Attributes:
        firing: the event.
    """

    firing: AnyFiring

    @abstractmethod
    def below(self) -> Iterable[SourceReason]:
        """The reasons of the facts and events in its evidence, in the order of the tree."""

    def own_proofs(self) -> Iterable[TripleProof]:
        """The proofs of the triples in its evidence, without those of `below`."""
        return ()


SourceReason: TypeAlias = FactReason | UnitReason


@dataclass(frozen=True, eq=False)
class FiringReason(UnitReason):
    """A firing of a rule.

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

    def below(self) -> Iterable[SourceReason]:
        """The reasons of the events that the match binds."""
        return self.sources.values()


def proofs_of(reason: SourceReason) -> Iterator[TripleProof]:
    """The proofs of all triples in the evidence of an event and of the events below it."""
    if isinstance(reason, FactReason):
        yield from reason.proofs.values()
        return
    yield from reason.own_proofs()
    for each in reason.below():
        yield from proofs_of(each)
