"""Sentences on the stop of a query: the first part that leaves no solution."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Final, assert_never

from dotr.engine.program import CompiledProgram
from dotr.errors.diagnostics import Refused
from dotr.evaluation.expressions.values.times import format_time
from dotr.evaluation.joins.scope import possible
from dotr.explanations.evidence.background_origins import BackgroundOrigins, rule_place
from dotr.explanations.evidence.proofs import program_rules
from dotr.explanations.evidence.rule_matches import instance
from dotr.explanations.missing.conclusion import MAX_ROWS, UnfulfilledRule, UnfulfilledRules
from dotr.explanations.missing.entailment import MissingEntailment, entailment_that_gives
from dotr.explanations.missing.partial_joins import (
    ClosedGraph,
    FailedCondition,
    FilterStop,
    JoinStop,
    OperatorStop,
    Part,
    QueryStop,
    TermStop,
    UnionStop,
)
from dotr.explanations.missing.vocabulary import StreamVocabulary
from dotr.explanations.text.event_text import place_text
from dotr.explanations.text.pattern_text import (
    aggregate_texts,
    failed_condition_text,
    item_text,
    name_bound_blanks,
    part_text,
    parts_text,
    pattern_text,
    slot_text,
)
from dotr.explanations.text.tree import first_of
from dotr.instant.queries.matching import matches
from dotr.instant.queries.operators import EMPTY
from dotr.model.algebra import (
    Const,
    Exists,
    Expression,
    PathPattern,
    Pattern,
    Slot,
    TermPattern,
    TriplePattern,
    Values,
    Var,
    is_hidden,
    slots_of,
)
from dotr.model.datalog import DatalogRule
from dotr.model.places import Span
from dotr.model.terms import RDF_TYPE, Term, Triple, Variable
from dotr.model.time import Clock
from dotr.model.traverse import free_variables, grouping, joined_parts, subexpressions, walk
from dotr.syntax.datalog import parse_datalog
from dotr.syntax.rendering import TermWriter

_MAX_TERMS: Final = 3
_NO_PLACES: Final[Mapping[Expression, Span]] = {}
_SECONDS: Final = Clock()


class StopText:
    """Writer of sentences on a stop, which collects explanations of rules and remarks for them.

    Args:
        program: the compiled program.
        rules: its Datalog rules.
        vocabulary: the predicates and classes of all elements.
        closed: the instant.
        given: the triples of the instant's elements.
        writer: the writer of the explanation; its terms are those that the solutions have to have.
        clock: the form of times in text.
        places: the places of conditions in the rule files.

    Attributes:
        scope_noun: the noun for the scope of the query: an instant, or a window.
        rules: the explanations of Datalog rules for the sentences so far.
        remarks: the remarks on the sentences so far.
        has_entailment: True if an entailment regime would derive a missing pattern.
    """

    scope_noun = "instant"

    def __init__(
        self,
        program: CompiledProgram,
        rules: Sequence[DatalogRule],
        vocabulary: StreamVocabulary,
        closed: ClosedGraph,
        given: Sequence[Triple],
        writer: TermWriter,
        clock: Clock = _SECONDS,
        places: Mapping[Expression, Span] = _NO_PLACES,
    ) -> None:
        self._program = program
        self._datalog = rules
        self._vocabulary = vocabulary
        self._closed = closed
        self._places = places
        self._clock = clock
        self._writer = writer
        self._failures = UnfulfilledRules(rules, closed, given, vocabulary, writer)
        self.rules: list[UnfulfilledRule] = []
        self.remarks: list[str] = []
        self.has_entailment = False

    def sentences(self, stop: QueryStop) -> Iterator[str]:
        """The sentences of a stop: one, or one for each side of a UNION."""
        match stop:
            case UnionStop(sides):
                for number, side in enumerate(sides, 1):
                    for sentence in self.sentences(side):
                        yield f"side {number} of UNION: {sentence}"
            case JoinStop():
                yield self._join(stop)
            case FilterStop():
                yield self._filter(stop)
            case OperatorStop(operator, pattern, rows, _):
                if isinstance(pattern, Values):
                    yield "VALUES has no row"
                else:
                    self._name_blanks(pattern, rows[0])
                    taken = self._found_in(stop.removed, rows[0]) if stop.removed is not None else ""
                    yield f"{self._holds(pattern_text(pattern, self._writer), len(rows))}; {operator} leaves none{taken}"
            case TermStop(pattern, rows, names):
                holds = self._holds(pattern_text(pattern, self._writer), len(rows))
                found = ", ".join(self._values(name, rows) or f"?{name} is unbound" for name in names)
                self._note_unknown(map(Var, names))
                wanted = ", ".join(f"?{name} = {self._writer.text(self._writer.terms[name])}" for name in names)
                yield f"{holds}, never with {wanted}: {found}"
            case _:
                assert_never(stop)

    def _filter(self, stop: FilterStop) -> str:
        first = stop.failed[0]
        same = [each.row for each in stop.failed if each.condition == first.condition and each.errs == first.errs]
        self._name_blanks(stop.pattern, same[0])
        holds = self._holds(pattern_text(stop.pattern, self._writer), len(stop.rows), "" if grouping(stop.pattern) is None else "group")
        place = place_text(self._places.get(first.condition))
        there = ""
        if self._writer.terms and not isinstance(first.condition, Exists):
            names = {*free_variables(first.condition)} - self._writer.terms.keys()
            there = "".join(f", {each}" for each in self._triples_with(stop.pattern, same[0], names))
            self._note_unknown(part for part in subexpressions(first.condition) if isinstance(part, Const))
        return f"{holds}; {self._failed(stop, same, first)}{there}" + (f"   {place}" if place else "")

    def _triples_with(self, pattern: Pattern, row: Mapping[Variable, Term], names: Collection[Variable]) -> Iterator[str]:
        """The triples of a row in which the variables have their values."""
        for part in walk(pattern):
            if isinstance(part, TriplePattern) and isinstance(part.object, Var) and part.object.name in names:
                triple = instance(part, {**self._writer.terms, **row})
                if triple is not None:
                    yield self._writer.triple(triple)

    def _note_unknown(self, slots: Iterable[Slot]) -> None:
        """Add a remark on the first term that occurs nowhere, if terms are asked about."""
        terms = [slot.term if isinstance(slot, Const) else self._writer.terms.get(slot.name) for slot in slots]
        remark = self._vocabulary.unknown(filter(None, terms), self._closed.background, self._writer)
        if remark:
            self.remarks.append(remark)

    def noted(self) -> tuple[str, ...]:
        """The remarks on the sentences so far, and on a term asked about that occurs nowhere."""
        self._note_unknown(map(Var, self._writer.terms))
        return tuple(dict.fromkeys(self.remarks))

    def _failed(self, stop: FilterStop, rows: Sequence[Mapping[Variable, Term]], first: FailedCondition) -> str:
        """The text of the condition that fails for some rows."""
        match first.condition:
            case Exists(pattern, negated):
                text = f"{'NOT ' * negated}EXISTS {{ {pattern_text(pattern, self._writer)} }} is false"
                if negated:
                    return f"{text}{self._found_in(pattern, rows[0])}"
                self._remark(pattern)
                return text
            case _:
                group = grouping(stop.pattern)  # a FILTER over it is a HAVING
                name, texts = ("FILTER", {}) if group is None else ("HAVING", aggregate_texts(group, self._writer))
                return failed_condition_text(first.condition, rows, first.errs, self._writer, name, texts)

    def _found_in(self, pattern: Pattern, row: Mapping[Variable, Term]) -> str:
        """The triples of a match of NOT EXISTS or MINUS for a row; empty unless its triple patterns
        match.
        """
        items = [part for part in joined_parts(pattern) if isinstance(part, TriplePattern)]
        found = next(matches(self._closed.graph(), tuple(items), row, EMPTY), None)
        if found is None or not items:
            return ""
        self._name_blanks(pattern, found)
        texts = []
        for item in items:
            predicate = item.predicate.term if isinstance(item.predicate, Const) else found[item.predicate.name]
            ends = (slot_text(slot, self._writer, found) for slot in (item.subject, item.object))
            texts.append(f" {self._writer.predicate(predicate)} ".join(ends))
        return f": {' . '.join(texts)}"

    def _join(self, stop: JoinStop) -> str:
        writer = self._writer
        rows = stop.rows
        for row in rows[:MAX_ROWS]:
            for part in stop.joined:
                self._name_blanks(part, row)
        first = stop.missing[0]
        of = self._classless(first, stop)
        entailment = ""
        if isinstance(first, TriplePattern | PathPattern | TermPattern):
            needed = entailment_that_gives(first, rows, self._closed, self._datalog, self._program.spec.entailment)
            entailment = "" if needed is None else entailment_text(self._program, needed, writer)
            self.has_entailment |= needed is not None
        if isinstance(first, TriplePattern):
            self.rules += self._failures.of_pattern(first, rows)
        terms = writer.terms
        for part in stop.missing[1:] if entailment else stop.missing:
            self._remark(part)
            if terms:
                nodes = (node for node in walk(part) if isinstance(node, TriplePattern | PathPattern))
                self._note_unknown(slot for node in nodes for slot in slots_of(node))
            else:
                self._note_other_instants(part)
        if of:
            return of + (f". {entailment}" if entailment else "")
        if entailment:
            self.remarks.append(entailment)
        missing = [part_text(part, writer) for part in stop.missing]
        there = "" if self.rules or entailment else self._triples_instead(stop) if terms else self._there_instead(stop)
        if not stop.joined:
            sentence = f"{missing[0]} never holds{there}" + "".join(f", nor does {each}" for each in missing[1:])
        else:
            joined = self._holds(parts_text(stop.joined, writer), len(rows))
            sentence = f"{joined}; with {missing[0]}, never{there}" + "".join(f", nor with {each}" for each in missing[1:])
        if stop.inside is not None and not isinstance(first, TriplePattern | PathPattern | TermPattern):
            sentence += "".join(f"; {each}" for each in self.sentences(stop.inside))
        return sentence

    def _triples_instead(self, stop: JoinStop) -> str:
        """The triples of a missing pattern's subject and predicate, if terms are asked about."""
        match stop.missing[0]:
            case TriplePattern(subject, Const(predicate), _):
                pass
            case _:
                return self._there_instead(stop)
        graph, found = self._closed.graph(), dict[Triple, None]()
        for row in stop.rows[:MAX_ROWS]:
            term = subject.term if isinstance(subject, Const) else {**self._writer.terms, **row}.get(subject.name)
            if term is not None:
                found |= dict.fromkeys(islice(graph.match(term, predicate, None), _MAX_TERMS + 1))
        return f": {first_of([*map(self._writer.triple, islice(found, _MAX_TERMS + 1))], _MAX_TERMS)} is there instead" if found else ""

    def _there_instead(self, stop: JoinStop) -> str:
        """The terms of the variables of a missing pattern, and the known terms of its predicate."""
        match stop.missing[0]:
            case TriplePattern(subject, Const(predicate), value) if predicate != RDF_TYPE:
                pass
            case TriplePattern() | PathPattern() | TermPattern():
                return ""
            case group:
                shared = sorted(possible(group) & {name for row in stop.rows for name in row})
                return f" ({', '.join(self._values(name, stop.rows) for name in shared)})" if stop.joined and shared else ""
        ends = (subject, value) if isinstance(value, Var) else ()
        names = [slot.name for slot in ends if isinstance(slot, Var) and not is_hidden(slot.name)]
        bound = [name for name in names if all(name in row for row in stop.rows)]
        known = self._failures.known_of(predicate, subject, value, stop.rows)
        text = ", ".join(self._values(name, stop.rows) for name in bound)
        if not known:
            return ""
        return f": {text}, and {known}" if text else f": {known}"

    def _values(self, name: Variable, rows: Sequence[Mapping[Variable, Term]]) -> str:
        terms = list(dict.fromkeys(self._writer.text(row[name]) for row in rows if name in row))
        return f"?{name} is {first_of(terms, _MAX_TERMS)}" if terms else ""

    def _classless(self, first: Part, stop: JoinStop) -> str:
        """`?s a :Sensor does not hold of :t1, a :Thermometer`; empty for a pattern of another
        form."""
        match first:
            case TriplePattern(Var(name), Const(predicate), Const()) if predicate == RDF_TYPE and all(name in row for row in stop.rows):
                terms = list(dict.fromkeys(row[name] for row in stop.rows))
                of = ", nor of ".join(self._with_types(term) for term in terms[:_MAX_TERMS])
                return f"{item_text(first, self._writer)} does not hold of {of}{', …' if len(terms) > _MAX_TERMS else ''}"
            case _:
                return ""

    def _with_types(self, term: Term) -> str:
        types = list(dict.fromkeys(value for _, _, value in self._closed.graph().match(term, RDF_TYPE, None)))
        names = first_of([*map(self._writer.text, types[: _MAX_TERMS + 1])], _MAX_TERMS)
        return f"{self._writer.text(term)}, a {names}" if names else f"{self._writer.text(term)}, which has no class"

    def _note_other_instants(self, part: Part) -> None:
        """Add a remark if elements of other instants have the predicate or class that is
        missing."""
        match part:
            case TriplePattern(_, Const(predicate), Const(class_)) if predicate == RDF_TYPE:
                time = self._vocabulary.first_time(predicate, class_)
                is_there = next(self._closed.graph().match(None, predicate, class_), None) is not None
                name = f"the class {self._writer.text(class_)}"
            case TriplePattern(_, Const(predicate), _):
                time = self._vocabulary.first_time(predicate)
                is_there = next(self._closed.graph().match(None, predicate, None), None) is not None
                name = self._writer.predicate(predicate)
            case _:
                return
        if time is not None and not is_there:
            at = format_time(time, self._clock)
            self.remarks.append(
                f"Elements of other {self.scope_noun}s bring {name} (the first at {at}); a query sees one {self.scope_noun}."
            )

    def _remark(self, part: Part) -> None:
        self.remarks += self._vocabulary.near_misses_of(part, self._closed.background, self._writer)

    def _holds(self, text: str, count: int, noun: str = "") -> str:
        plural = "" if count == 1 else "s"
        return f"{text} {'has' if noun else 'holds'} {count:,} {noun or 'time'}{plural}" if text else f"{count:,} {noun or 'row'}{plural}"

    def _name_blanks(self, part: Part, row: Mapping[Variable, Term]) -> None:
        for node in walk(part):
            if isinstance(node, TriplePattern | PathPattern | TermPattern):
                name_bound_blanks(slots_of(node), row, self._writer)


def entailment_text(program: CompiledProgram, needed: MissingEntailment, writer: TermWriter) -> str:
    """`entailment: rdfs` with the schema triples that it uses, and their files."""
    try:
        origins = BackgroundOrigins(program, program_rules(program)).of(needed.schema)
    except Refused:  # a graph that has changed since
        origins = {}
    texts: dict[str, list[str]] = {}
    for triple in needed.schema:
        origin = origins.get(triple)
        place = None if origin is None else origin.place or (None if origin.rule is None else rule_place(origin.rule))
        texts.setdefault("" if place is None else str(place), []).append(writer.triple(triple))
    by = ", ".join(", ".join(triples) + (f" ({file})" if file else "") for file, triples in texts.items())
    return f"`entailment: {needed.regime.value}` gives it" + (f": {by}" if by else "")


def datalog_rules(program: CompiledProgram) -> list[DatalogRule]:
    """The Datalog rules of a program's files, in their order, facts included."""
    return [rule for document in program.spec.datalog for rule in parse_datalog(document, program.spec.prefixes)]
