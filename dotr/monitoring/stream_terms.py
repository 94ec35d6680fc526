"""Predicates and classes that elements bring, and those that a rule waits for in vain.

Idea: a rule whose anchor never has a fact is most often misspelt, or reads another form of the
data. The query of its anchor, and the Datalog rules under it, name terms; some of these neither the
background nor an element has.
Cost: about 40 ns a triple while an anchor waits for a term that no element has brought yet, then
nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Final, assert_never

from dotr.datalog.entailment import Entailment
from dotr.engine.program import CompiledProgram
from dotr.model.algebra import (
    Alternative,
    Bgp,
    BgpItem,
    Const,
    Extend,
    Filter,
    Group,
    Inverse,
    Join,
    LeftJoin,
    Link,
    MatchPattern,
    Minus,
    Negated,
    Path,
    PathPattern,
    Pattern,
    Repeat,
    Select,
    TermPattern,
    TriplePattern,
    Union,
    Values,
    WindowBlock,
)
from dotr.model.algebra import Sequence as PathSequence
from dotr.model.datalog import DatalogRule
from dotr.model.stream import Element
from dotr.model.terms import RDF_TYPE, Term, is_iri

MOST_TERMS: Final = 1_000
"""The number of predicates and classes that are noted."""

_RDFS: Final = "<http://www.w3.org/2000/01/rdf-schema#"
_OWL: Final = "<http://www.w3.org/2002/07/owl#"
_FORWARD: Final = (f"{_RDFS}subPropertyOf>", f"{_RDFS}subClassOf>", f"{_RDFS}domain>", f"{_RDFS}range>")
"""Predicates `p` of the schema by which `x p y` gives triples of `y` from triples of `x`."""

_BOTH_WAYS: Final = (f"{_OWL}equivalentProperty>", f"{_OWL}equivalentClass>", f"{_OWL}inverseOf>")
"""Predicates of the schema that give triples of each side from triples of the other."""


class StreamTerms:
    """Recorder of the predicates and classes of elements.

    `wanted` are the terms that anchors wait for; once all of them have been seen there is nothing
    to tell, and `note` need not be called any more.
    """

    def __init__(self, wanted: Iterable[Term]) -> None:
        self.wanted = set(wanted)
        self.terms: set[Term] = set()

    def note(self, elements: Iterable[Element]) -> None:
        """Note the terms of the elements of an instant.

        >>> noted = StreamTerms(["<q>"])
        >>> noted.note([Element(0, (("<s>", "<p>", '"1"'), ("<s>", RDF_TYPE, "<C>")))])
        >>> sorted(noted.terms), noted.wanted
        (['<C>', '<p>'], {'<q>'})
        """
        terms = self.terms
        for _, triples in elements:
            for _, predicate, value in triples:
                term = value if predicate == RDF_TYPE else predicate
                if term not in terms and is_iri(term):
                    terms.add(term)
                    self.wanted.discard(term)
        if len(terms) >= MOST_TERMS:
            self.wanted.clear()


@dataclass(frozen=True, slots=True)
class _Derivation:
    """Terms of which triples are derived, from triples of all of some others."""

    heads: tuple[Term, ...]
    body: tuple[Term, ...]


class TermDependencies:
    """The terms that the queries of anchors need, and the derivations that give them.

    Of 2,000 Datalog rules the heads are looked at once, and bodies where their heads are needed.
    """

    def __init__(self, program: CompiledProgram) -> None:
        self._background = program.knowledge.background
        self._rules = program.own_datalog
        self._derives_all = False
        self._by_head: dict[Term, list[DatalogRule | _Derivation]] = {}
        for rule in self._rules:
            for pattern in rule.head:
                head = term_of(pattern)
                if head is None:
                    self._derives_all = True
                else:
                    self._by_head.setdefault(head, []).append(rule)
        self._schema = list(self._of_schema()) if program.spec.entailment is not Entailment.NONE else []
        for derivation in self._schema:
            for head in derivation.heads:
                self._by_head.setdefault(head, []).append(derivation)

    def _derivations_of(self, head: Term) -> list[_Derivation]:
        """The derivations that give triples of a term."""
        return [_derivation(each) if isinstance(each, DatalogRule) else each for each in self._by_head.get(head, ())]

    def _of_schema(self) -> Iterator[_Derivation]:
        """The derivations that the schema of the background gives, one for each axiom."""
        for predicate in (*_FORWARD, *_BOTH_WAYS):
            for subject, values in self._background.by_subject.get(predicate, {}).items():
                for value in values:
                    yield _Derivation((value,), (subject,))
                    if predicate in _BOTH_WAYS:
                        yield _Derivation((subject,), (value,))

    def known(self, term: Term) -> bool:
        """True if the background has a triple of this predicate or class."""
        background = self._background
        return bool(background.by_subject.get(term)) or bool(background.by_object.get(RDF_TYPE, {}).get(term))

    def wanted(self, queries: Iterable[Select]) -> set[Term]:
        """The terms that queries need, directly or by derivations, and the background lacks."""
        if self._derives_all:
            return set()
        found: set[Term] = set()
        pending = [term for query in queries for term in _terms_in(query)]
        while pending:
            term = pending.pop()
            if term not in found and not self.known(term):
                found.add(term)
                pending += [each for derivation in self._derivations_of(term) for each in derivation.body]
        return found

    def missing(self, query: Select, brought: frozenset[Term]) -> list[Term]:
        """The terms without which a query has no answer, none of them brought by an element; empty
        where the terms do not explain it.
        """
        if self._derives_all:
            return []
        available = self._closed(brought)
        lacking = _lacking(query, lambda term: term in available or self.known(term))
        found: dict[Term, None] = {}
        self._add_leaves(sorted(lacking), available, found, set())
        return sorted(found)

    def _unavailable(self, body: Iterable[Term], available: set[Term]) -> list[Term]:
        return [term for term in body if term not in available and not self.known(term)]

    def _closed(self, brought: frozenset[Term]) -> set[Term]:
        """The terms of which there may be triples, by what elements bring and what follows."""
        available = set(brought)
        derivations = [*map(_derivation, self._rules), *self._schema]
        grows = True
        while grows:
            grows = False
            for derivation in derivations:
                if all(term in available or self.known(term) for term in derivation.body):
                    new = [head for head in derivation.heads if head not in available]
                    available.update(new)
                    grows = grows or bool(new)
        return available

    def _add_leaves(self, lacking: Iterable[Term], available: set[Term], found: dict[Term, None], visited: set[Term]) -> None:
        """Add the terms that no derivation gives, below the terms that are lacking."""
        for term in lacking:
            if term in visited:
                continue
            visited.add(term)
            bodies = [self._unavailable(derivation.body, available) for derivation in self._derivations_of(term)]
            if bodies:
                fewest = min(bodies, key=lambda body: len(body))
                self._add_leaves(fewest, available, found, visited)
            else:
                found[term] = None


def _derivation(rule: DatalogRule) -> _Derivation:
    body = [term_of(item) for item in rule.body if isinstance(item, TriplePattern)]
    return _Derivation(tuple(filter(None, map(term_of, rule.head))), tuple(filter(None, body)))


def anchor_queries(program: CompiledProgram) -> dict[str, Select]:
    """The query of the anchor of each rule, by its name; none of anchors that are events or ticks."""
    found = {}
    for layer in program.layout.layers:
        for placed in layer.rules:
            stream = layer.ports[placed.ports[0]].stream
            if isinstance(stream, int) and program.layout.streams[stream].period is None:
                found[placed.rule.name] = program.layout.streams[stream].query
    return found


def stream_terms(program: CompiledProgram) -> StreamTerms:
    """A recorder of the terms that the anchors of a program's rules wait for."""
    queries = dict.fromkeys(anchor_queries(program).values())
    return StreamTerms(TermDependencies(program).wanted(queries))


