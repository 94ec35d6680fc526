"""`dotr kb compare`: a closure, computed by owlrl as well, and the differences with their reasons.

Idea: what the Datalog adds is given to both, so that the rule set alone is judged, without its
axiomatic triples. Literals of one value count as one. A difference has the reason of the row of
`differences.py` that explains it, or from whose triples dotr derives it, too.
"""

from __future__ import annotations

import logging
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from decimal import Decimal
from functools import lru_cache
from typing import Any, Final, NamedTuple, TypeAlias
from urllib.parse import quote

from dotr.commands.why.questions import time_of
from dotr.errors.diagnostics import refuse
from dotr.evaluation.expressions.identity import is_datatype, is_of_datatype
from dotr.evaluation.expressions.values.terms import READERS, Unknown, read, write
from dotr.evaluation.limits import LimitExceeded
from dotr.evaluation.triples.generalised import LITERAL_TYPE
from dotr.evaluation.triples.index import is_hidden
from dotr.instant.datalog.background.knowledge import Knowledge
from dotr.instant.datalog.background.loading import load_graphs
from dotr.instant.datalog.closure.closed_instant import Contradiction
from dotr.instant.datalog.entailment import Entailment, rule_set
from dotr.instant.instants import merge
from dotr.model.algebra import TriplePattern, Var
from dotr.model.datalog import DatalogRule
from dotr.model.terms import (
    OWL,
    RDF,
    RDF_FIRST,
    RDF_NIL,
    RDF_REST,
    RDF_TYPE,
    RDFS,
    XSD,
    Term,
    Triple,
    can_be_subject,
    is_blank,
    is_iri,
    is_literal,
    literal_parts,
)
from dotr.runtimes.pipeline.config import read_config
from dotr.runtimes.pipeline.replay import replay_of_config
from dotr.syntax.datalog import parse_datalog
from dotr.syntax.rendering import TermWriter

OWLRL: Final = "owlrl"
DOTR: Final = "dotr"

GivenTerms: TypeAlias = Set[Term]
"""All terms of what is given."""


class Known(NamedTuple):
    """Triples that are given, and dotr's closure of them."""

    given: Set[Triple]
    closed: Set[Triple]


def _terms(namespace: str, names: str) -> frozenset[Term]:
    return frozenset(f"<{namespace}{name}>" for name in names.split())


SAME: Final = f"<{OWL}sameAs>"
_DIFFERENT: Final = f"<{OWL}differentFrom>"
COPIES: Final = "`10` as integer is copied to `10` as byte, and back"
_REFLEXIVE: Final = _terms(OWL, "sameAs equivalentClass equivalentProperty") | _terms(RDFS, "subClassOf subPropertyOf")
_RESOURCES: Final = _terms(RDFS, "Resource Literal Class member") | _terms(RDF, "Property")
_DATATYPES: Final = _terms(RDF, "langString PlainLiteral XMLLiteral HTML") | _terms(RDFS, "Literal Datatype") | _terms(OWL, "real rational")


_LIST_ROWS: Final = ("eq-diff2", "eq-diff3")


def _never(*_: object) -> bool:
    return False


def _nothing(_: GivenTerms) -> Iterable[Triple]:
    return ()


class KnownDifference(NamedTuple):
    """A row of the page.

    - `row`: the text of its first cell.
    - `by`: which of the two derives the triple, or finds the contradiction.
    - `explains`: whether the row is the reason for a triple, by the terms of what is given. What
      follows from such triples has the same reason.
    - `contradicts`: whether the row is the reason for a contradiction, by dotr's row and premises
      or owlrl's message, and the triples of both given and closed.
    - `gives`: hidden triples that the other one lacks, by the terms of what is given.
    """

    row: str
    by: str
    explains: Callable[[Triple, GivenTerms], bool] = _never
    contradicts: Callable[[Contradiction, Known], bool] = _never
    gives: Callable[[GivenTerms], Iterable[Triple]] = _nothing


