"""Sentences on the stop of a query: the first part that leaves no solution."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import islice
from typing import Final, NamedTuple, assert_never

from dotr.engine.program import CompiledProgram
from dotr.errors.diagnostics import Refused
from dotr.evaluation.expressions.values.times import format_time
from dotr.evaluation.joins.scope import possible
from dotr.evaluation.limits import LimitExceeded
from dotr.evaluation.triples import index
from dotr.evaluation.triples.index import NO_ENDS, NO_TERMS, TripleIndex
from dotr.explanations.evidence.background_origins import BackgroundOrigins, rule_place
from dotr.explanations.evidence.proofs import program_rules
from dotr.explanations.evidence.rule_matches import instance
from dotr.explanations.missing.conclusion import MAX_ROWS, UnfulfilledRule, UnfulfilledRules
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
from dotr.instant.datalog.background.knowledge import close_background, without_collection
from dotr.instant.datalog.entailment import Entailment, rule_set
from dotr.instant.datalog.strata.stratification import is_nonmonotonic
from dotr.instant.queries.graph import Graph
from dotr.instant.queries.matching import matches
from dotr.instant.queries.operators import EMPTY
from dotr.model.algebra import (
    BgpItem,
    Const,
    Exists,
    Expression,
    Link,
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
from dotr.model.terms import OWL, RDF_FIRST, RDF_REST, RDF_TYPE, RDFS, Term, Triple, Variable, is_iri
from dotr.model.time import Clock
from dotr.model.traverse import free_variables, grouping, joined_parts, subexpressions, walk
from dotr.syntax.rendering import TermWriter

# Entailment regimes, stronger than the program's, under which a missing triple would hold.
#
# Idea: the instant is closed under the regime together with a part of the background: the triples of
# the involved terms, and the schema triples that connect them. Rules without NOT and AGGREGATE are
# monotone, so a conclusion from this part is one from the whole background. A minimal set of schema
# triples for the conclusion is found by division (QuickXplain, Junker 2004).
#
# Cost: some dozen closures of a few thousand triples at most.


_MAX_SCHEMA: Final = 20_000
"""Maximum number of schema triples of a background that are searched."""
_MAX_TRIPLES: Final = 2_000
"""Maximum number of background triples that an instant is closed with."""
_MAX_EDGES: Final = 50
"""Maximum number of background triples of one predicate with one term as their object."""
_MAX_ROWS: Final = 20


class MissingEntailment(NamedTuple):
    """An entailment regime under which a pattern has an answer, and a minimal set of schema triples
    for it.
    """

    regime: Entailment
    schema: tuple[Triple, ...]


def entailment_that_gives(
    part: BgpItem, rows: Sequence[Mapping[Variable, Term]], closed: ClosedGraph, datalog: Iterable[DatalogRule], used: Entailment
) -> MissingEntailment | None:
    """The weakest entailment regime above `used` under which a pattern has an answer.

    Args:
        part: the pattern.
        rows: partial answers; an answer of the pattern for one of them suffices.
        closed: the instant, closed under `used`.
        datalog: the Datalog rules of the program.
        used: the regime of the program.

    Returns:
        None if no regime suffices.
    """
    regimes = {Entailment.NONE: (Entailment.RDFS, Entailment.OWL2RL), Entailment.RDFS: (Entailment.OWL2RL,), Entailment.OWL2RL: ()}[used]
    if not regimes:
        return None
    monotone = tuple(rule for rule in datalog if not rule.of_rule_set and not is_nonmonotonic(rule))
    rows = rows[:_MAX_ROWS]
    seeds = {node.term for node in walk(part) if isinstance(node, Const)}
    seeds |= {node.predicate for node in walk(part) if isinstance(node, Link)}
    delta = list(closed.delta.visible())
    terms = dict.fromkeys(term for triple in delta for term in (triple[0], triple[2]) if is_iri(term))
    terms |= dict.fromkeys(term for row in rows for term in row.values())
    terms |= dict.fromkeys(slot.term for slot in (part.subject, part.object) if isinstance(slot, Const))
    near = _near(terms, closed.background)
    seeds |= {term for triple in (*delta, *near) for term in triple}
    schema = _leading(seeds, list(islice(_schema(closed.background), _MAX_SCHEMA)))
    base = [*delta, *(triple for triple in near if triple not in set(schema))]
    for regime in regimes:

        def gives(chosen: Sequence[Triple], regime: Entailment = regime) -> bool:
            index = _closed((*base, *chosen), regime, monotone)
            return index is not None and _matches(Graph(index, TripleIndex()), part, rows)

        if gives(schema):
            return MissingEntailment(regime, tuple(_needed(gives, schema)))
    return None


@lru_cache(maxsize=4)
def _closed(triples: tuple[Triple, ...], regime: Entailment, rules: tuple[DatalogRule, ...]) -> TripleIndex | None:
    """The closure of triples under a regime and further rules; None where it cannot be computed.
    The patterns of a query that are missing at one instant mostly share it."""
    try:
        with without_collection():
            return close_background(triples, [*rule_set(regime), *rules], 100 * _MAX_TRIPLES).index()
    except (LimitExceeded, Refused):
        return None


def _matches(graph: Graph, part: BgpItem, rows: Sequence[Mapping[Variable, Term]]) -> bool:
    return any(next(matches(graph, (part,), row, EMPTY), None) is not None for row in rows)


def _needed(gives: Callable[[Sequence[Triple]], bool], schema: Sequence[Triple]) -> list[Triple]:
    """A minimal part of the schema that suffices."""

    def among(background: list[Triple], added: bool, candidates: list[Triple]) -> list[Triple]:
        if added and gives(background):
            return []
        if len(candidates) == 1:
            return candidates
        half = len(candidates) // 2
        first, second = candidates[:half], candidates[half:]
        of_second = among([*background, *first], bool(first), second)
        return [*among([*background, *of_second], bool(of_second), first), *of_second]

    return [] if not schema or gives([]) else among([], False, list(schema))


def _is_schema(triple: Triple) -> bool:
    _, predicate, value = triple
    if predicate == RDF_TYPE:
        return value.startswith((f"<{OWL}", f"<{RDFS}"))
    return predicate.startswith((f"<{RDFS}", f"<{OWL}")) or predicate in (RDF_FIRST, RDF_REST)


def _schema(background: TripleIndex) -> Iterator[Triple]:
    """The schema triples of a background."""
    for predicate in background.predicates():
        if predicate == RDF_TYPE:
            for class_ in background.by_object[predicate]:
                if class_.startswith((f"<{OWL}", f"<{RDFS}")):
                    yield from background.match(None, predicate, class_)
        elif _is_schema(("", predicate, "")):
            yield from background.match(None, predicate, None)


def _near(terms: Iterable[Term], background: TripleIndex) -> list[Triple]:
    """The triples of the background with one of some terms as subject or object, without schema."""
    found: dict[Triple, None] = {}
    for predicate in background.predicates():
        by_subject, by_object = background.by_subject[predicate], background.by_object.get(predicate, NO_ENDS)
        for term in terms:
            for value in by_subject.get(term, NO_TERMS):
                found[term, predicate, value] = None
            if predicate != RDF_TYPE:
                for subject in islice(by_object.get(term, NO_TERMS), _MAX_EDGES):
                    found[subject, predicate, term] = None
            if len(found) > _MAX_TRIPLES:
                return list(found)
    return [triple for triple in found if not _is_schema(triple) and not index.is_hidden(triple[1])]


def _leading(seeds: set[Term], schema: list[Triple]) -> list[Triple]:
    """The schema triples connected with some terms, the nearest first; all of a small schema."""
    if len(schema) <= _MAX_TRIPLES:
        return schema
    by_term: dict[Term, list[Triple]] = {}
    for triple in schema:
        for term in {triple[0], triple[2]}:
            by_term.setdefault(term, []).append(triple)
    found: dict[Triple, None] = {}
    reached, frontier = set(seeds), list(seeds)
    while frontier and len(found) < _MAX_TRIPLES:
        further: list[Term] = []
        for term in frontier:
            for triple in by_term.get(term, ()):
                found[triple] = None
                for end in (triple[0], triple[2]):
                    if end not in reached and not end.startswith((f"<{OWL}", f"<{RDFS}")):
                        reached.add(end)
                        further.append(end)
        frontier = further
    return list(found)[:_MAX_TRIPLES]


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
    return [*program.own_datalog]
