"""Predicates and classes of elements, and those that an anchor needs and no element has; known
objects of predicates.

Idea: a rule whose anchor never has a fact is most often misspelt, or written for another form of
the data. The query of its anchor and the Datalog rules that it depends on name terms; a message
lists those that occur neither in the background nor in an element.
Cost: about 40 ns a triple until every needed term has occurred, then nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Final, assert_never

from dotr.engine.program import CompiledProgram
from dotr.instant.datalog.entailment import Entailment
from dotr.model import dataclass
from dotr.model.algebra import (
    Alternative,
    Bgp,
    BgpItem,
    Const,
    Inverse,
    Link,
    Negated,
    Path,
    PathPattern,
    Pattern,
    Repeat,
    Select,
    TermPattern,
    TriplePattern,
    Union,
)
from dotr.model.algebra import Sequence as PathSequence
from dotr.model.datalog import DatalogRule
from dotr.model.stream import Element
from dotr.model.terms import RDF_TYPE, Term, is_iri
from dotr.model.traverse import required_parts

if TYPE_CHECKING:
    from dotr.evaluation.expressions.kinds import TermKind

MOST_TERMS: Final = 1_000
"""Limit of the noted predicates and classes."""

_RDFS: Final = "<http://www.w3.org/2000/01/rdf-schema#"
_OWL: Final = "<http://www.w3.org/2002/07/owl#"
_FORWARD: Final = (f"{_RDFS}subPropertyOf>", f"{_RDFS}subClassOf>", f"{_RDFS}domain>", f"{_RDFS}range>")
"""Predicates `p` of the schema: an axiom `x p y` derives triples of `y` from triples of `x`."""

_BOTH_WAYS: Final = (f"{_OWL}equivalentProperty>", f"{_OWL}equivalentClass>", f"{_OWL}inverseOf>")
"""Predicates of the schema whose axioms derive triples of each side from triples of the other."""


class StreamTerms:
    """Recorder of the predicates and classes of elements.

    `wanted` are the terms that anchors need and that have not occurred yet. Once it is empty, or
    `MOST_TERMS` terms are noted, the caller may stop calling `note`.
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
class ObjectSource:
    """Source of a predicate's objects: their kind (None: unknown), the origin in words, and a
    remedy that types them."""

    predicate: Term
    kind: TermKind | None
    origin: str
    remedy: str = ""


@dataclass(frozen=True, slots=True)
class StreamObjects:
    """Known sources of objects in the streams of a program; `is_complete`: there are no others."""

    sources: tuple[ObjectSource, ...]
    is_complete: bool


@dataclass(frozen=True, slots=True)
class _Derivation:
    """Derivation of triples of the terms `heads` from triples of all terms of `body`."""

    heads: tuple[Term, ...]
    body: tuple[Term, ...]


class TermDependencies:
    """Dependencies between terms, by Datalog rules and the axioms of the schema.

    Rules are indexed by their heads; a body is read only where one of its heads is needed, since a
    program may have thousands of rules.
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
        self._schema = list(self._schema_derivations()) if program.spec.entailment is not Entailment.NONE else []
        for derivation in self._schema:
            for head in derivation.heads:
                self._by_head.setdefault(head, []).append(derivation)

    def _derivations_of(self, head: Term) -> list[_Derivation]:
        """The derivations of triples of a term."""
        return [_derivation(each) if isinstance(each, DatalogRule) else each for each in self._by_head.get(head, ())]

    def _schema_derivations(self) -> Iterator[_Derivation]:
        """The derivations by the axioms of the background's schema, one or two for each axiom."""
        for predicate in (*_FORWARD, *_BOTH_WAYS):
            for subject, values in self._background.by_subject.get(predicate, {}).items():
                for value in values:
                    yield _Derivation((value,), (subject,))
                    if predicate in _BOTH_WAYS:
                        yield _Derivation((subject,), (value,))

    def in_background(self, term: Term) -> bool:
        """True if the background has a triple of this predicate or class."""
        background = self._background
        return bool(background.by_subject.get(term)) or bool(background.by_object.get(RDF_TYPE, {}).get(term))

    def required(self, queries: Iterable[Select]) -> set[Term]:
        """The terms that queries need, directly or by derivations, and the background lacks."""
        if self._derives_all:
            return set()
        found: set[Term] = set()
        pending = [term for query in queries for term in _terms_in(query)]
        while pending:
            term = pending.pop()
            if term not in found and not self.in_background(term):
                found.add(term)
                pending += [each for derivation in self._derivations_of(term) for each in derivation.body]
        return found

    def missing(self, query: Select, brought: frozenset[Term]) -> list[Term]:
        """The terms without which a query has no answer, and that do not occur in elements
        (`brought`).

        Sorted; empty where missing terms are not the reason.
        """
        if self._derives_all:
            return []
        available = self._closed(brought)
        needed = _missing_terms(query, lambda term: term in available or self.in_background(term))
        found: dict[Term, None] = {}
        self._add_leaves(sorted(needed), available, found, set())
        return sorted(found)

    def _unavailable(self, body: Iterable[Term], available: set[Term]) -> list[Term]:
        return [term for term in body if term not in available and not self.in_background(term)]

    def _closed(self, brought: frozenset[Term]) -> set[Term]:
        """The terms with possible triples: those of elements, and all derived from them."""
        available = set(brought)
        derivations = [*map(_derivation, self._rules), *self._schema]
        has_grown = True
        while has_grown:
            has_grown = False
            for derivation in derivations:
                if all(term in available or self.in_background(term) for term in derivation.body):
                    new = [head for head in derivation.heads if head not in available]
                    available.update(new)
                    has_grown = has_grown or bool(new)
        return available

    def _add_leaves(self, needed: Iterable[Term], available: set[Term], found: dict[Term, None], visited: set[Term]) -> None:
        """Add to `found` the terms that the needed ones depend on by Datalog rules, but that no rule
        derives.

        What axioms of the schema would derive a term from is not followed: `owl:Nothing`, a
        subclass of every class, is in no text of the author.
        """
        for term in needed:
            if term in visited:
                continue
            visited.add(term)
            rules = [each for each in self._by_head.get(term, ()) if isinstance(each, DatalogRule)]
            bodies = [self._unavailable(_derivation(rule).body, available) for rule in rules]
            if bodies:
                fewest = min(bodies, key=lambda body: len(body))
                self._add_leaves(fewest, available, found, visited)
            else:
                found[term] = None


