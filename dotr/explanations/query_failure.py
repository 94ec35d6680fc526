"""Reasons for which the query of a label has no fact.

Idea: every instant asked about is closed as in a run. The query is taken apart at each instant
(`dotr.explanations.partial_joins`), and the instant at which it came furthest is explained: the
longest part with answers, what the next pattern lacks, the Datalog rules and the entailment that
could give it, and predicates that no element brings.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from dotr.datalog.closure import Closure
from dotr.engine.instants import merge
from dotr.engine.program import CompiledProgram
from dotr.explanations.datalog_failure import UnfulfilledRule
from dotr.explanations.near_misses import TermsBrought
from dotr.explanations.partial_joins import (
    ClosedGraph,
    PatternSolver,
    QueryStop,
    at_most_reached,
    find_stop,
    reached,
)
from dotr.explanations.replay import Replay
from dotr.explanations.stop_text import StopText, datalog_rules
from dotr.explanations.term_writer import TermWriter
from dotr.expressions.literal_limits import BOUNDS
from dotr.expressions.times import format_time
from dotr.joins.limits import LimitExceeded
from dotr.layout.retention import roles
from dotr.model.algebra import Expression, Select
from dotr.model.places import Span
from dotr.model.rules import FactSource, Role, Rule
from dotr.model.terms import Label, Triple
from dotr.model.time import Micros
from dotr.queries import QueryPlan, plan

_MAX_TERMS: Final = 3
_INDENT: Final = "    "
_MAX_TIED: Final = 5
"""Instants at which a query came equally far, of which one is chosen."""
_NO_PLACES: Final[Mapping[Expression, Span]] = {}


@dataclass(frozen=True, slots=True)
class MissingFacts:
    """Explanation of a query that has no fact at any instant asked about.

    Attributes:
        label: the label of the query.
        instants: the number of instants asked about, each without a fact.
        time: the instant at which the query came furthest, in µs since 1970; None where there is
            no instant, or the query is one over the background alone.
        at: the same as text; empty for None.
        stops: what stops the query there, a sentence each: one, or one for each side of a UNION.
        rules: the Datalog rules that could give what is missing, and do not.
        remarks: sentences on entailment, and on predicates and classes that no element brings.
    """

    label: Label
    instants: int
    time: Micros | None = None
    at: str = ""
    stops: tuple[str, ...] = ()
    rules: tuple[UnfulfilledRule, ...] = ()
    remarks: tuple[str, ...] = ()
    told: tuple[bool, int] = (False, 0)
    """True if an entailment gives what is missing; the most atoms of a rule's body that hold."""

    @property
    def summary(self) -> str:
        """`Temp has no fact at 2 instants`, for the parentheses of the first line."""
        if self.time is None and self.stops:
            return f"{self.label} has no answer of the background"
        return f"{self.label} has no fact at {self.instants:,} instant{'' if self.instants == 1 else 's'}"

    def lines(self) -> list[str]:
        """The lines below the first one, indented by four and more spaces."""
        start = f"at {self.at}: " if self.at else ""
        lines = [f"{_INDENT}{start}{stop}" for stop in self.stops]
        lines += [f"{_INDENT}  {line}" for failure in self.rules for line in failure.lines()]
        return lines + [f"{_INDENT}  {remark}" for remark in self.remarks]

    def to_json(self) -> dict[str, object]:
        """The explanation as a JSON object."""
        return {
            "label": self.label,
            "instants": self.instants,
            "at": time_value(self.at) if self.at else None,
            "stops": list(self.stops),
            "rules": [each.to_json() for each in self.rules],
            "remarks": list(self.remarks),
        }