def _is_of_datatypes(triple: Triple, _: GivenTerms) -> bool:
    about_types = any(term.startswith(f"<{XSD}") or term in _DATATYPES for term in (triple[0], triple[2]))
    return about_types or (is_literal(triple[0]) and triple[1] in (SAME, _DIFFERENT))


def _types_by_value(terms: GivenTerms) -> Iterable[Triple]:
    types = [each for each in terms if is_datatype(each)]
    return [(term, RDF_TYPE, each) for term in terms if is_literal(term) for each in types if is_of_datatype(term, each)]


def _is_ill_formed(term: Term) -> bool:
    return is_literal(term) and type(read(term)) is Unknown and literal_parts(term)[1] in READERS


def _is_about_datatypes(found: Contradiction, _: Known) -> bool:
    classes = re.match(r"Disjoint classes (\S+) and (\S+) have ", found.rule)
    are_types = classes is not None and all(each.startswith(XSD) or f"<{each}>" in _DATATYPES for each in classes.groups())
    return are_types or found.rule.startswith("Lexical value of the literal ")


def _is_of_one_member(found: Contradiction, known: Known) -> bool:
    cells = _cells(found)
    members = {value_form(o) for s, p, o in known.given if p == RDF_FIRST and s in cells}
    return found.rule in _LIST_ROWS and len(members) == 1


def _is_of_last_member(found: Contradiction, known: Known) -> bool:
    is_of_list = found.rule in (*_LIST_ROWS, "prp-adp")
    return is_of_list and any((cell, RDF_REST, RDF_NIL) in known.closed for cell in _cells(found))


def _cells(found: Contradiction) -> set[Term]:
    return {s for s, p, _ in found.triples if p == RDF_FIRST}


def _is_of_eq_ref(found: Contradiction, known: Known) -> bool:
    is_own = found.rule == "eq-diff1" and any(s == o and p == _DIFFERENT for s, p, o in found.triples)
    return is_own or _is_of_one_member(found, known)


def _is_axiomatic(triple: Triple, _: GivenTerms) -> bool:
    is_class = triple[0] in _terms(OWL, "Thing Nothing") and triple[2] == f"<{OWL}Class>"
    return triple[1] == RDF_TYPE and (is_class or triple[2] == f"<{OWL}AnnotationProperty>")


def _is_reflexive(triple: Triple, _: GivenTerms) -> bool:
    return triple[0] == triple[2] and triple[1] in _REFLEXIVE


KNOWN: Final = (
    KnownDifference("`x owl:sameAs x` for every term", OWLRL, lambda t, _: t[1] == SAME and t[0] == t[2]),
    KnownDifference(
        "types, subsumption and disjointness of datatypes; a literal of a wrong form is an inconsistency",
        OWLRL,
        _is_of_datatypes,
        _is_about_datatypes,
    ),
    KnownDifference("a literal has its own datatype and those above it: `10` as integer is no byte", DOTR, gives=_types_by_value),
    KnownDifference(COPIES, OWLRL),  # found by the names of owlrl's closure
    KnownDifference(
        "two different values of a functional property are no inconsistency",
        DOTR,
        contradicts=lambda found, _: found.rule == "dt-diff",
    ),
    KnownDifference("restricted datatypes (its extras)", OWLRL),  # only in its extension, which is not compared
    KnownDifference("other reflexive triples", OWLRL, _is_reflexive),
    KnownDifference("`owl:Thing` and `owl:Nothing` are classes; the annotation properties", OWLRL, _is_axiomatic),
    KnownDifference("x is no subclass of itself in a cycle of subclasses", DOTR, _is_reflexive),
    KnownDifference(
        "`rdf:Property` counts as `owl:ObjectProperty`",
        OWLRL,
        lambda t, terms: _is_reflexive(t, terms) and f"<{RDF}Property>" in terms,
    ),
    KnownDifference("the last property of a key is not compared", OWLRL, lambda t, terms: t[1] == SAME and f"<{OWL}hasKey>" in terms),
    KnownDifference(
        "the last member of `owl:AllDifferent` and `owl:AllDisjointProperties` is not compared",
        DOTR,
        contradicts=lambda found, known: _is_of_last_member(found, known) and not _is_of_one_member(found, known),
    ),
    KnownDifference(
        "a member that `owl:AllDifferent` lists twice is not compared with itself; `x owl:differentFrom x` is consistent before its eq-ref",
        DOTR,
        contradicts=_is_of_eq_ref,
    ),
    KnownDifference(
        "triples with literals as subjects, and with blank nodes as predicates", OWLRL, lambda t, _: is_literal(t[0]) or is_blank(t[1])
    ),
    KnownDifference("rdfs1, rdfs4a, rdfs4b, rdfs8, rdfs12, rdfs13 under RDFS", OWLRL, lambda t, _: t[2] in _RESOURCES),
)
"""The rows in the order of the page; of several that explain a triple the first one counts."""


