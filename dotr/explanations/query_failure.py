"""Reasons for which the query of a label has no fact.

Idea: every instant asked about is closed as in a run. The query is taken apart at each instant
(`dotr.explanations.partial_joins`), and the instant at which it came furthest is explained: the
longest part with answers, what the next pattern lacks, the Datalog rules and the entailment that
could give it, and predicates that no element brings.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, assert_never

from dotr.datalog.closure import Closure
from dotr.datalog.loading import read_graph
from dotr.engine.instants import merge
from dotr.engine.program import CompiledProgram
from dotr.errors.diagnostics import Refused
from dotr.explanations.datalog_failure import RuleFailure, RuleFailures
from dotr.explanations.failed_conditions import failed_condition_text
from dotr.explanations.missing_entailment import MissingEntailment, entailment_that_gives
from dotr.explanations.near_misses import TermsBrought
from dotr.explanations.partial_joins import (
    ClosedGraph,
    FilterStop,
    JoinStop,
    OperatorStop,
    Part,
    PatternSolver,
    Stop,
    UnionStop,
    find_stop,
    reached,
)
from dotr.explanations.pattern_text import item_text, name_bound_blanks, part_text, parts_text, pattern_text, with_well_known
from dotr.explanations.replay import Replay
from dotr.explanations.term_writer import TermWriter
from dotr.expressions.literal_limits import BOUNDS
from dotr.expressions.times import format_time
from dotr.joins.limits import LimitExceeded
from dotr.languages.datalog import parse_datalog
from dotr.model.algebra import (
    Const,
    Extend,
    Filter,
    Group,
    PathPattern,
    Pattern,
    TermPattern,
    TriplePattern,
    Values,
    Var,
    slots_of,
)
from dotr.model.datalog import DatalogRule
from dotr.model.rules import FactSource, Role, Rule
from dotr.model.terms import RDF_TYPE, Label, Term, Triple, Variable
from dotr.model.time import Micros
from dotr.model.traverse import walk
from dotr.queries import QueryPlan, plan

_MAX_TERMS: Final = 3
_INDENT: Final = "    "


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
    rules: tuple[RuleFailure, ...] = ()
    remarks: tuple[str, ...] = ()

    @property
    def summary(self) -> str:
        """`Temp has no fact at 2 instants`, for the parentheses of the first line."""
        return f"{self.label} has no fact at {self.instants} instant{'' if self.instants == 1 else 's'}"

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
            "at": self.at or None,
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
    search = _Search(replay.program, role)
    if role.source.period is not None:
        if search.visit(None, ()):
            return None
        return search.explanation(replay, writer)
    for instant in replay.instants():
        search.note(instant.graphs)
        asked = (first is None or first <= instant.time) and (last is None or instant.time <= last)
        if asked and search.visit(instant.time, merge(instant.time, instant.graphs).triples):
            return None
    return search.explanation(replay, writer)


@dataclass(frozen=True, slots=True)
class _Furthest:
    """The instant at which the query came furthest: its triples and what stops the query there.

    `stop`: None where the query goes over a limit.
    """

    time: Micros | None
    given: Sequence[Triple]
    closed: ClosedGraph
    stop: Stop | None
    exceeded: str = ""


class _Search:
    """Search for the instant at which a query came furthest."""

    def __init__(self, program: CompiledProgram, role: Role) -> None:
        assert isinstance(role.source, FactSource)
        self._program = program
        self._label = role.origin
        self._query = replace(role.source.query, projection=role.source.attributes)
        self._plan: QueryPlan = plan(self._query, program.knowledge.background)
        self._solver = PatternSolver()
        self._rules = datalog_rules(program)
        self._brought = TermsBrought(self._rules)
        self._best: _Furthest | None = None
        self._best_reached = -1
        self._instants = 0

    def note(self, graphs: Sequence[tuple[Triple, ...]]) -> None:
        """Note the predicates and classes of the elements of an instant."""
        for triples in graphs:
            self._brought.add(triples)

    def visit(self, time: Micros | None, triples: Sequence[Triple]) -> bool:
        """Compare an instant with the best one; True where the query has a fact there."""
        closure = close_quietly(self._program, triples)
        if closure is None:
            return False
        self._instants += time is not None
        try:
            if self._plan.answers_at(closure):
                return True
            if self._best is not None and self._at_most(closure) <= self._best_reached:
                return False
            closed = ClosedGraph(closure, self._program.spec.limits)
            stop = find_stop(self._query, closed, self._solver)
            found, exceeded = -1 if stop is None else reached(stop), ""
        except LimitExceeded as error:
            closed, stop, found, exceeded = ClosedGraph(closure, self._program.spec.limits), None, -1, str(error)
        if self._best is None or found > self._best_reached:
            self._best, self._best_reached = _Furthest(time, triples, closed, stop, exceeded), found
        return False

    def _at_most(self, closure: Closure) -> int:
        """An upper bound of what `reached` counts, from the predicates that are there at all."""
        passed = 0
        for node in walk(self._query):
            match node:
                case TriplePattern(_, Const(predicate), _):
                    passed += predicate in closure.delta.by_subject or predicate in closure.background.by_subject
                case TriplePattern() | PathPattern() | TermPattern():
                    passed += 1
                case Filter(_, conditions):
                    passed += len(conditions)
                case _:
                    pass
        return passed

    def explanation(self, replay: Replay, writer: TermWriter) -> MissingFacts:
        """The explanation of the best instant."""
        best = self._best
        if best is None:
            return MissingFacts(self._label, self._instants)
        at = "" if best.time is None else str(format_time(best.time, replay.clock))
        explained = MissingFacts(self._label, self._instants, best.time, at)
        if best.stop is None:
            why = f"the query goes over a limit: {best.exceeded}" if best.exceeded else "the query has no row"
            return replace(explained, stops=(why,))
        text = _StopText(self._program, self._rules, self._brought, best, writer)
        stops = tuple(text.sentences(best.stop))
        return replace(explained, stops=stops, rules=tuple(text.rules), remarks=tuple(dict.fromkeys(text.remarks)))


def close_quietly(program: CompiledProgram, triples: Sequence[Triple]) -> Closure | None:
    """The closure of an instant; None where the instant is rejected, or cannot be closed."""
    BOUNDS.characters = program.spec.limits.literal
    try:
        closure = program.knowledge.close(triples)
    except Exception:  # an element that a run takes out of its instant, too
        return None
    return None if closure.contradictions and program.stage_one.rejects else closure


def datalog_rules(program: CompiledProgram) -> list[DatalogRule]:
    """The Datalog rules of a program's files, in their order, facts included."""
    return [rule for document in program.spec.datalog for rule in parse_datalog(document, program.spec.prefixes)]