def explain_missing_facts(
    replay: Replay, rule: Rule, writer: TermWriter, *, role: Role | None = None, first: Micros | None = None, last: Micros | None = None
) -> MissingFacts | None:
    """Explanation of the missing facts of a query of a rule.

    Args:
        replay: the program and its stream.
        rule: a rule of `replay.program.rules.rules`.
        writer: the writer of the explanation.
        role: a role of the rule, whose source is a `FactSource`; None: its anchor.
        first: the first time asked about in µs since 1970, None without a bound.
        last: the last time asked about, likewise; both ends are included.

    Returns:
        None where the query has a fact at one of the instants (or its source is an event): then
        there is nothing to explain here.
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
    """The same for any query; `label` names it, `places` has the places of its conditions."""
    search = _Search(replay.program, label, query)
    for instant in replay.instants():
        search.note(instant.graphs, instant.time)
        asked = (first is None or first <= instant.time) and (last is None or instant.time <= last)
        if asked and instant.graphs and search.visit(instant.time, merge(instant.time, instant.graphs).triples):
            return None
    return search.explanation(replay, writer, places)


@dataclass(frozen=True, slots=True)
class _Furthest:
    """The instant at which the query came furthest: its triples and what stops the query there.

    `stop`: None where the query goes over a limit.
    """

    time: Micros | None
    given: Sequence[Triple]
    closed: ClosedGraph
    stop: QueryStop | None
    exceeded: str = ""


class _Search:
    """Search for the instant at which a query came furthest."""

    def __init__(self, program: CompiledProgram, label: Label, query: Select, *, elements: bool = True) -> None:
        self._program = program
        self._label = label
        self._query = query
        self._plan: QueryPlan = plan(self._query, program.knowledge.background)
        self._solver = PatternSolver()
        self._rules = datalog_rules(program)
        self._brought = TermsBrought(self._rules, elements=elements)
        self._best: list[_Furthest] = []
        self._best_reached = -1
        self._instants = 0

    def note(self, graphs: Sequence[tuple[Triple, ...]], at: Micros) -> None:
        """Note the predicates and classes of the elements of an instant."""
        for triples in graphs:
            self._brought.add(triples, at)

    def visit(self, time: Micros | None, triples: Sequence[Triple]) -> bool:
        """Compare an instant with the best one; True where the query has a fact there."""
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
        """The explanation of the instant that came furthest: of several the first at which most of
        a rule's body holds, or an entailment would give what is missing.
        """
        explained = [self._explained(each, replay, TermWriter(writer.prefixes), places) for each in self._best]
        if not explained:
            return MissingFacts(self._label, self._instants)
        chosen = max(range(len(explained)), key=lambda number: (explained[number].told, -number))
        return self._explained(self._best[chosen], replay, writer, places)

    def _explained(self, best: _Furthest, replay: Replay, writer: TermWriter, places: Mapping[Expression, Span]) -> MissingFacts:
        at = "" if best.time is None else str(format_time(best.time, replay.clock))
        explained = MissingFacts(self._label, self._instants, best.time, at)
        if best.stop is None:
            why = f"the query goes over a limit: {best.exceeded}" if best.exceeded else "the query has no row"
            return replace(explained, stops=(why,))
        text = StopText(self._program, self._rules, self._brought, best.closed, best.given, writer, replay.clock, places)
        stops = tuple(text.sentences(best.stop))
        told = (text.has_entailment, max((len(rule.premises) for rule in text.rules), default=0))
        return replace(explained, stops=stops, rules=tuple(text.rules), remarks=tuple(dict.fromkeys(text.remarks)), told=told)


def time_value(text: str) -> int | str:
    """A time as JSON has it, from its text.

    >>> time_value("-12"), time_value("2024-03-01T07:00:00Z")
    (-12, '2024-03-01T07:00:00Z')
    """
    return int(text) if text.removeprefix("-").isdecimal() else text


def close_quietly(program: CompiledProgram, triples: Sequence[Triple]) -> Closure | None:
    """The closure of an instant; None where the instant is rejected, or cannot be closed."""
    BOUNDS.characters = program.spec.limits.literal
    try:
        closure = program.knowledge.close(triples)
    except Exception:  # an element that a run takes out of its instant, too
        return None
    return None if closure.contradictions and program.stage_one.rejects else closure
