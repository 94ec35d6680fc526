"""Proofs of the triples of an instant: one each, least in height, then by the tie order.

Idea: the closure of a run keeps no reasons, so the instant is closed again in rounds
(`dotr.explanations.evidence.rounds`). A proof ends at triples of elements, which have a file and a
line, and at triples of the closed background, whose origin
`dotr.explanations.evidence.background_origins` finds. Hidden relations of a rule set are no triples
of a graph: a premise with a hidden predicate is replaced by the premises that derive it.

Cost: one closure in rounds for each requested instant.

A fact is proved by a solution of its query: the operators of the SELECT return the solutions over
the closed instant with the fact's attributes bound, each with its evidence
(`dotr.instant.queries.evidence`). Of the solutions for the fact, that with the triples of least
height is kept, then the first in the tie order. Cost: that of the query with bound attributes;
sub-queries with LIMIT are evaluated in full.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import islice
from typing import Final, NamedTuple, TypeAlias, assert_never

from dotr.engine.program import CompiledProgram
from dotr.engine.replay import ElementPlace, ReplayedInstant, StatedPlace
from dotr.evaluation.limits import BOUNDS
from dotr.evaluation.triples.generalised import as_told
from dotr.evaluation.triples.index import is_hidden
from dotr.explanations.evidence.rounds import RoundsClosure, close_in_rounds
from dotr.explanations.evidence.rule_matches import Bindings, ProvingRules, RuleMatch, background_rules, instance
from dotr.instant.datalog.closure.lower_strata import LowerModel, matches
from dotr.instant.instants import merge
from dotr.instant.queries.evaluate import AlgebraCompiler
from dotr.instant.queries.evidence import ComputedTerm, Evidence, HeldFilter, terms_of, used_triples
from dotr.instant.queries.graph import Graph
from dotr.instant.queries.operators import EMPTY
from dotr.model import dataclass
from dotr.model.algebra import AggregateCall, Const, Select, Slot, TriplePattern
from dotr.model.datalog import Bind, DatalogRule, FilterItem, GroupAggregate, Not
from dotr.model.stream import Instant
from dotr.model.terms import Term, Triple, Variable
from dotr.model.traverse import free_variables

# --- proofs ---


@dataclass(frozen=True, slots=True, eq=False)
class StatedTriple:
    """A triple of an element."""

    triple: Triple
    place: StatedPlace


@dataclass(frozen=True, slots=True, eq=False)
class BackgroundTriple:
    """A triple of the closed background, stated there or derived."""

    triple: Triple


@dataclass(frozen=True, slots=True, eq=False)
class DerivedTriple:
    """A triple that a rule derives at the instant.

    - `premises`: the proofs of the visible triples that the rule's atoms match, in their order.
    - `conditions`: the other items of the rule's body, with their values.
    """

    triple: Triple
    rule: DatalogRule
    premises: tuple[TripleProof, ...]
    conditions: tuple[RuleCondition, ...] = ()


TripleProof: TypeAlias = StatedTriple | BackgroundTriple | DerivedTriple


def parts_of_proofs(proofs: Iterable[TripleProof]) -> Iterator[TripleProof]:
    """Some proofs and, transitively, the proofs of their premises, each once, in no defined
    order."""
    seen: set[int] = set()
    pending = list(proofs)
    while pending:
        proof = pending.pop()
        if id(proof) not in seen:
            seen.add(id(proof))
            yield proof
            if isinstance(proof, DerivedTriple):
                pending += proof.premises


@dataclass(frozen=True, slots=True, eq=False)
class ContradictionProof:
    """A match of a rule that concludes `false`."""

    rule: DatalogRule
    premises: tuple[TripleProof, ...]
    conditions: tuple[RuleCondition, ...] = ()


class UnmatchedAtoms(NamedTuple):
    """A NOT without a match: its atoms, with bound variables replaced by their terms."""

    atoms: tuple[TriplePattern, ...]


class AggregatedGroup(NamedTuple):
    """A group of an AGGREGATE.

    - `keys`: the terms that all members share.
    - `results`: each variable with its call and its term.
    - `members`: the triples of each member, in the tie order.
    """

    keys: Bindings
    results: tuple[tuple[Variable, AggregateCall, Term], ...]
    members: tuple[tuple[Triple, ...], ...]


RuleCondition: TypeAlias = HeldFilter | ComputedTerm | UnmatchedAtoms | AggregatedGroup


# --- the instant ---


class DerivedFrom(NamedTuple):
    """A derived triple, the rule of its last step and its height."""

    triple: Triple
    rule: DatalogRule
    height: int


@dataclass(frozen=True, eq=False)
class InstantProofs:
    """Proofs of the triples of an instant.

    Args:
        program: the program that closes the instant.
        replayed: the instant before stage one, with the places of its elements.
        rules: the rules of the program's background (`program_rules`), which several instants of a
            program share.

    Raises `LimitExceeded` at the first use if the closure exceeds a limit.
    """

    program: CompiledProgram
    replayed: ReplayedInstant
    rules: ProvingRules

    @cached_property
    def instant(self) -> Instant:
        """The merge of the elements, with blank nodes as a run names them."""
        return merge(self.replayed.time, self.replayed.graphs)

    @cached_property
    def places(self) -> dict[Triple, ElementPlace]:
        """The first element that states each triple."""
        places: dict[Triple, ElementPlace] = {}
        triples = iter(self.instant.triples)
        for graph, place in zip(self.replayed.graphs, self.replayed.places, strict=True):
            for _ in graph:
                places.setdefault(next(triples), place)
        return places

    @cached_property
    def closed(self) -> RoundsClosure:
        """The instant closed in rounds."""
        BOUNDS.start(self.program.spec.limits.literal, self.program.spec.limits.text)
        knowledge, stated = self.program.knowledge, self.instant.triples
        closure = knowledge.close(stated)
        models = knowledge.lower_models(stated)
        return close_in_rounds(self.rules, closure.background, stated, models, closure.delta)

    def holds(self, triple: Triple) -> bool:
        """True for a triple of the closed instant or of the background."""
        return triple in self.closed.delta.triples or triple in self.closed.background.triples

    def derived(self) -> Iterator[DerivedFrom]:
        """The visible triples that rules derive at the instant, by height, then in tie order."""
        closed = self.closed
        for triple, match in closed.derivations.items():
            if not is_hidden(triple[1]):
                yield DerivedFrom(triple, match.rule.rule, closed.heights[triple])

    def stated(self) -> Iterator[tuple[Triple, ElementPlace]]:
        """The triples of the elements with their places, each once."""
        yield from self.places.items()

    def proof(self, triple: Triple) -> TripleProof | None:
        """The proof of a triple; None if it does not hold at the instant.

        A stated triple is a `StatedTriple`, also if the background has it. Proofs share the objects
        of equal parts.
        """
        return self._builder.proof(triple) if triple in self.places or self.holds(triple) else None

    def contradictions(self) -> list[ContradictionProof]:
        """The contradictions of the instant, those of least height first."""
        heights = self.closed.heights

        def height(match: RuleMatch) -> int:
            return max((heights.get(premise, 0) for premise in match.premises), default=0)

        found = sorted(self.closed.contradictions, key=lambda match: (height(match), match.tie_order))
        return [ContradictionProof(match.contradicted or match.rule.rule, *self._builder.parts(match)) for match in found]

    @cached_property
    def _builder(self) -> ProofBuilder:
        return ProofBuilder(self.closed, self.places)


def program_rules(program: CompiledProgram) -> ProvingRules:
    """The rules of a program's background: its Datalog, then the rows of its entailment regime."""
    return ProvingRules(background_rules(program.spec))


