"""Why an event came, and why a triple holds: trees of reasons down to lines of files."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

from dotr.engine.program import CompiledProgram
from dotr.explanations.background_origins import BackgroundOrigins, close_background_in_rounds
from dotr.explanations.conditions import truth_in
from dotr.explanations.event_reasons import EventReasons, ProofsByTime
from dotr.explanations.firing_text import FiringWriter, event_attributes, proofs_of
from dotr.explanations.firings import FiringRecorder, NamedFiring
from dotr.explanations.proofs import ContradictionProof, ProofBuilder, TripleProof
from dotr.explanations.reason_text import ReasonWriter, background_triples, replace_background
from dotr.explanations.remembered_replay import RememberedReplay
from dotr.explanations.replay import ElementPlace, Replay
from dotr.explanations.term_writer import TermWriter
from dotr.explanations.why_tree import WhyTree
from dotr.model.algebra import Call, Const, Var
from dotr.model.terms import Term, Triple, Variable
from dotr.model.time import Micros

MOST_NEAR: Final = 5
"""Number of other events that are named where none is the one asked about."""


@dataclass(frozen=True, slots=True)
class EventQuestion:
    """The events asked about.

    Attributes:
        name: a name that an event has in the output, an IRI without angle brackets; None: any.
        rule: the name of the rule; None: any.
        at: the time of the event in µs since 1970; None: any.
        where: attributes of the event that equal a term, by SPARQL's `=`.
    """

    name: str | None = None
    rule: str | None = None
    at: Micros | None = None
    where: tuple[tuple[Variable, Term], ...] = ()

    def includes(self, firing: NamedFiring) -> bool:
        """True for a firing that is asked about."""
        if self.name is not None and f"<{self.name}>" not in firing.names:
            return False
        if (self.rule is not None and firing.rule.name != self.rule) or (self.at is not None and firing.time != self.at):
            return False

        def value(part: object) -> Term | None:
            return firing.attributes.get(part.name) if isinstance(part, Var) else None

        return all(truth_in(Call("=", (Var(name), Const(term))), value) is True for name, term in self.where)


@dataclass(frozen=True, slots=True)
class EventAnswer:
    """The answer to a question about events.

    Attributes:
        tree: the reasons of the first event asked about; None: there is no such event.
        others: the further events asked about, in a line each.
        near: where there is no such event, the events of the rule nearest in time, in a line each.
    """

    tree: WhyTree | None
    others: tuple[str, ...] = ()
    near: tuple[str, ...] = ()


@dataclass(eq=False)
class WhyExplainer:
    """Explainer of the events and triples of a replay, which is read once for all questions.

    Args:
        replay: the replay.
        rules: the names of the rules whose events are asked about; None: all.
        background: proofs go on from background triples to what the sources state.
        on_background: is told the seconds that closing the background once more took.
    """

    replay: Replay
    rules: Collection[str] | None = None
    background: bool = False
    on_background: Callable[[float], None] = lambda seconds: None
    _remembered: RememberedReplay = field(init=False)
    _proofs: ProofsByTime = field(init=False)

    def __post_init__(self) -> None:
        self._remembered = RememberedReplay(self.replay)
        self._proofs = ProofsByTime(self._remembered)

    @property
    def program(self) -> CompiledProgram:
        """The program of the replay."""
        return self.replay.program

    @cached_property
    def _recorder(self) -> FiringRecorder:
        names = [rule.name for rule in self.program.rules.rules] if self.rules is None else self.rules
        return FiringRecorder.of(self._remembered.replay, names)

    def firings(self, until: Micros | None = None) -> Iterator[Sequence[NamedFiring]]:
        """Replay the stream; the firings of each instant. The tree of a firing is made before the
        next ones are drawn.

        Args:
            until: the last time in µs since 1970; None: to the end.
        """
        return self._recorder.run(until)

    def tree(self, firing: NamedFiring) -> WhyTree:
        """The reasons of a firing that `firings` has just returned."""
        reason = EventReasons(self._recorder, self._proofs).of(firing)
        if self.background:
            raise NotImplementedError
        writer = self._reason_writer(list(proofs_of(reason)))
        return FiringWriter(self.replay, writer, self._places).tree(reason)

    def line(self, firing: NamedFiring) -> str:
        """A firing in one line."""
        writer = ReasonWriter(TermWriter(self.replay.prefixes), {})
        return FiringWriter(self.replay, writer, self._places).headline(firing)

    def _places(self, time: Micros) -> Sequence[ElementPlace]:
        instant = self._remembered.instant(time)
        return () if instant is None else instant.places