# --- the comparison ---

_Closed: TypeAlias = tuple[dict[Triple, Triple], list[Contradiction]]

MOST: Final = 100_000
"""Most given triples that are compared: owlrl takes a minute of CPU for plain ones."""


class Difference(NamedTuple):
    """A conclusion of only one of the two: a triple, or (empty) a contradiction.

    - `by`: `dotr` or `owlrl`.
    - `row`: the row of `docs/entailment.md` that says why; empty if nothing does.
    """

    by: str
    row: str
    triple: tuple[Term, ...]


def compare_configuration(config: str, options: Sequence[str], at: str | None) -> tuple[list[Difference], TermWriter]:
    """Compare the background of a configuration, or its closure with the instant of a time.

    Raises `Refused`: the program has problems, owlrl is not installed, there is no entailment or no
    such instant, or there are too many triples.
    """
    settings = read_config(config, options)
    spec = settings.program()
    if spec.entailment is Entailment.NONE:
        hint = "Write knowledge: { entailment: owl2rl }, or rdfs."
        raise refuse("C267", "there is nothing to compare: no entailment is configured", None, hint)
    instant: tuple[Triple, ...] = ()
    prefixes = spec.prefixes
    if at is not None:
        replay = replay_of_config(settings)
        time, prefixes = time_of(replay, at, "--at"), replay.prefixes
        found = next((each for each in replay.instants(lambda _: None) if each.time == time), None)
        if found is None:
            raise refuse("C219", f"there is no instant at {at}", None, "dotr facts lists the instants.")
        instant = merge(time, found.graphs).triples
    triples = load_graphs(spec.graphs, spec.reading)
    if (number := len({*triples, *instant})) > MOST:
        raise refuse("C267", f"{number:,} triples are too many to compare: owlrl takes at most {MOST:,}", None, "Compare a part of them.")
    datalog = [rule for document in spec.datalog for rule in parse_datalog(document, spec.prefixes)]
    return compare(triples, instant, datalog, spec.entailment), TermWriter(prefixes)


def report_lines(differences: Iterable[Difference], terms: TermWriter, most: int | None) -> Iterator[str]:
    """Lines of a report: at most `most` triples of each reason, and all without one, at the end."""
    order = [*(each.row for each in KNOWN), ""]
    groups: dict[tuple[int, str], list[str]] = defaultdict(list)
    for by, row, triple in sorted(differences):
        groups[order.index(row), by].append(terms.triple((triple[0], triple[1], triple[2])) if triple else "a contradiction")
    for (number, by), found in sorted(groups.items()):
        yield f"only {by}, {len(found):,}: {order[number] or 'nothing says why'}"
        shown = found[:most] if order[number] else found
        yield from (f"  {text}" for text in shown)
        if len(shown) < len(found):
            yield f"  … {len(found) - len(shown):,} more"
    if not groups:
        yield "Both derive the same."