class ProofBuilder:
    """A builder of proofs from the derivations of a closure in rounds."""

    def __init__(self, closed: RoundsClosure, places: Mapping[Triple, StatedPlace]) -> None:
        self._closed = closed
        self._places = places
        self._built: dict[Triple, TripleProof] = {}

    def proof(self, triple: Triple) -> TripleProof:
        """The proof of a triple that holds. The traversal is iterative, since proofs may be
        high."""
        pending = [triple]
        while pending:
            each = pending[-1]
            missing = [premise for premise in self._premises(each) if premise not in self._built]
            if missing:
                pending += missing
            else:
                pending.pop()
                self._built[each] = self._built.get(each) or self._with_built_premises(each)
        return self._built[triple]

    def parts(self, match: RuleMatch) -> tuple[tuple[TripleProof, ...], tuple[RuleCondition, ...]]:
        """The proofs of a match's premises, and its other conditions."""
        premises, conditions = self._visible(match)
        return tuple(map(self.proof, premises)), conditions

    def _premises(self, triple: Triple) -> Sequence[Triple]:
        match = None if triple in self._places else self._closed.derivations.get(triple)
        return () if match is None else self._visible(match)[0]

    def _with_built_premises(self, triple: Triple) -> TripleProof:
        place = self._places.get(triple)
        if place is not None:
            return StatedTriple(triple, place)
        match = self._closed.derivations.get(triple)
        if match is None:
            return BackgroundTriple(as_told(triple) or triple)
        premises, conditions = self._visible(match)
        return DerivedTriple(as_told(triple) or triple, match.rule.rule, tuple(self._built[premise] for premise in premises), conditions)

    def _visible(self, match: RuleMatch) -> tuple[tuple[Triple, ...], tuple[RuleCondition, ...]]:
        """The premises of a match, and its conditions.

        A premise of an auxiliary relation is replaced by the premises that derive it. Conditions of
        rule sets, which only compare names and values, are left out.
        """
        premises: dict[Triple, None] = {}
        pending = list(reversed(match.premises))
        while pending:
            triple = pending.pop()
            if as_told(triple) is not None:
                premises[triple] = None
            elif (hidden := self._closed.derivations.get(triple)) is not None:
                pending += reversed(hidden.premises)
        conditions = () if match.rule.rule.of_rule_set else tuple(conditions_of(match, self._closed))
        return tuple(premises), conditions


