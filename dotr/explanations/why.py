"""Explanation of an event, and of a triple that holds: trees of reasons down to lines of files.

Idea: the stream is replayed up to the event with its rule and the units that it reads. If only a
fresh name is given and the program has more than eight units, a run of the whole program first
finds the firing that created it; its instants are cached for the second run.
Cost: up to two runs in one process up to the event, and the closures of the instants in its tree.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from time import process_time
from typing import Final, assert_never

from dotr.engine.driver import Engine
from dotr.engine.program import CompiledProgram
from dotr.engine.replay import CachedReplay, ElementPlace, Replay
from dotr.evaluation.expressions import has_terms
from dotr.evaluation.expressions.values.times import format_time
from dotr.evaluation.limits import LimitExceeded
from dotr.explanations.evidence.background_origins import BackgroundOrigins, close_background_in_rounds
from dotr.explanations.evidence.event_reasons import EventReasons, ProofsByTime
from dotr.explanations.evidence.proofs import ProofBuilder, TripleProof
from dotr.explanations.evidence.reasons import FactReason, FiringReason, SourceReason, UnitReason, proofs_of
from dotr.explanations.replay.firings import AnyFiring, FiringRecorder, NamedFiring, UnitFiring
from dotr.explanations.text.firing_text import FiringWriter
from dotr.explanations.text.reason_text import ReasonWriter, background_triples, replace_background
from dotr.explanations.text.tree import WhyTree, counted
from dotr.explanations.text.unit_event_writer import UnitEventWriter, WriterContext
from dotr.explanations.unit import explained_unit
from dotr.instant.datalog.background.knowledge import without_collection
from dotr.model import dataclass
from dotr.model.stream import Firing, output_order
from dotr.model.terms import WELL_KNOWN, Term, Triple, Variable, is_blank
from dotr.model.time import Micros
from dotr.streams.formats.rdf.named_graphs import FRESH
from dotr.streams.formats.writing import GraphNamer
from dotr.syntax.rendering import TermWriter

_MOST_NEAR: Final = 5
"""Maximum number of nearest events that are listed if no event matches the question."""
_MOST_TOGETHER: Final = 8
"""Maximum number of units that are all recorded to find the firing of a name."""
_MOST_OTHERS: Final = 20
"""Maximum number of further matching events that are listed."""


@dataclass(frozen=True, slots=True)
class EventQuestion:
    """Selection of events by a question.

    Attributes:
        name: a name that an event has in the output, of a node or of its graph in TriG, an IRI
            without angle brackets; None: any.
        rule: the name of the rule; None: any.
        at: the time of the event in µs since 1970; None: any.
        where: attributes of the event that equal a term, by SPARQL's `=`.
    """

    name: str | None = None
    rule: str | None = None
    at: Micros | None = None
    where: tuple[tuple[Variable, Term], ...] = ()

    def includes(self, firing: AnyFiring) -> bool:
        """True for a firing that the question selects."""
        if self.name is not None and f"<{self.name}>" not in firing.names:
            return False
        if (self.rule is not None and firing.unit_name != self.rule) or (self.at is not None and firing.time != self.at):
            return False
        return has_terms(firing.attributes, self.where)


@dataclass(frozen=True, slots=True)
class EventAnswer:
    """The answer to a question about events.

    Attributes:
        tree: the reasons of the first selected event; None: there is none.
        others: the further selected events, in a line each.
        near: if no event is selected, the events of the rule that are nearest in time, in a line
            each.
    """

    tree: WhyTree | None
    others: tuple[str, ...] = ()
    near: tuple[str, ...] = ()


def why(replay: Replay, question: EventQuestion, *, background: bool = False) -> WhyTree | None:
    """The reasons of the first event that a question selects; None: there is none.

    Args:
        replay: the program and its stream.
        question: the event, by its name, or by its rule, its time and its attributes.
        background: continue proofs from background triples to triples that the sources state.

    Raises:
        Refused: the stream or, with `background`, a graph can no longer be read.

    >>> from dotr.commands.why.questions import open_replays
    >>> [replay] = open_replays("tests/cases/rule_r.yaml", "1")
    >>> for line in why(replay, EventQuestion(rule="R")).lines(1):
    ...     print(line)
    Fire (rule R) at 12, urn:dotr:77ffbde2802184a6c638a859667866e8: room :roomA  tests/cases/rule_r.dotr:5
    ├ from Smoke at 12: read1 :r2, room1 :roomA
    └ last HighTemp at 10, 2 s before: read2 :r1, room2 :roomA; :roomA = :roomA; the only one; used up now
    """
    return WhyExplainer(replay, background=background).answer(question).tree


class WhyExplainer:
    """Explainer of the events and triples of a replay, which is read once for all questions.

    Args:
        replay: the replay.
        background: continue proofs from background triples to triples that the sources state.

    Attributes:
        replay: the replay, whose instants are cached.
        background_seconds: the CPU time of closing the background once more, in seconds; None: it
            was not closed.
    """

    def __init__(self, replay: Replay, *, background: bool = False) -> None:
        self._cached = CachedReplay(replay)
        self._proofs = ProofsByTime(self._cached, self._extended_to_sources if background else _unchanged)
        self._origins: BackgroundOrigins | None = None
        self._background: ProofBuilder | None = None
        self._extended: dict[int, TripleProof] = {}
        self.replay = self._cached.replay
        self.background_seconds: float | None = None

    @property
    def program(self) -> CompiledProgram:
        """The program of the replay."""
        return self.replay.program

    def all_attributes(self) -> list[Variable]:
        """The names of the attributes of all events."""
        return sorted({name for names in self.program.attributes.values() for name in names})

    # --- events ---

    def answer(self, question: EventQuestion) -> EventAnswer:
        """The reasons of the first event that a question selects, and the further or nearest
        events."""
        with without_collection():  # each collection would traverse the cached instants
            answer = self._answer(question)
            if answer.tree is None and question.name is not None:
                made = self._with_graph(f"<{question.name}>")
                if made is not None and question.rule in (None, made.rule) and question.at in (None, made.time):
                    return self._answer(_question_about(made, question))
            return answer

    def _answer(self, question: EventQuestion) -> EventAnswer:
        units = self.program.unit_names
        if question.name is not None and question.rule is None and len(units) > _MOST_TOGETHER:
            made = self._maker(f"<{question.name}>")
            if made is None:
                return EventAnswer(None)
            question = EventQuestion(question.name, made.rule, made.time, question.where)
        rules = [question.rule] if question.rule is not None else units
        recorder = self.recorder(rules)
        name = None if question.name is None else f"<{question.name}>"
        first: AnyFiring | None = None
        tree: WhyTree | None = None
        others: list[str] = []
        for firings in recorder.run(question.at):
            for firing in filter(question.includes, firings):
                if first is None:
                    first, tree = firing, self.tree(recorder, firing, name)
                elif len(others) < _MOST_OTHERS:
                    others.append(self.line(firing))
            if first is not None and question.name is not None:
                break
        if tree is not None or question.name is not None:
            return EventAnswer(tree, tuple(others))
        return EventAnswer(None, (), tuple(self._near(rules, question)))

    def recorder(self, rules: Iterable[str]) -> FiringRecorder:
        """A recorder of the firings of some rules over the replay."""
        return FiringRecorder.of(self.replay, rules)

    def reason(self, recorder: FiringRecorder, firing: AnyFiring, name: Term | None = None) -> UnitReason:
        """The reasons of a firing, before the recorder runs on.

        `name`: a fresh name; only the part of the event that creates it is explained.
        """
        return UnitReasons(recorder, self._proofs).of(firing, name)

    def tree(self, recorder: FiringRecorder, firing: AnyFiring, name: Term | None = None) -> WhyTree:
        """The tree of a firing's reasons, as by `reason`."""
        reason = self.reason(recorder, firing, name)
        return UnitWriter(self.replay, self._writer(proofs_of(reason)), self._places).tree(reason)

    def line(self, firing: AnyFiring) -> str:
        """A firing in one line."""
        return UnitWriter(self.replay, ReasonWriter(self._terms(), {}), self._places).headline(firing)

    def _maker(self, name: Term) -> Firing | None:
        """The firing whose graph creates a fresh name; None: there is none."""
        return next((found for firings in self._firings() if (found := _making(firings, name)) is not None), None)

    def _with_graph(self, name: Term) -> Firing | None:
        """The firing whose graph has a name in TriG and N-Quads; None: there is none."""
        name_graphs = GraphNamer(self.replay.clock)
        for firings in self._firings():
            shown = sorted((firing for firing in firings if firing.graph is not None), key=output_order)
            for firing, graph in zip(shown, name_graphs(shown), strict=True):
                if graph.name == name:
                    return firing
        return None

    def _firings(self) -> Iterator[Sequence[Firing]]:
        """The firings of the whole program, in the order of time."""
        engine = Engine(self.program, self.replay.clock)
        for instant in self.replay.instants():
            yield instant.step(engine)
        if self.replay.ended:
            yield from engine.finish()

    def _near(self, rules: Collection[str | None], question: EventQuestion) -> list[str]:
        """The events of some rules that are nearest to the requested time, or the first ones."""
        at = question.at
        nearest: list[AnyFiring] = []
        for firings in self.recorder([name for name in rules if name is not None]).run():
            nearest += [firing for firing in firings if firing.unit_name in rules]
            if at is not None:
                nearest.sort(key=lambda firing: abs(firing.time - at))
            del nearest[_MOST_NEAR:]
        return [self.line(firing) for firing in sorted(nearest, key=lambda firing: firing.time)]

    # --- triples ---

    def triple(self, pattern: Triple, at: Micros) -> WhyTree | None:
        """The proof of a triple at an instant.

        Args:
            pattern: the triple; a blank node matches any term.
            at: the time of the instant in µs since 1970.

        Returns:
            None if the triple does not hold, or if the instant exceeds a limit.
        """
        proofs = self._proofs.at(at)
        try:
            proofs.closed  # noqa: B018 (closes the instant)
        except LimitExceeded:
            return None
        triple = pattern
        if any(map(is_blank, pattern)):
            subject, predicate, value = (None if is_blank(term) else term for term in pattern)
            closed = proofs.closed
            found = [each for index in (closed.delta, closed.background) for each in index.match(subject, predicate, value)]
            if not found:
                return None
            triple = min(found, key=lambda each: (closed.heights.get(each, 0), each))
        proof = proofs.proof(triple)
        if proof is None:
            return None
        proof = self._proofs.extend(proof)
        terms = self._terms()
        for term, given in zip(triple, pattern, strict=True):
            if is_blank(given):
                terms.name_blank(term, given[2:])
        return self._writer([proof], terms).triple(proof)

    def contradictions(self, at: Micros) -> list[WhyTree]:
        """The proofs of the contradictions of an instant (µs since 1970), those of least height
        first.

        Empty if the instant exceeds a limit.
        """
        try:
            found = self._proofs.at(at).contradictions()
        except LimitExceeded:
            return []
        trees = []
        for each in found:
            further = [self._proofs.extend(premise) for premise in each.premises]
            trees.append(self._writer(further).contradiction(replace(each, premises=tuple(further)), format_time(at, self.replay.clock)))
        return trees

    def has_instant(self, at: Micros) -> bool:
        """True if the stream has an instant at a time in µs since 1970."""
        return self._cached.instant(at) is not None

    # --- the background ---

    def _writer(self, proofs: Iterable[TripleProof], terms: TermWriter | None = None) -> ReasonWriter:
        triples = background_triples(proofs)
        if triples and self._origins is None:
            self._origins = BackgroundOrigins(self.program, self._proofs.rules)
        origins = self._origins.of(triples) if self._origins is not None else {}
        return ReasonWriter(terms or self._terms(), origins)

    def _extended_to_sources(self, proof: TripleProof) -> TripleProof:
        """A proof whose background triples are proved from triples that the sources state."""
        if not background_triples([proof]):
            return proof
        if self._background is None:
            start = process_time()
            self._background = ProofBuilder(*close_background_in_rounds(self.program, self._proofs.rules))
            self.background_seconds = process_time() - start
        return replace_background(proof, self._background.proof, self._extended)

    def _terms(self) -> TermWriter:
        """A writer of terms with the declared and the well-known prefixes."""
        return TermWriter({**WELL_KNOWN, **self.replay.prefixes})

    def _places(self, time: Micros) -> Sequence[ElementPlace]:
        instant = self._cached.instant(time)
        return () if instant is None else instant.places