def compare(
    triples: Sequence[Triple], instant: Sequence[Triple], datalog: Sequence[DatalogRule], entailment: Entailment
) -> list[Difference]:
    """Compare the closure of given triples under a rule set with owlrl's.

    - `instant`: those of an instant; `triples` are the background.
    - `datalog`: rules of the program beside the rule set.

    >>> below = "<http://www.w3.org/2000/01/rdf-schema#subClassOf>"
    >>> differences = compare([("<A>", below, "<B>"), ("<B>", below, "<C>")], [], [], Entailment.RDFS)
    >>> {each.row for each in differences if "<A>" in each.triple}
    {'rdfs1, rdfs4a, rdfs4b, rdfs8, rdfs12, rdfs13 under RDFS'}
    """
    rules = rule_set(entailment)
    ours, contradictions = _closed(triples, instant, [*rules, *datalog])
    told = {each.name for each in datalog}  # owlrl has no constraints of one's own
    ours_false = [each for each in contradictions if each.rule not in told]
    new = ours.keys() - _closed(triples, instant, rules)[0].keys() if datalog else ()
    added = [t for t in new if any(_may_conclude(head, t) for rule in datalog for head in rule.head)]
    given = [*triples, *instant, *added]
    theirs, theirs_false = _closed_by_owlrl(given, entailment)
    terms = {term for triple in given for term in triple}
    reasons: dict[tuple[str, Triple], str] = dict.fromkeys(
        [(by, t) for by, own, other in ((OWLRL, theirs, ours), (DOTR, ours, theirs)) for t in own.keys() - other.keys()], ""
    )
    least = {s: min(s, *filter(can_be_subject, names)) for s, names in _equal_names(ours).items()}
    for row in reversed(KNOWN):  # of several rows the first one counts; a copy for an equal name has the reason of the original
        for by, t in reasons:
            if by == row.by and (row.explains(t, terms) or row.explains((least.get(t[0], t[0]), t[1], least.get(t[2], t[2])), terms)):
                reasons[by, t] = row.row
    copied = _copies_by_literals(ours, theirs)
    reasons |= {(by, t): COPIES for (by, t), reason in reasons.items() if by == OWLRL and not reason and copied(t)}
    known, false_by = Known(frozenset(given), ours.keys()), DOTR if ours_false else OWLRL
    false = {
        each: next((row.row for row in KNOWN if row.by == false_by and row.contradicts(each, known)), "")
        for each in (*ours_false, *theirs_false)
        if not (ours_false and theirs_false)
    }
    for row in reversed(KNOWN):  # what the other one derives as soon as it is given a row's triples has the reason of the row
        reached = [t for (_, t), reason in reasons.items() if reason == row.row and is_iri(t[1])]
        explained = [t for t in reached if can_be_subject(t[0])]
        explained += [(t[0], LITERAL_TYPE, t[2]) for t in reached if t[1] == RDF_TYPE and _is_ill_formed(t[0])]  # dotr gives these no type
        unexplained = [key for key, reason in reasons.items() if not reason and key[0] == row.by]
        is_false_open = row.by == false_by and "" in false.values()
        if (unexplained or is_false_open) and (explained := [*explained, *row.gives(terms)]):
            more = [*given, *explained]
            following, is_false = _closed(more, (), rules) if row.by == OWLRL else _closed_by_owlrl(more, entailment)
            reasons |= {key: row.row for key in unexplained if key[1] in following}
            if is_false_open and is_false:
                false = {each: reason or row.row for each, reason in false.items()}
    found = [Difference(by, reason, (theirs if by == OWLRL else ours)[t]) for (by, t), reason in reasons.items()]
    return [*found, *(Difference(false_by, row, ()) for row in sorted(set(false.values())))]


def _copies_by_literals(ours: Iterable[Triple], theirs: Iterable[Triple]) -> Callable[[Triple], bool]:
    """Test of a triple that only theirs has: true for a copy of one of ours, by an equality with a
    literal.

    `:j :p 1, 2` of a functional `:p` make 1 and 2 the same there, and `:j :q 2` a
    copy of `:j :q 1`.
    """
    least = {name: min(name, *names) for name, names in _equal_names(theirs).items() if any(map(is_literal, (name, *names)))}

    def over_names(triple: Triple) -> Triple:
        return least.get(triple[0], triple[0]), triple[1], least.get(triple[2], triple[2])

    known = set(map(over_names, ours))
    return lambda triple: over_names(triple) in known


