"""Reasons for which Datalog rules do not derive a triple that matches a pattern.

Idea: a head is unified with the pattern and a partial answer. The body is then joined like a query
(`dotr.explanations.missing.partial_joins`); the first item that leaves no row is the reason. Rules
whose heads unify with a missing atom are explained in the same way, to a bounded depth.
Cost: one query for each atom of a body, for at most 20 partial answers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Final, assert_never

from dotr.evaluation.limits import LimitExceeded
from dotr.evaluation.triples.index import TripleIndex
from dotr.explanations.evidence.rule_matches import instance
from dotr.explanations.missing.partial_joins import ClosedGraph, PatternSolver, join_greedily, substituted
from dotr.explanations.missing.vocabulary import StreamVocabulary
from dotr.explanations.text.narrative import Narrative, NarrativePart
from dotr.explanations.text.pattern_text import atom_text, body_item_text, failed_condition_text, name_bound_blanks
from dotr.explanations.text.tree import first_of
from dotr.instant.queries.evaluate import AlgebraCompiler
from dotr.instant.queries.matching import Solution, matches
from dotr.instant.queries.operators import EMPTY, are_compatible
from dotr.instant.queries.solution_expressions import CompiledExpression
from dotr.model import dataclass
from dotr.model.algebra import Bgp, Call, Const, Expression, Extend, Filter, Group, Pattern, Slot, TriplePattern, Var, slots_of
from dotr.model.datalog import Bind, BodyItem, DatalogRule, FilterItem, GroupAggregate, Not
from dotr.model.terms import RDF_TYPE, TRUE, Term, Triple, Variable
from dotr.model.traverse import free_variables
from dotr.syntax.rendering import TermWriter, brief_text

_MAX_NAMES: Final = 5
MAX_ROWS: Final = 20
"""Maximum number of partial answers for which a rule is explained."""
_MAX_RULES: Final = 5
_MAX_DEPTH: Final = 3


@dataclass(frozen=True, slots=True)
class UnfulfilledRule:
    """A Datalog rule whose head matches a missing triple, and whose body does not hold.

    - `rule`: its file and line.
    - `head`: the head that matches, as in a Datalog file.
    - `held`: the atoms of the body that hold, with their terms, and whether each is given, derived
      or known.
    - `lacks`: the first item that does not hold, and the nearest triples that do.
    - `further`: the rules whose heads match that item, and whose bodies do not hold.
    - `premises`: the atoms that hold, as triples.
    - `missing`: the atom that does not hold; None if the item is no atom.
    """

    rule: str
    head: str
    held: tuple[str, ...]
    lacks: str
    further: tuple[UnfulfilledRule, ...] = ()
    premises: tuple[Triple, ...] = ()
    missing: TriplePattern | None = None

    @property
    def told(self) -> Narrative:
        """The explanation, with the rules for a missing atom below it."""
        held = f"{', '.join(self.held)}; " if self.held else ""
        further = tuple([each.told for each in self.further])
        parts: dict[str, NarrativePart] = {"rule": self.rule, "head": self.head, "held": self.held, "lacks": self.lacks, "rules": further}
        return Narrative(f"{self.rule} gives {self.head}: {held}{self.lacks}", further, parts)


class UnfulfilledRules:
    """Explanations of rules over one closed instant.

    Args:
        rules: the Datalog rules of the program; rows of a rule set are left out.
        closed: the instant.
        given: the triples of the instant's elements.
        vocabulary: the predicates and classes of all elements.
        writer: the writer of the explanation. With terms of variables, which are asked about, no
            triples of other subjects are shown.
    """

    def __init__(
        self, rules: Iterable[DatalogRule], closed: ClosedGraph, given: Iterable[Triple], vocabulary: StreamVocabulary, writer: TermWriter
    ) -> None:
        self._rules = [rule for rule in rules if not rule.of_rule_set and rule.body]
        self._closed = closed
        self._given = frozenset(given)
        self._vocabulary = vocabulary
        self._writer = writer
        self._solver = PatternSolver()

    @property
    def background(self) -> TripleIndex:
        """The background at the instant."""
        return self._closed.background

    def of_pattern(self, pattern: TriplePattern, rows: Sequence[Mapping[Variable, Term]]) -> tuple[UnfulfilledRule, ...]:
        """The failures of the rules whose heads match a pattern.

        Each rule is explained for the partial answer of `rows` for which most items of its body
        hold. The rules with the most such items are first.
        """
        return self._failures(pattern, rows, frozenset())

    def _failures(
        self, pattern: TriplePattern, rows: Sequence[Mapping[Variable, Term]], ancestors: frozenset[tuple[str, str]]
    ) -> tuple[UnfulfilledRule, ...]:
        if len(ancestors) >= _MAX_DEPTH:
            return ()
        found: list[tuple[int, UnfulfilledRule]] = []
        if not isinstance(pattern.predicate, Const):
            return ()
        for rule in self._rules:
            for head in rule.head:
                bindings = list(head_bindings(head, pattern, rows[:MAX_ROWS]))
                attempts = [self._attempt(rule, bound) for bound in bindings]
                if not attempts or None in attempts:
                    continue
                best = max((each for each in attempts if each is not None), key=lambda each: each.passed)
                if self._writer.terms and best.held and not _have_a_term(best.held, bindings):
                    continue  # premises about other entities than the one asked about
                text = atom_text(head, self._writer)
                key = (rule.name, best.lacks)
                if key not in ancestors:
                    further = () if best.atom is None else self._failures(best.atom, [EMPTY], ancestors | {key})
                    held = tuple(self.held_text(each) for each in best.held)
                    found.append((best.passed, UnfulfilledRule(rule.name, text, held, best.lacks, further, best.held, best.atom)))
        found.sort(key=lambda each: -each[0])
        return tuple(failure for _, failure in found[:_MAX_RULES])

    def held_text(self, triple: Triple) -> str:
        """`:p(:a, :b) is given`, or derived, or known from the background."""
        origin = "given" if triple in self._given else "derived" if triple in self._closed.delta else "known"
        subject, predicate, value = (Const(term) for term in triple)
        return f"{atom_text(TriplePattern(subject, predicate, value), self._writer)} is {origin}"

    def _attempt(self, rule: DatalogRule, bound: Mapping[Variable, Term]) -> _Attempt | None:
        """The first item of a body that fails under bindings of its head; None if all items
        hold."""
        atoms = [(item, substituted(item, bound)) for item in rule.body if isinstance(item, TriplePattern)]
        try:
            joined, rows, missing = join_greedily([atom for _, atom in atoms], self._closed, self._solver)
        except LimitExceeded as error:
            return _Attempt(0, (), f"the body goes over a limit: {error}")
        row = {**bound, **rows[0]}
        for atom, _ in atoms:
            name_bound_blanks(slots_of(atom), row, self._writer)
        held = tuple(filter(None, (instance(atom, row) for atom in joined if isinstance(atom, TriplePattern))))
        lacking = next((each for each in missing if isinstance(each, TriplePattern)), None)
        if lacking is not None:
            atom = substituted(lacking, row)
            return _Attempt(len(joined), held, self.lacking_atom(atom), atom)
        return self._attempt_rest(rule.body, [{**bound, **each} for each in rows], held)

    def _attempt_rest(self, body: Sequence[BodyItem], rows: list[Solution], held: tuple[Triple, ...]) -> _Attempt | None:
        """The first item other than an atom that fails over the rows of the atoms; None: all
        hold."""
        passed = len(held)
        rest = [item for item in body if not isinstance(item, TriplePattern)]
        for kind in (GroupAggregate, Bind, FilterItem, Not):
            waiting = [item for item in rest if isinstance(item, kind)]
            produced = {item.variable for item in waiting if isinstance(item, Bind)}
            while waiting:
                item = next((each for each in waiting if not isinstance(each, Bind) or is_ready(each, rows, produced)), waiting[0])
                waiting.remove(item)
                left = self.after(item, rows)
                if not left:
                    return _Attempt(passed, held, self.lacking_item(item, rows))
                rows, passed = left, passed + 1
        return None

    def named_instance(self, atom: TriplePattern, row: Mapping[Variable, Term]) -> Triple | None:
        """The triple of an atom, whose blank nodes are named after the variables of the atom."""
        name_bound_blanks(slots_of(atom), row, self._writer)
        return instance(atom, row)

    def after(self, item: BodyItem, rows: list[Solution]) -> list[Solution]:
        """The rows that satisfy an item, extended by the variables that it binds."""
        graph = self._closed.graph()
        match item:
            case TriplePattern():
                return [{**row, **found} for row in rows for found in matches(graph, (item,), row, EMPTY)]
            case GroupAggregate():
                groups = self._solver.solutions(_group_pattern(item), self._closed)
                names = {*item.keys, *(name for name, _ in item.results)}
                groups = [group for group in groups if names <= group.keys()]
                return [{**row, **group} for row in rows for group in groups if are_compatible(row, group)]
            case Bind(expression, variable):
                computed = _compiled(expression)
                values = [(row, computed.evaluate(graph, row, EMPTY)) for row in rows]
                return [{**row, variable: value} for row, value in values if value is not None and row.get(variable, value) == value]
            case FilterItem(condition):
                test = _compiled(Call("!", (Call("!", (condition,)),)))
                return [row for row in rows if test.evaluate(graph, row, EMPTY) == TRUE]
            case Not(atoms):
                return [row for row in rows if next(matches(self._closed.graph(), atoms, row, EMPTY), None) is None]
            case _:
                assert_never(item)

    def lacking_item(self, item: BodyItem, rows: list[Solution]) -> str:
        """The text for an item that no row satisfies."""
        match item:
            case TriplePattern():
                return self.lacking_atom(substituted(item, rows[0]))
            case FilterItem(condition):
                value = _compiled(Call("!", (Call("!", (condition,)),))).evaluate(self._closed.graph(), rows[0], EMPTY)
                return failed_condition_text(condition, rows, value is None, self._writer, "FILTER")
            case Bind(expression, variable):
                value = _compiled(expression).evaluate(self._closed.graph(), rows[0], EMPTY)
                text = body_item_text(item, self._writer)
                if value is None:
                    reason = failed_condition_text(expression, rows, True, self._writer)
                    return text + reason.removeprefix(brief_text(expression, self._writer.prefixes))
                return f"{text} is {self._writer.text(value)}, not {self._writer.text(rows[0][variable])}"
            case Not(atoms):
                row = rows[0]
                match_ = next(matches(self._closed.graph(), atoms, row, EMPTY))
                there = filter(None, (instance(atom, {**row, **match_}) for atom in atoms))
                held = ", ".join(map(self.held_text, there))
                return f"{body_item_text(item, self._writer, row)} is false: {held}"
            case GroupAggregate():
                return f"{body_item_text(item, self._writer)} has no group"
            case _:
                assert_never(item)

    def lacking_atom(self, atom: TriplePattern) -> str:
        """The text for an atom that nothing matches, with the terms that its predicate does
        have."""
        writer = self._writer
        text = atom_text(atom, writer)
        if not isinstance(atom.predicate, Const):
            return f"nothing is {text}"
        predicate = atom.predicate.term
        subject = atom.subject.term if isinstance(atom.subject, Const) else None
        value = atom.object.term if isinstance(atom.object, Const) else None
        start = f"{text} does not hold" if subject is not None and value is not None else f"nothing is {text}"
        is_class = predicate == RDF_TYPE
        if is_class and value is not None and subject is not None and (types := self._objects(subject, predicate)):
            return f"{start}: {writer.text(subject)} is a {self._listed(types)}"
        if subject is not None and value is not None and not is_class and (values := self._objects(subject, predicate)):
            return f"{start}: {writer.text(subject)} has {self._listed(values)}"
        if subject is not None and (subjects := self._subjects(predicate, value if is_class else None)):
            return f"{start}: it is known of {self._listed(subjects)}"
        if subject is None and value is not None and not is_class and (values := self._values(predicate)):
            return f"{start}: known values are {self._listed(values)}"
        return start + self._vocabulary.near_miss(predicate, value, self._closed.background, writer, before=": ")

    def known_of(self, predicate: Term, subject: Slot, value: Slot, rows: Sequence[Mapping[Variable, Term]]) -> str:
        """`:floor is known of :attic, :cellar` for a pattern that no row matches; empty if no
        triple has its predicate.
        """
        name = self._writer.predicate(predicate)
        if isinstance(value, Const) and not isinstance(subject, Const):
            there = dict.fromkeys(o for row in rows[:MAX_ROWS] if subject.name in row for o in self._objects(row[subject.name], predicate))
            if there:
                return f"{name} is {self._listed(list(there))}"
        row = rows[0] if rows else EMPTY
        term = subject.term if isinstance(subject, Const) else row.get(subject.name)
        if term is not None and (values := self._objects(term, predicate)):
            return f"{self._writer.text(term)} has {name} {self._listed(values)}"
        if term is None and (isinstance(value, Const) or value.name in row) and (values := self._values(predicate)):
            return f"{name} is {self._listed(values)}"
        subjects = self._subjects(predicate, None)
        return f"{name} is known of {self._listed(subjects)}" if subjects else ""

    def _listed(self, terms: Sequence[Term]) -> str:
        return first_of([*map(self._writer.text, terms)], _MAX_NAMES)

    def _objects(self, subject: Term, predicate: Term) -> list[Term]:
        return _few(triple[2] for triple in self._closed.graph().match(subject, predicate, None))

    def _subjects(self, predicate: Term, value: Term | None) -> list[Term]:
        if self._writer.terms:
            return []
        return _few(triple[0] for triple in self._closed.graph().match(None, predicate, value))

    def _values(self, predicate: Term) -> list[Term]:
        if self._writer.terms:
            return []
        return _few(triple[2] for triple in self._closed.graph().match(None, predicate, None))


@dataclass(frozen=True, slots=True)
class _Attempt:
    """A body under bindings: the number of items that hold, and the first item that fails."""

    passed: int
    held: tuple[Triple, ...]
    lacks: str
    atom: TriplePattern | None = None


def _have_a_term(triples: Iterable[Triple], bindings: Iterable[Mapping[Variable, Term]]) -> bool:
    """True if a triple has a term of a binding."""
    terms = {term for bound in bindings for term in bound.values()}
    return any(not terms.isdisjoint(triple) for triple in triples)


def _few(terms: Iterable[Term]) -> list[Term]:
    """The first distinct terms, up to one more than are shown."""
    found: dict[Term, None] = {}
    for term in islice(terms, 10_000):
        found[term] = None
        if len(found) > _MAX_NAMES:
            break
    return list(found)


def head_bindings(head: TriplePattern, pattern: TriplePattern, rows: Sequence[Mapping[Variable, Term]]) -> Iterator[dict[Variable, Term]]:
    """The bindings of a head that unify it with a pattern, one for each partial answer that permits
    it.
    """
    for row in rows:
        bound: dict[Variable, Term] = {}
        for head_slot, slot in zip(slots_of(head), slots_of(pattern), strict=True):
            term = slot.term if isinstance(slot, Const) else row.get(slot.name)
            if term is not None and (head_slot.term if isinstance(head_slot, Const) else bound.setdefault(head_slot.name, term)) != term:
                break
        else:
            yield bound


def _compiled(expression: Expression) -> CompiledExpression:
    return CompiledExpression(expression, AlgebraCompiler().compile_exists)


def is_ready(bind: Bind, rows: list[Solution], produced: set[Variable]) -> bool:
    """True if no pending BIND produces a variable of the expression."""
    return all(name in rows[0] or name not in produced for name in free_variables(bind.expression))


def _group_pattern(item: GroupAggregate) -> Pattern:
    pattern: Pattern = Bgp(tuple(each for each in item.body if isinstance(each, TriplePattern)))
    conditions: list[Expression] = []
    for each in item.body:
        match each:
            case Bind(expression, variable):
                pattern = Extend(pattern, variable, expression)
                conditions.append(Call("BOUND", (Var(variable),)))
            case FilterItem(condition):
                conditions.append(condition)
            case _:
                pass
    if conditions:
        pattern = Filter(pattern, tuple(conditions))
    return Group(pattern, tuple((key, Var(key)) for key in item.keys), item.results)