def _unchanged(proof: TripleProof) -> TripleProof:
    return proof


def _question_about(made: Firing, question: EventQuestion) -> EventQuestion:
    """A question that selects a firing: by a fresh name in its graph, or else by its attributes."""
    given = {term for _, term in made.attributes}
    fresh = (term[1:-1] for triple in made.graph or () for term in triple if term.startswith(FRESH) and term not in given)
    name = next(fresh, None)
    return EventQuestion(name, made.rule, made.time, question.where if name else (*question.where, *made.attributes))


def _making(firings: Iterable[Firing], name: Term) -> Firing | None:
    """The firing that creates a name: its graph has the name, and its attributes do not."""
    for firing in firings:
        if any(name in triple for triple in firing.graph or ()) and all(term != name for _, term in firing.attributes):
            return firing
    return None


# Reasons of the events of a program's units, of any language.
#
# Each language has one finder of reasons. An event in the evidence of another event is followed to
# the reasons of its own unit.

_MOST_NESTED: Final = 12
"""Maximum depth to which composite events are followed."""


class UnitReasons:
    """Finder of the reasons of recorded firings.

    Args:
        recorder: the recorder, after the instant of the firings.
        proofs: proofs at the instants of the replay.
    """

    def __init__(self, recorder: FiringRecorder, proofs: ProofsByTime) -> None:
        self._rules = EventReasons(recorder, proofs, self.follow)
        self._recorder = recorder
        self._proofs = proofs
        self._nested = 0

    def of(self, firing: AnyFiring, name: Term | None = None) -> UnitReason:
        """The reasons of an event; `name`: only of the part that creates this fresh name."""
        if isinstance(firing, NamedFiring):
            return self._rules.of(firing)
        return explained_unit(firing.unit).reasons(self._recorder, self._proofs, self.follow).of(firing, name)

    def follow(self, firing: AnyFiring) -> UnitReason | None:
        """The reasons of an event in the evidence of another one; None beyond the maximum depth."""
        if self._nested == _MOST_NESTED:
            return None
        self._nested += 1
        try:
            return self.of(firing)
        finally:
            self._nested -= 1


