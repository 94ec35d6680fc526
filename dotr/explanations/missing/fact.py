"""Reasons for which the query of a label has no fact.

Idea: every requested instant is closed as in a run, and the stop of the query is found there
(`dotr.explanations.missing.partial_joins`). The instant at which most patterns and conditions hold
is explained: the joined part with its solutions, the missing pattern, Datalog rules and an
entailment regime that could derive it, and predicates that no element has.
Cost: one closure for each requested instant; a query for each pattern at instants where the
predicates that have triples permit more than the best stop so far.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from dotr.engine.program import CompiledProgram
from dotr.engine.replay import Replay
from dotr.evaluation.expressions.values.times import format_time
from dotr.evaluation.limits import BOUNDS, LimitExceeded
from dotr.explanations.missing.conclusion import UnfulfilledRule
from dotr.explanations.missing.partial_joins import ClosedGraph, PatternSolver, QueryStop, at_most_reached, find_stop, reached
from dotr.explanations.missing.stop_text import StopText, datalog_rules
from dotr.explanations.missing.vocabulary import StreamVocabulary
from dotr.explanations.text.narrative import Narrative, NarrativePart, sentences
from dotr.instant.datalog.closure.closed_instant import Closure
from dotr.instant.instants import merge
from dotr.instant.queries import QueryPlan, plan
from dotr.model.algebra import Expression, Select
from dotr.model.places import Span
from dotr.model.rules import FactSource, Role, Rule
from dotr.model.terms import Label, Triple
from dotr.model.time import Micros
from dotr.syntax.rendering import TermWriter
from dotr.temporal.layout.retention import roles

_MAX_TERMS: Final = 3
_INDENT: Final = "    "
_MAX_TIED: Final = 5
"""Maximum number of instants with equally good stops, of which one is chosen."""
_NO_PLACES: Final[Mapping[Expression, Span]] = {}


@dataclass(frozen=True, slots=True)
class MissingFacts:
    """Explanation of a query without a fact at any requested instant.

    Attributes:
        label: the label of the query.
        instants: the number of requested instants, each without a fact.
        time: the time of the explained instant in µs since 1970; None if there is no instant, or
            the query reads the background alone.
        at: the same as text; empty for None.
        stops: a sentence on the stop of the query there, or one for each side of a UNION.
        rules: the Datalog rules whose heads match what is missing, and whose bodies do not hold.
        remarks: sentences on entailment, and on predicates and classes that no element has.
        rank: of equally good stops, that with the greatest rank is explained: True if an entailment
            regime would derive what is missing; the most atoms of a rule's body that hold.
    """

    label: Label
    instants: int
    time: Micros | None = None
    at: str = ""
    stops: tuple[str, ...] = ()
    rules: tuple[UnfulfilledRule, ...] = ()
    remarks: tuple[str, ...] = ()
    rank: tuple[bool, int] = (False, 0)

    @property
    def summary(self) -> str:
        """`Temp has no fact at 2 instants`, for the first line of the answer."""
        if self.time is None and self.stops:
            return f"{self.label} has no answer of the background"
        return f"{self.label} has no fact at {self.instants:,} instant{'' if self.instants == 1 else 's'}"

    @property
    def told(self) -> Narrative:
        """The summary, and the explanation below it."""
        start = f"at {self.at}: " if self.at else ""
        rules = tuple([each.told for each in self.rules])
        below = (*sentences(f"{start}{stop}" for stop in self.stops), Narrative(below=(*rules, *sentences(self.remarks))))
        parts: dict[str, NarrativePart] = {
            "label": self.label,
            "instants": self.instants,
            "at": time_value(self.at) if self.at else None,
            "stops": self.stops,
            "rules": rules,
            "remarks": self.remarks,
        }
        return Narrative(self.summary, below, parts)

    def lines(self) -> list[str]:
        """The lines below the first one, indented by four and more spaces."""
        return replace(self.told, text="").lines("  ")


def explain_missing_facts(
    replay: Replay, rule: Rule, writer: TermWriter, *, role: Role | None = None, first: Micros | None = None, last: Micros | None = None
) -> MissingFacts | None:
    """The explanation of the missing facts of a query of a rule.

    Args:
        replay: the program and its stream.
        rule: a rule of `replay.program.rules.rules`.
        writer: the writer of the explanation.
        role: a role of the rule, whose source is a `FactSource`; None: its anchor.
        first: the first requested time in µs since 1970, included; None: no bound.
        last: the last requested time, likewise.

    Returns:
        None if the query has a fact at a requested instant, or if the source is an event.
    """
    role = role or rule.anchor
    if not isinstance(role.source, FactSource):
        return None
    query = replace(role.source.query, projection=role.source.attributes)
    if role.source.period is not None:
        search = _Search(replay.program, role.origin, query, elements=False)
        return None if search.visit(None, ()) else search.explanation(replay, writer)
    written = zip(roles(rule), replay.program.rules.places[rule.name].roles, strict=True)
    places = next((places.conditions for each, places in written if each == role), _NO_PLACES)
    return explain_missing_rows(replay, role.origin, query, writer, first=first, last=last, places=places)


def explain_missing_rows(
    replay: Replay,
    label: Label,
    query: Select,
    writer: TermWriter,
    *,
    first: Micros | None = None,
    last: Micros | None = None,
    places: Mapping[Expression, Span] = _NO_PLACES,
) -> MissingFacts | None:
    """The explanation of the missing rows of a query; None if it has a row at a requested instant.

    Args:
        replay: the program and its stream.
        label: the name of the query in the explanation.
        query: the query.
        writer: the writer of the explanation.
        first: the first requested time in µs since 1970, included; None: no bound.
        last: the last requested time, likewise.
        places: the places of the query's conditions in the rule file.
    """
    search = _Search(replay.program, label, query)
    for instant in replay.instants():
        search.note(instant.graphs, instant.time)
        requested = (first is None or first <= instant.time) and (last is None or instant.time <= last)
        if requested and instant.graphs and search.visit(instant.time, merge(instant.time, instant.graphs).triples):
            return None
    return search.explanation(replay, writer, places)


@dataclass(frozen=True, slots=True)
class _Furthest:
    """An instant with the best stop so far.

    - `time`: in µs since 1970; None for the background alone.
    - `given`: the triples of its elements.
    - `stop`: the stop; None if the query exceeds a limit, with the reason in `exceeded`.
    """

    time: Micros | None
    given: Sequence[Triple]
    closed: ClosedGraph
    stop: QueryStop | None
    exceeded: str = ""


class _Search:
    """Search for the instant at which the most patterns and conditions of a query hold."""

    def __init__(self, program: CompiledProgram, label: Label, query: Select, *, elements: bool = True) -> None:
        self._program = program
        self._label = label
        self._query = query
        self._plan: QueryPlan = plan(self._query, program.knowledge.background)
        self._solver = PatternSolver()
        self._rules = datalog_rules(program)
        self._vocabulary = StreamVocabulary(self._rules, elements=elements)
        self._best: list[_Furthest] = []
        self._best_reached = -1
        self._instants = 0

    def note(self, graphs: Sequence[tuple[Triple, ...]], at: Micros) -> None:
        """Add the predicates and classes of the elements of an instant."""
        for triples in graphs:
            self._vocabulary.add(triples, at)

    def visit(self, time: Micros | None, triples: Sequence[Triple]) -> bool:
        """Compare an instant with the best ones; True if the query has a fact there."""
        closure = close_quietly(self._program, triples)
        if closure is None:
            return False
        self._instants += time is not None
        try:
            if self._plan.answers_at(closure):
                return True
            if at_most_reached(self._query, closure) < self._best_reached + (len(self._best) == _MAX_TIED):
                return False
            closed = ClosedGraph(closure, self._program.spec.limits)
            stop = find_stop(self._query, closed, self._solver)
            found, exceeded = -1 if stop is None else reached(stop), ""
        except LimitExceeded as error:
            closed, stop, found, exceeded = ClosedGraph(closure, self._program.spec.limits), None, -1, str(error)
        if found > self._best_reached:
            self._best, self._best_reached = [], found
        if found == self._best_reached and len(self._best) < _MAX_TIED:
            self._best.append(_Furthest(time, triples, closed, stop, exceeded))
        return False

    def explanation(self, replay: Replay, writer: TermWriter, places: Mapping[Expression, Span] = _NO_PLACES) -> MissingFacts:
        """The explanation of a best instant; of several, the first with the greatest rank."""
        explained = [self._explained(each, replay, TermWriter(writer.prefixes), places) for each in self._best]
        if not explained:
            return MissingFacts(self._label, self._instants)
        chosen = max(range(len(explained)), key=lambda number: (explained[number].rank, -number))
        return self._explained(self._best[chosen], replay, writer, places)

    def _explained(self, best: _Furthest, replay: Replay, writer: TermWriter, places: Mapping[Expression, Span]) -> MissingFacts:
        at = "" if best.time is None else str(format_time(best.time, replay.clock))
        explained = MissingFacts(self._label, self._instants, best.time, at)
        if best.stop is None:
            why = f"the query goes over a limit: {best.exceeded}" if best.exceeded else "the query has no row"
            return replace(explained, stops=(why,))
        text = StopText(self._program, self._rules, self._vocabulary, best.closed, best.given, writer, replay.clock, places)
        stops = tuple(text.sentences(best.stop))
        rank = (text.has_entailment, max((len(rule.premises) for rule in text.rules), default=0))
        return replace(explained, stops=stops, rules=tuple(text.rules), remarks=tuple(dict.fromkeys(text.remarks)), rank=rank)


def time_value(text: str) -> int | str:
    """The JSON value of a time, from its text: a number for integer times.

    >>> time_value("-12"), time_value("2024-03-01T07:00:00Z")
    (-12, '2024-03-01T07:00:00Z')
    """
    return int(text) if text.removeprefix("-").isdecimal() else text


def close_quietly(program: CompiledProgram, triples: Sequence[Triple]) -> Closure | None:
    """The closure of an instant; None if a run would reject it, or if the closure fails."""
    BOUNDS.start(program.spec.limits.literal, program.spec.limits.text)
    try:
        closure = program.knowledge.close(triples)
    except Exception:  # a run leaves the failing elements out of the instant
        return None
    return None if closure.contradictions and program.stage_one.rejects else closure
