"""Reasons for which the query of a label has no fact.

Idea: every requested instant is closed as in a run, and the stop of the query is found there
(`dotr.explanations.missing.partial_joins`). The instant at which most patterns and conditions hold
is explained: the joined part with its solutions, the missing pattern, Datalog rules and an
entailment regime that could derive it, and predicates that no element has.
Cost: one closure for each requested instant; a query for each pattern at instants where the
predicates that have triples permit more than the best stop so far.

A question about terms (`--where m=:press1`) is about the solutions that have them, and the latest
of the best instants is explained. The latest instants are visited first, up to one at which all
patterns and conditions but one hold: none is better.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from itertools import islice, product
from typing import Final

from dotr.engine.program import CompiledProgram
from dotr.engine.replay import Replay, ReplayedInstant
from dotr.evaluation.expressions import has_terms
from dotr.evaluation.expressions.values.times import format_time
from dotr.evaluation.limits import BOUNDS, LimitExceeded
from dotr.evaluation.triples.index import TripleIndex
from dotr.explanations.missing.conclusion import UnfulfilledRule
from dotr.explanations.missing.partial_joins import ClosedGraph, PatternSolver, QueryStop, at_most_reached, find_stop, most_reached, reached
from dotr.explanations.missing.stop_text import StopText, datalog_rules
from dotr.explanations.missing.vocabulary import StreamVocabulary
from dotr.explanations.text.narrative import Narrative, NarrativePart, sentences
from dotr.instant.datalog.closure.closed_instant import Closure
from dotr.instant.instants import merge
from dotr.instant.queries import QueryPlan, plan
from dotr.instant.queries.matching import Solution
from dotr.model import dataclass
from dotr.model.algebra import Const, Expression, Pattern, Select, TriplePattern, Var, slots_of
from dotr.model.places import Span
from dotr.model.rules import FactSource, Role, Rule
from dotr.model.terms import Label, Term, Triple, Variable, is_iri, is_literal
from dotr.model.time import Micros
from dotr.model.traverse import walk
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
        terms: the requested terms, ` with ?m = :press1`; empty: any.
    """

    label: Label
    instants: int
    time: Micros | None = None
    at: str = ""
    stops: tuple[str, ...] = ()
    rules: tuple[UnfulfilledRule, ...] = ()
    remarks: tuple[str, ...] = ()
    rank: tuple[bool, int] = (False, 0)
    terms: str = ""

    @property
    def summary(self) -> str:
        """`Temp has no fact at 2 instants`, for the first line of the answer."""
        if self.time is None and self.stops:
            return f"{self.label} has no answer of the background{self.terms}"
        return f"{self.label} has no fact{self.terms} at {self.instants:,} instant{'' if self.instants == 1 else 's'}"

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
    replay: Replay,
    rule: Rule,
    writer: TermWriter,
    *,
    role: Role | None = None,
    first: Micros | None = None,
    last: Micros | None = None,
    where: Sequence[tuple[Variable, Term]] = (),
) -> MissingFacts | None:
    """The explanation of the missing facts of a query of a rule.

    Args:
        replay: the program and its stream.
        rule: a rule of `replay.program.rules.rules`.
        writer: the writer of the explanation.
        role: a role of the rule, whose source is a `FactSource`; None: its anchor.
        first: the first requested time in µs since 1970, included; None: no bound.
        last: the last requested time, likewise.
        where: attributes of the facts, and the terms that they equal.

    Returns:
        None if the query has a fact at a requested instant, or if the source is an event.
    """
    role = role or rule.anchor
    if not isinstance(role.source, FactSource):
        return None
    query = replace(role.source.query, projection=role.source.attributes)
    if role.source.period is not None:
        search = _Search(replay.program, role.origin, query, where, elements=False)
        return None if search.visit(None, ()) else search.explanation(replay, writer)
    written = zip(roles(rule), replay.program.rules.places[rule.name].roles, strict=True)
    places = next((places.conditions for each, places in written if each == role), _NO_PLACES)
    return explain_missing_rows(replay, role.origin, query, writer, first=first, last=last, where=where, places=places)