class _StopText:
    """Sentences on a stop; collects the rules and the remarks that belong to them."""

    def __init__(
        self, program: CompiledProgram, rules: Sequence[DatalogRule], brought: TermsBrought, best: _Furthest, writer: TermWriter
    ) -> None:
        self._program = program
        self._datalog = rules
        self._brought = brought
        self._closed = best.closed
        self._writer = writer
        self._failures = RuleFailures(rules, best.closed, best.given, brought, writer)
        self.rules: list[RuleFailure] = []
        self.remarks: list[str] = []

    def sentences(self, stop: Stop) -> Iterator[str]:
        """The sentences of a stop: one, or one for each side of a UNION."""
        match stop:
            case UnionStop(sides):
                for number, side in enumerate(sides, 1):
                    for sentence in self.sentences(side):
                        yield f"side {number} of UNION: {sentence}"
            case JoinStop():
                yield self._join(stop)
            case FilterStop(pattern, rows, failed, _):
                first = failed[0]
                same = [each.row for each in failed if each.condition == first.condition and each.errs == first.errs]
                self._name_blanks(pattern, same[0])
                name = "HAVING" if _is_grouped(pattern) else "FILTER"
                condition = failed_condition_text(first.condition, same, first.errs, self._writer, name)
                yield f"{self._holds(pattern_text(pattern, self._writer), len(rows))}; {condition}"
            case OperatorStop(operator, pattern, rows):
                if isinstance(pattern, Values):
                    yield "VALUES has no row"
                else:
                    yield f"{self._holds(pattern_text(pattern, self._writer), len(rows))}; {operator} leaves none"
            case _:
                assert_never(stop)

    def _join(self, stop: JoinStop) -> str:
        writer = self._writer
        rows = stop.rows
        for part in stop.joined:
            self._name_blanks(part, rows[0])
        first = stop.missing[0]
        of = self._classless(first, stop)
        entailment = ""
        if isinstance(first, TriplePattern | PathPattern | TermPattern):
            needed = entailment_that_gives(first, rows, self._closed, self._datalog, self._program.spec.entailment)
            entailment = "" if needed is None else self._entailment(needed)
        if isinstance(first, TriplePattern):
            self.rules += self._failures.of_pattern(first, rows)
        for part in stop.missing[1:] if entailment else stop.missing:
            self._remark(part)
        if of:
            return of + (f". {entailment}" if entailment else "")
        if entailment:
            self.remarks.append(entailment)
        missing = [part_text(part, writer) for part in stop.missing]
        if not stop.joined:
            sentence = f"{missing[0]} never holds" + "".join(f", nor does {each}" for each in missing[1:])
        else:
            joined = self._holds(parts_text(stop.joined, writer), len(rows))
            sentence = f"{joined}; with {missing[0]}, never" + "".join(f", nor with {each}" for each in missing[1:])
        if stop.inside is not None and not isinstance(first, TriplePattern | PathPattern | TermPattern):
            sentence += "".join(f"; {each}" for each in self.sentences(stop.inside))
        return sentence

    def _classless(self, first: Part, stop: JoinStop) -> str:
        """`?s a :Sensor does not hold of :t1, a :Thermometer`; empty for a pattern of another form."""
        match first:
            case TriplePattern(Var(name), Const(predicate), Const()) if predicate == RDF_TYPE and all(name in row for row in stop.rows):
                terms = list(dict.fromkeys(row[name] for row in stop.rows))
                of = ", nor of ".join(self._with_types(term) for term in terms[:_MAX_TERMS])
                return f"{item_text(first, self._writer)} does not hold of {of}{', …' if len(terms) > _MAX_TERMS else ''}"
            case _:
                return ""

    def _with_types(self, term: Term) -> str:
        types = list(dict.fromkeys(value for _, _, value in self._closed.graph().match(term, RDF_TYPE, None)))
        names = ", ".join([self._writer.text(each) for each in types[:_MAX_TERMS]] + ["…"] * (len(types) > _MAX_TERMS))
        return f"{self._writer.text(term)}, a {names}" if names else f"{self._writer.text(term)}, which has no class"

    def _entailment(self, needed: MissingEntailment) -> str:
        prefixes = TermWriter(with_well_known(self._writer))
        files = files_of(self._program, needed.schema)
        texts: dict[str, list[str]] = {}
        for triple in needed.schema:
            texts.setdefault(files.get(triple, ""), []).append(prefixes.triple(triple))
        by = ", ".join(", ".join(triples) + (f" ({file})" if file else "") for file, triples in texts.items())
        return f"`entailment: {needed.regime.value}` gives it" + (f": {by}" if by else "")

    def _remark(self, part: Part) -> None:
        for node in walk(part):
            if isinstance(node, TriplePattern) and isinstance(node.predicate, Const):
                value = node.object.term if isinstance(node.object, Const) else None
                remark = self._brought.near_miss(node.predicate.term, value, self._closed.background, self._writer)
                if remark:
                    self.remarks.append(remark)

    def _holds(self, text: str, count: int) -> str:
        return f"{text} holds {count} time{'' if count == 1 else 's'}" if text else f"{count} row{'' if count == 1 else 's'}"

    def _name_blanks(self, part: Part, row: Mapping[Variable, Term]) -> None:
        for node in walk(part):
            if isinstance(node, TriplePattern | PathPattern | TermPattern):
                name_bound_blanks(slots_of(node), row, self._writer)


def files_of(program: CompiledProgram, triples: Sequence[Triple]) -> dict[Triple, str]:
    """The file of each triple that the background states."""
    wanted, found = set(triples), dict[Triple, str]()
    for rule in datalog_rules(program):
        if not rule.body:
            for head in rule.head:
                match head:
                    case TriplePattern(Const(subject), Const(predicate), Const(value)) if (subject, predicate, value) in wanted:
                        found.setdefault((subject, predicate, value), rule.name)
    for number, path in enumerate(program.spec.graphs):
        if not wanted - found.keys():
            break
        try:
            stated = wanted.intersection(read_graph(path, number))
        except Refused:
            continue
        for triple in stated:
            found.setdefault(triple, path)
    return found


def _is_grouped(pattern: Pattern) -> bool:
    return isinstance(pattern, Group) or (isinstance(pattern, Extend) and _is_grouped(pattern.pattern))