# Text of the events of a program's units, of any language: each language has one writer.


class UnitWriter:
    """Writer of the events of units as trees.

    Args:
        replay: the replay, for the form of times and the places of rules.
        reasons: the writer of facts and triples.
        places: the places of the elements at a time in µs since 1970.
    """

    def __init__(self, replay: Replay, reasons: ReasonWriter, places: Callable[[Micros], Sequence[ElementPlace]]) -> None:
        self._replay = replay
        self._reasons = reasons
        self._firings = FiringWriter(replay, reasons, places, self._tree)
        self._context = WriterContext(replay, reasons, self._tree, self.headline)

    def tree(self, reason: UnitReason) -> WhyTree:
        """The reasons of an event."""
        self._name_blanks(reason)
        return self._tree(reason)

    def headline(self, firing: AnyFiring) -> str:
        """An event in one line: its label, time, name and attributes."""
        match firing:
            case NamedFiring():
                return self._firings.headline(firing)
            case UnitFiring():
                return self._headline(firing)
            case _:
                assert_never(firing)

    def _headline(self, firing: UnitFiring) -> str:
        end = format_time(firing.time, self._replay.clock)
        name = f", {firing.names[0][1:-1]}" if firing.names else ""
        graph = "" if firing.graph is None else counted(len(firing.graph), "triple")
        text = ": ".join(filter(None, [f"{firing.label} at {end}{name}", self._reasons.attributes(firing.attributes) or graph]))
        if firing.start is None or firing.start == firing.time:
            return text
        return f"{text}; from {format_time(firing.start, self._replay.clock)} to {end}"

    def _tree(self, reason: UnitReason) -> WhyTree:
        return self._firings.tree(reason) if isinstance(reason, FiringReason) else self._writer(reason).tree(reason)

    def _writer(self, reason: UnitReason) -> UnitEventWriter:
        assert isinstance(reason.firing, UnitFiring)
        return explained_unit(reason.firing.unit).writer(self._context)

    def _name_blanks(self, reason: SourceReason) -> None:
        """Name blank nodes after the variables of the queries, in the order of the tree."""
        if isinstance(reason, FactReason):
            self._reasons.name_blanks(reason.evidence)
            return
        if not isinstance(reason, FiringReason):
            self._writer(reason).name_blanks(reason)
        for each in reason.below():
            self._name_blanks(each)