def explain_missing_rows(
    replay: Replay,
    label: Label,
    query: Select,
    writer: TermWriter,
    *,
    first: Micros | None = None,
    last: Micros | None = None,
    where: Sequence[tuple[Variable, Term]] = (),
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
        where: variables of the query, and the terms that they equal, by SPARQL's `=`.
        places: the places of the query's conditions in the rule file.
    """
    search = _Search(replay.program, label, query, where)
    waiting: list[ReplayedInstant] = []
    triples = 0
    for instant in replay.instants():
        search.note(instant.graphs, instant.time)
        requested = (first is None or first <= instant.time) and (last is None or instant.time <= last)
        if not requested or not instant.graphs:
            continue
        if not where:
            if search.visit(instant.time, merge(instant.time, instant.graphs).triples):
                return None
            continue
        waiting.append(instant)
        triples += sum(map(len, instant.graphs))
        if triples > _MAX_WAITING:
            if search.visit_latest(waiting):
                return None
            waiting, triples = [], 0
    return None if search.visit_latest(waiting) else search.explanation(replay, writer, places)


@dataclass(frozen=True, slots=True)
class _Furthest:
    """An instant with the best stop so far.

    - `time`: in µs since 1970; None for the background alone.
    - `given`: the triples of its elements.
    - `stop`: the stop; None if the query exceeds a limit, with the reason in `exceeded`.
    - `terms`: the requested terms that the instant's elements have, by variable.
    """

    time: Micros | None
    given: Sequence[Triple]
    closed: ClosedGraph
    stop: QueryStop | None
    exceeded: str = ""
    terms: Solution = field(default_factory=dict)


class RequestedTerms:
    """The terms that a question requests of a query's solutions, by SPARQL's `=`.

    Idea: an IRI equals itself alone, so that a query is evaluated with it. A number equals others
    (`5.0` of a question equals a 5 of the data): those that are objects of the patterns with its
    variable are tried in turn.

    Args:
        where: variables and terms.
        query: the query.
        background: the closed background.
    """

    def __init__(self, where: Sequence[tuple[Variable, Term]], query: Pattern, background: TripleIndex) -> None:
        self.where = tuple(where)
        patterns = [node for node in walk(query) if isinstance(node, TriplePattern)]
        of_patterns = (slot.term for node in patterns for slot in slots_of(node) if isinstance(slot, Const))
        of_conditions = (node.term for node in walk(query) if isinstance(node, Const))
        matched = {slot.name for node in patterns for slot in slots_of(node) if isinstance(slot, Var)}  # others are computed
        requested = [term for name, term in where if name in matched]
        self.names = {term for term in (*requested, *of_patterns, *of_conditions) if is_iri(term)} if where else set()
        self._equal: dict[Variable, dict[Term, None]] = {name: {term: None} for name, term in where}
        self._compared = {name: term for name, term in where if is_literal(term)}
        self._known: set[Term] = set()
        for node in patterns:
            if isinstance(node.object, Var) and node.object.name in self._compared and isinstance(node.predicate, Const):
                self.note(islice(background.match(None, node.predicate.term, None), _MAX_COMPARED))

    def note(self, triples: Iterable[Triple]) -> None:
        """Compare the literals of an element."""
        if not self._compared:
            return
        for _, _, value in triples:
            if is_literal(value) and value not in self._known and len(self._known) <= _MAX_COMPARED:
                self._known.add(value)
                for name, term in self._compared.items():
                    if has_terms({name: value}, [(name, term)]):
                        self._equal[name][value] = None

    def alternatives(self) -> Iterator[Solution]:
        """The terms to try, by variable."""
        names = list(self._equal)
        for terms in islice(product(*self._equal.values()), _MAX_ALTERNATIVES):
            yield dict(zip(names, terms, strict=True))

    def text(self, writer: TermWriter) -> str:
        """The requested terms: ` with ?m = :press1`; empty for none."""
        return f" with {', '.join(f'?{name} = {writer.text(term)}' for name, term in self.where)}" if self.where else ""


_MAX_WAITING: Final = 2_000_000
"""Number of triples of instants that are visited from the latest back."""
_MAX_COMPARED: Final = 100_000
"""Maximum number of literals of the data that are compared with a requested one."""
_MAX_ALTERNATIVES: Final = 16


class _Search:
    """Search for the instant at which the most patterns and conditions of a query hold."""

    def __init__(
        self, program: CompiledProgram, label: Label, query: Select, where: Sequence[tuple[Variable, Term]] = (), *, elements: bool = True
    ) -> None:
        self._program = program
        self._label = label
        self._query = query
        self._terms = RequestedTerms(where, query, program.knowledge.background)
        self._plan: QueryPlan = plan(self._query, program.knowledge.background)
        self._solver = PatternSolver()
        self._rules = datalog_rules(program)
        self._vocabulary = StreamVocabulary(self._rules, elements=elements, names=self._terms.names)
        self._best: list[_Furthest] = []
        self._best_reached = -1
        self._instants = 0

    def note(self, graphs: Sequence[tuple[Triple, ...]], at: Micros) -> None:
        """Add the predicates and classes of the elements of an instant."""
        for triples in graphs:
            self._vocabulary.add(triples, at)
            self._terms.note(triples)

    def visit_latest(self, instants: Sequence[ReplayedInstant]) -> bool:
        """Compare instants, the latest first; True if the query has a requested fact at one."""
        most = most_reached(self._query, dict(self._terms.where))
        background, writer = self._program.knowledge.background, TermWriter({})
        if any(self._vocabulary.unknown(terms.values(), background, writer) for terms in self._terms.alternatives()):
            # no instant differs from another in what has such a term
            self._instants += len(instants[:-1])
            instants = instants[-1:]
        for number, instant in enumerate(reversed(instants)):
            if self._best and self._best_reached >= most and self._best[0].time is not None and self._best[0].time >= instant.time:
                self._instants += len(instants) - number
                break
            if self.visit(instant.time, merge(instant.time, instant.graphs).triples):
                return True
        return False

    def visit(self, time: Micros | None, triples: Sequence[Triple]) -> bool:
        """Compare an instant with the best ones; True if the query has a fact there."""
        closure = close_quietly(self._program, triples)
        if closure is None:
            return False
        self._instants += time is not None
        return any(self._visit_with(terms, time, triples, closure) for terms in self._terms.alternatives())

    def _visit_with(self, terms: Solution, time: Micros | None, triples: Sequence[Triple], closure: Closure) -> bool:
        """The same for some of the terms that are equal to the requested ones. Of equally good stops
        the first five are kept; of those with requested terms the latest one."""
        of_terms, best = bool(self._terms.where), self._best
        is_kept = len(best) < _MAX_TIED
        if of_terms and best and time is not None and best[0].time is not None:
            is_kept = time > best[0].time
        closed, stop, exceeded = ClosedGraph(closure, self._program.spec.limits), None, ""
        try:
            if not of_terms and self._plan.answers_at(closure):
                return True
            if at_most_reached(self._query, closure, terms) < self._best_reached + (not is_kept):
                return False
            stop = find_stop(self._query, closed, self._solver, terms)
            if of_terms and stop is None:
                return True
        except LimitExceeded as error:
            exceeded = str(error)
        found = -1 if stop is None else reached(stop)
        if found > self._best_reached or (of_terms and is_kept and found == self._best_reached):
            best.clear()
        if found > self._best_reached or (is_kept and found == self._best_reached):
            best.append(_Furthest(time, triples, closed, stop, exceeded, terms))
            self._best_reached = found
        return False

    def explanation(self, replay: Replay, writer: TermWriter, places: Mapping[Expression, Span] = _NO_PLACES) -> MissingFacts:
        """The explanation of a best instant; of several, the first with the greatest rank."""
        if not self._best:
            return MissingFacts(self._label, self._instants, terms=self._terms.text(writer))
        if self._terms.where:
            [best] = self._best
            return self._explained(best, replay, TermWriter(writer.prefixes, best.terms), places)
        explained = [self._explained(each, replay, TermWriter(writer.prefixes), places) for each in self._best]
        chosen = max(range(len(explained)), key=lambda number: (explained[number].rank, -number))
        return self._explained(self._best[chosen], replay, writer, places)

    def _explained(self, best: _Furthest, replay: Replay, writer: TermWriter, places: Mapping[Expression, Span]) -> MissingFacts:
        at = "" if best.time is None else str(format_time(best.time, replay.clock))
        explained = MissingFacts(self._label, self._instants, best.time, at, terms=self._terms.text(writer))
        if best.stop is None:
            why = f"the query goes over a limit: {best.exceeded}" if best.exceeded else "the query has no row"
            return replace(explained, stops=(why,))
        text = StopText(self._program, self._rules, self._vocabulary, best.closed, best.given, writer, replay.clock, places)
        stops = tuple(text.sentences(best.stop))
        rank = (text.has_entailment, max((len(rule.premises) for rule in text.rules), default=0))
        return replace(explained, stops=stops, rules=tuple(text.rules), remarks=text.noted(), rank=rank)


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