def _equal_names(triples: Iterable[Triple]) -> dict[Term, set[Term]]:
    names: dict[Term, set[Term]] = defaultdict(set)
    for subject, predicate, value in triples:
        if predicate == SAME:
            names[subject].add(value)
    return names


def _may_conclude(head: TriplePattern, triple: Triple) -> bool:
    slots = (head.subject, head.predicate, head.object)
    return all(isinstance(slot, Var) or slot.term == term for slot, term in zip(slots, triple, strict=True))


def _name(term: Term) -> Term:
    return f"<urn:dotr:{quote(term)}>"


def _closed(triples: Iterable[Triple], instant: Sequence[Triple], rules: Sequence[DatalogRule]) -> _Closed:
    """Dotr's closure without hidden triples, by the form of values, and its contradictions."""
    knowledge = Knowledge.load(triples, rules)
    try:
        closure = knowledge.close(instant)
    except LimitExceeded as error:
        raise refuse("C267", f"the instant goes over a limit: {error}") from None
    known = {_by_value(t): t for index in (closure.background, closure.delta) for t in index if not is_hidden(t[1])}
    return known, [*knowledge.contradictions, *closure.contradictions]


def _closed_by_owlrl(triples: Iterable[Triple], by: Entailment) -> _Closed:
    """Owlrl's closure in the same form, and its messages about contradictions."""
    try:
        import owlrl
        import rdflib
        from owlrl.Namespaces import ERRNS
    except ImportError:
        reason = "kb compare needs the Python package owlrl, which is not installed"
        raise refuse("C226", reason, None, "pip install 'dotr[owlrl]'") from None
    logging.getLogger("rdflib.term").setLevel(logging.ERROR)  # else it writes a traceback for each literal of a wrong form
    terms: dict[Any, Term] = {}

    def node(term: Term) -> Any:
        if is_literal(term) and "--" not in (parts := literal_parts(term))[2]:
            lexical, datatype, language = parts
            made: Any = rdflib.Literal(lexical, lang=language or None, datatype=None if language else datatype, normalize=False)
        else:  # rdflib has no triple terms and no base directions: any name will do
            made = rdflib.BNode(term[2:]) if is_blank(term) else rdflib.URIRef((term if is_iri(term) else _name(term))[1:-1])
        terms[made] = term
        return made

    graph = rdflib.Graph()
    for triple in triples:
        graph.add(tuple(map(node, triple)))
    closer = (owlrl.OWLRL_Semantics if by is Entailment.OWL2RL else owlrl.RDFS_Semantics)(graph, False, False)
    closer.closure()
    errors = set(graph.subjects(None, ERRNS.ErrorMessage))
    own = {*errors, ERRNS.ErrorMessage, ERRNS.error, *graph.objects(None, ERRNS.error)}
    closed = (tuple(terms.get(n) or n.n3() for n in triple) for triple in graph if own.isdisjoint(triple))
    return {_by_value((s, p, o)): (s, p, o) for s, p, o in closed}, [Contradiction(message, ()) for message in closer.error_messages]


def _by_value(triple: Triple) -> Triple:
    subject, predicate, value = triple
    return value_form(subject), predicate, value_form(value)


@lru_cache(1 << 16)
def value_form(term: Term) -> Term:
    """One text for all literals of one value of OWL: integers are decimals, doubles are not.

    >>> from dotr.model.terms import XSD
    >>> value_form(f'"05"^^<{XSD}byte>') == value_form(f'"5.0"^^<{XSD}decimal>') != value_form(f'"5e0"^^<{XSD}double>')
    True
    """
    if not is_literal(term):
        return term
    value = read(term)
    return write(Decimal(value) if type(value) is int else value) or term