def conditions_of(of: RuleMatch, closed: RoundsClosure) -> Iterator[RuleCondition]:
    """The conditions of a match beside its atoms, with their values, in the order of the body."""
    bindings = of.bindings
    for item in of.rule.rule.body:
        match item:
            case TriplePattern():
                pass
            case FilterItem(condition):
                yield HeldFilter(condition, terms_of(condition, bindings))
            case Bind(expression, variable):
                yield ComputedTerm(variable, expression, bindings[variable], terms_of(expression, bindings))
            case Not(body):
                yield UnmatchedAtoms(tuple(_instantiated(atom, bindings) for atom in body))
            case GroupAggregate(_, keys, results):
                group = {key: bindings[key] for key in keys}
                computed = tuple((name, call, bindings[name]) for name, call in results)
                yield AggregatedGroup(group, computed, tuple(_members(item, group, closed.delta.models[of.rule.stratum])))
            case _:
                assert_never(item)


def _instantiated(pattern: TriplePattern, bindings: Bindings) -> TriplePattern:
    def slot(each: Slot) -> Slot:
        return each if isinstance(each, Const) or each.name not in bindings else Const(bindings[each.name])

    return TriplePattern(slot(pattern.subject), slot(pattern.predicate), slot(pattern.object))


def _members(item: GroupAggregate, keys: Bindings, model: LowerModel) -> list[tuple[Triple, ...]]:
    """The triples of each member of a group, in the tie order."""
    atoms = [atom for atom in item.body if isinstance(atom, TriplePattern)]
    names = tuple(dict.fromkeys(name for atom in atoms for name in free_variables(atom)))
    rows = matches(item.body, tuple(keys), names)(model, *keys.values())
    members = []
    for row in rows:
        bindings = {name: term for name, term in zip(names, row, strict=True) if term is not None}
        members.append(tuple(triple for atom in atoms if (triple := instance(atom, bindings)) is not None))
    return sorted(members)


# --- facts ---

_MAX_SOLUTIONS: Final = 1_000
"""Maximum number of solutions that are compared for one fact."""

Height: TypeAlias = Callable[[Triple], int]


def prove_fact(select: Select, attributes: Mapping[Variable, Term], graph: Graph, height: Height) -> Evidence | None:
    """The evidence of the best solution for a fact; None if no solution has its attributes.

    Args:
        select: the query.
        attributes: the bound attributes of the fact; the others of the projection are unbound.
        graph: the closed instant.
        height: the height of the proof of a triple.

    >>> from dotr.model.algebra import Bgp, Var
    >>> from dotr.evaluation.triples.index import TripleIndex
    >>> at, inside = (TriplePattern(Var("x"), Const(p), Var(o)) for p, o in (("<at>", "y"), ("<in>", "z")))
    >>> graph = Graph(TripleIndex([("<a>", "<in>", "<r>")]), TripleIndex([("<a>", "<at>", "<d>")]))
    >>> [item.triple for item in prove_fact(Select(("x",), Bgp((at, inside))), {"x": "<a>"}, graph, lambda triple: 0)]
    [('<a>', '<at>', '<d>'), ('<a>', '<in>', '<r>')]
    """

    def order(evidence: Evidence) -> tuple[int, list[Triple]]:
        triples = list(used_triples(evidence))
        return max(map(height, triples), default=0), triples

    return prove_solution(select, attributes, graph, order)


def prove_solution(
    select: Select, attributes: Mapping[Variable, Term], graph: Graph, order: Callable[[Evidence], tuple[int, Sequence[object]]]
) -> Evidence | None:
    """The evidence of the solution with these attributes that is first in an order.

    Args:
        select: the query.
        attributes: the bound attributes; the others of the projection are unbound.
        graph: the graph.
        order: the sort key of a solution's evidence.

    Returns:
        None if no solution has these attributes.
    """
    operator = AlgebraCompiler().compile(select)

    def proofs(given: Mapping[Variable, Term]) -> list[Evidence]:
        found = islice(operator.traced(graph, given, EMPTY), _MAX_SOLUTIONS)
        return [evidence for solution, evidence in found if solution == attributes]

    # With its end bound, a path of length 0 from a constant that is no node of the graph has no solution: evaluate it unbound.
    return min(proofs(attributes) or proofs({}), key=order, default=None)