def term_of(pattern: TriplePattern) -> Term | None:
    """The class of a type pattern, else the predicate; None where it is a variable.

    >>> from dotr.model.algebra import Var
    >>> term_of(TriplePattern(Var("s"), Const(RDF_TYPE), Const("<C>"))), term_of(TriplePattern(Var("s"), Var("p"), Var("o")))
    ('<C>', None)
    """
    match pattern:
        case TriplePattern(_, Const(predicate), Const(value)) if predicate == RDF_TYPE:
            return value
        case TriplePattern(_, Const(predicate), _) if predicate != RDF_TYPE:
            return predicate
        case _:
            return None


def _terms_in(pattern: Pattern) -> Iterator[Term]:
    """The terms that a pattern may need, in every branch of it."""
    seen: set[Term] = set()

    def available(term: Term) -> bool:
        seen.add(term)
        return False

    _lacking(pattern, available)
    yield from seen


def _lacking(pattern: Pattern, available: Callable[[Term], bool]) -> frozenset[Term]:
    """The terms without which a pattern has no solution, of those that are not available; empty
    where it may have one.
    """
    match pattern:
        case Bgp(items):
            return frozenset().union(*[_lacking_item(item, available) for item in items])
        case Join(left, right):
            return _lacking(left, available) | _lacking(right, available)
        case Union(left, right):
            one, other = _lacking(left, available), _lacking(right, available)
            return one | other if one and other else frozenset()
        case LeftJoin(left, _, _) | Minus(left, _):
            return _lacking(left, available)
        case Group(inner, keys, _):
            return _lacking(inner, available) if keys else frozenset()
        case Filter(inner, _) | Extend(inner, _, _) | Select(_, inner) | WindowBlock(_, inner):
            return _lacking(inner, available)
        case Values() | MatchPattern():
            return frozenset()
        case _:
            assert_never(pattern)


def _lacking_item(item: BgpItem, available: Callable[[Term], bool]) -> frozenset[Term]:
    match item:
        case TriplePattern():
            term = term_of(item)
            return frozenset() if term is None or available(term) else frozenset((term,))
        case PathPattern(_, path, _):
            return _lacking_path(path, available)
        case TermPattern():
            return frozenset()
        case _:
            assert_never(item)


def _lacking_path(path: Path, available: Callable[[Term], bool]) -> frozenset[Term]:
    match path:
        case Link(predicate):
            return frozenset() if predicate == RDF_TYPE or available(predicate) else frozenset((predicate,))
        case Inverse(inner):
            return _lacking_path(inner, available)
        case PathSequence(left, right):
            return _lacking_path(left, available) | _lacking_path(right, available)
        case Alternative(left, right):
            one, other = _lacking_path(left, available), _lacking_path(right, available)
            return one | other if one and other else frozenset()
        case Repeat(inner, least, _):
            return _lacking_path(inner, available) if least else frozenset()
        case Negated():
            return frozenset()
        case _:
            assert_never(path)