def _derivation(rule: DatalogRule) -> _Derivation:
    body = [term_of(item) for item in rule.body if isinstance(item, TriplePattern)]
    return _Derivation(tuple(filter(None, map(term_of, rule.head))), tuple(filter(None, body)))


def anchor_queries(program: CompiledProgram) -> dict[str, Select]:
    """The query of each rule's anchor, by rule name, unless the anchor is an event or tick."""
    found = {}
    for layer in program.layout.layers:
        for placed in layer.rules:
            stream = layer.ports[placed.ports[0]].stream
            if isinstance(stream, int) and program.layout.streams[stream].period is None:
                found[placed.rule.name] = program.layout.streams[stream].query
    return found


def stream_terms(program: CompiledProgram) -> StreamTerms:
    """A recorder of terms until all have occurred that the anchors of a program's rules need."""
    queries = dict.fromkeys(anchor_queries(program).values())
    return StreamTerms(TermDependencies(program).required(queries))


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
    """The terms that a pattern may need, in all its branches."""
    seen: set[Term] = set()

    def available(term: Term) -> bool:
        seen.add(term)
        return False

    _missing_terms(pattern, available)
    yield from seen


def _missing_terms(pattern: Pattern, available: Callable[[Term], bool]) -> frozenset[Term]:
    """The unavailable terms without which a pattern has no solution; empty if it may have one."""
    if isinstance(pattern, Bgp):
        return frozenset().union(*[_missing_of_item(item, available) for item in pattern.patterns])
    if isinstance(pattern, Union):
        one, other = _missing_terms(pattern.left, available), _missing_terms(pattern.right, available)
        return one | other if one and other else frozenset()
    return frozenset().union(*[_missing_terms(part, available) for part in required_parts(pattern)])


def _missing_of_item(item: BgpItem, available: Callable[[Term], bool]) -> frozenset[Term]:
    match item:
        case TriplePattern():
            term = term_of(item)
            return frozenset() if term is None or available(term) else frozenset((term,))
        case PathPattern(_, path, _):
            return _missing_of_path(path, available)
        case TermPattern():
            return frozenset()
        case _:
            assert_never(item)


def _missing_of_path(path: Path, available: Callable[[Term], bool]) -> frozenset[Term]:
    match path:
        case Link(predicate):
            return frozenset() if predicate == RDF_TYPE or available(predicate) else frozenset((predicate,))
        case Inverse(inner):
            return _missing_of_path(inner, available)
        case PathSequence(left, right):
            return _missing_of_path(left, available) | _missing_of_path(right, available)
        case Alternative(left, right):
            one, other = _missing_of_path(left, available), _missing_of_path(right, available)
            return one | other if one and other else frozenset()
        case Repeat(inner, least, _):
            return _missing_of_path(inner, available) if least else frozenset()
        case Negated():
            return frozenset()
        case _:
            assert_never(path)
