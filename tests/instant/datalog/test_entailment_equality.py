"""owl:sameAs: closure over representatives equals that by the tables, and costs one closure of
distinct triples.
"""

from __future__ import annotations

from collections import Counter

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from dotr.api.session import Session
from dotr.evaluation.triples.index import TripleIndex, is_hidden
from dotr.instant.datalog.background.knowledge import Knowledge
from dotr.instant.datalog.closure.instant import Closer, RuleDispatch
from dotr.instant.datalog.entailment import Entailment, rule_set
from dotr.instant.datalog.same_as.expand import SAME
from dotr.model.datalog import DatalogRule
from dotr.model.places import Document
from dotr.model.terms import OWL, RDF_TYPE, Triple
from dotr.syntax.datalog import parse_datalog
from tests.instant.datalog.test_entailment_rows import graph

PHASES = (Phase.explicit, Phase.generate)
RULES = rule_set(Entailment.OWL2RL)

SHAPES = """
    I owl:sameAs I | I owl:sameAs I | I owl:sameAs I | I owl:sameAs I | I owl:differentFrom I
    I :p I | I :p I | I :q I | I :p 5 | I :f I | I :f I | I :f 5 | I :g I | I a C | I a C | I :k I | I :k 5
    :f a owl:FunctionalProperty | :g a owl:InverseFunctionalProperty | :p a owl:TransitiveProperty | :q a owl:SymmetricProperty
    :p a owl:IrreflexiveProperty | :q a owl:AsymmetricProperty | :p owl:propertyDisjointWith :q | :p owl:inverseOf :q
    :q rdfs:subPropertyOf owl:sameAs | :p rdfs:subPropertyOf :q | :p rdfs:domain C | :p rdfs:range C
    C rdfs:subClassOf C | C owl:disjointWith C | C owl:hasKey ( :k ) | :q owl:propertyChainAxiom ( :p :p )
    :R owl:onProperty :p ; owl:hasValue I | :R owl:onProperty :p ; owl:someValuesFrom C | :R owl:onProperty :p ; owl:allValuesFrom C
    :R owl:onProperty :p ; owl:maxCardinality "1"^^xsd:nonNegativeInteger | I a :R | C owl:oneOf ( I I )
    [] a owl:AllDifferent ; owl:members ( I I ) | [] a owl:AllDifferent ; owl:distinctMembers ( I I I )
    [] owl:sourceIndividual I ; owl:assertionProperty :p ; owl:targetIndividual I
"""
ODD = """
    I owl:sameAs I | C owl:sameAs C | :p owl:sameAs :q | I rdfs:subClassOf I | I owl:sameAs 5 | I I I | I rdf:rest I | I rdf:first I
    owl:sameAs a owl:TransitiveProperty | owl:sameAs rdfs:subPropertyOf :q | owl:sameAs rdfs:range C | C rdfs:subClassOf I
    I owl:sameAs :p | :p rdfs:subPropertyOf :q
"""
PLAIN = """
:q(?x, ?z) :- :p(?x, ?y), :p(?y, ?z), :k(?y, ?v), FILTER(?v > 4) .
[?x, owl:sameAs, ?y] :- :q(?x, ?y), :C(?x) .
[?x, :n, ?w] :- :k(?x, ?v), BIND(?v + 1 AS ?w) .
"""
DEPENDS_ON_NAMES = PLAIN + ":named(?x, ?s) :- :p(?x, ?y), BIND(STR(?x) AS ?s) ."
NAMED = PLAIN + ":about(?x, :i) :- :p(?x, :j) ."
PROGRAMS = ["", "", PLAIN, PLAIN, NAMED, DEPENDS_ON_NAMES]


def program(text: str) -> list[DatalogRule]:
    return [*RULES, *parse_datalog(Document("same.dlog", text), {"": "http://e/", "owl": OWL})]


@st.composite
def cases(draw: st.DrawFn, odd: bool) -> tuple[frozenset[Triple], frozenset[Triple]]:
    shapes = [shape for line in SHAPES.strip().splitlines() for shape in line.strip().split(" | ")]
    chosen = draw(st.lists(st.sampled_from(shapes), min_size=4, max_size=14))
    if odd:
        strange = [shape for line in ODD.strip().splitlines() for shape in line.strip().split(" | ")]
        chosen += draw(st.lists(st.sampled_from(strange), min_size=1, max_size=2))
    triples: set[Triple] = set()
    for number, shape in enumerate(chosen):
        words = [
            draw(st.sampled_from([":i", ":j", ":k1", ":l", "_:m"] if w == "I" else [":C", ":D"])) if w in "IC" else w for w in shape.split()
        ]
        try:
            found = graph(" ".join(words).replace("[]", f":x{number}"))
        except SyntaxError:  # a blank node as a predicate
            continue
        triples |= {tuple(t if not t.startswith("_:") or t == "_:m" else f"{t}x{number}" for t in triple) for triple in found}  # type: ignore[misc]
    cut = draw(st.integers(0, 2 ** len(triples)))
    instant = frozenset(t for number, t in enumerate(sorted(triples)) if cut >> number & 1)
    return frozenset(triples - instant), instant


def by_tables(
    background: frozenset[Triple], instant: frozenset[Triple], rules: list[DatalogRule]
) -> tuple[set[Triple], set[Triple], set[str]]:
    """Background, delta and contradicting rows, by the rules of the tables alone."""
    closer = Closer(RuleDispatch(rules), TripleIndex())
    base = closer.close([*background, *_facts(rules)])
    whole = closer.close([*background, *instant, *_facts(rules)])
    known = {t for t in base.delta if not is_hidden(t[1])}
    return known, {t for t in whole.delta if not is_hidden(t[1])} - known, {c.rule for c in whole.contradictions}


def _facts(rules: list[DatalogRule]) -> list[Triple]:
    """Facts of the rule set, which a closer does not derive."""
    return [t for rule in rules if not rule.body for t in ((h.subject.term, h.predicate.term, h.object.term) for h in rule.head)]  # type: ignore[union-attr]


def visible(index: TripleIndex) -> set[Triple]:
    """The visible triples of an index, equal on all access paths."""
    from_subjects = Counter((s, p, o) for p, ends in index.by_subject.items() for s, others in ends.items() for o in others)
    from_objects = Counter((s, p, o) for p, ends in index.by_object.items() for o, others in ends.items() for s in others)
    assert from_subjects == from_objects
    assert set(from_subjects.values()) <= {1}
    assert len(index) == len(from_subjects)
    assert all(triple in index.triples for triple in from_subjects)
    nodes = {end for s, _, o in from_subjects for end in (s, o)}
    assert all(((s, p, o) in index.triples) == ((s, p, o) in from_subjects) for s in nodes for p in index.by_subject for o in nodes)
    return {t for t in from_subjects if not is_hidden(t[1])}


def check(background: frozenset[Triple], instant: frozenset[Triple], rules: list[DatalogRule]) -> None:
    known, new, false = by_tables(background, instant, rules)
    knowledge = Knowledge.load(sorted(background), rules)
    assert visible(knowledge.background) == known
    closure = knowledge.close(sorted(instant))
    assert visible(closure.delta) == new
    assert {c.rule for c in (*knowledge.contradictions, *closure.contradictions)} == false
    for contradiction in (*knowledge.contradictions, *closure.contradictions):
        assert all(t in closure.background or t in closure.delta or is_hidden(t[1]) for t in contradiction.triples)


@settings(phases=PHASES, max_examples=60, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(cases(odd=False), st.sampled_from(PROGRAMS))
def test_equal_individuals_close_as_by_the_tables(case: tuple[frozenset[Triple], frozenset[Triple]], text: str) -> None:
    check(*case, program(text))


@settings(phases=PHASES, max_examples=40, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(cases(odd=True), st.sampled_from(PROGRAMS))
def test_equal_names_in_schema_close_as_by_the_tables(case: tuple[frozenset[Triple], frozenset[Triple]], text: str) -> None:
    check(*case, program(text))


# --- cost, in entries of the index ---


def name(text: str) -> str:
    return f"<http://e/{text}>"


def clique(tag: str, size: int, each: int) -> list[Triple]:
    """`size` names that are equal to the first one, with `each` triples of each name."""
    triples = [(name(f"{tag}0"), SAME, name(f"{tag}{n}")) for n in range(1, size)]
    return triples + [(name(f"{tag}{n}"), name(f"p{m}"), name(f"{tag}{n}_{m}")) for n in range(size) for m in range(each)]


def written(index: TripleIndex) -> int:
    """The number of entries in all lists of an index, each list once."""
    lists = {
        id(others): len(others) for table in (index.by_subject, index.by_object) for ends in table.values() for others in ends.values()
    }
    return sum(lists.values())


def test_clique_in_the_background_shares_lists() -> None:
    size, each = 60, 5
    knowledge = Knowledge.load(clique("a", size, each), RULES)
    hidden = sum(is_hidden(p) for _, p, _ in knowledge.background)
    assert len(knowledge.background) - hidden == size * (size - 1) + size * size * each
    equalities = written(TripleIndex([t for t in knowledge.background if t[1] == SAME]))
    assert written(knowledge.background) <= equalities + 3 * size * each + size * size * each  # by object: a list an object
    assert len({id(others) for others in knowledge.background.by_subject[name("p0")].values()}) == 1


def test_instant_merges_two_cliques() -> None:
    size, each = 40, 3
    knowledge = Knowledge.load([*clique("a", size, each), *clique("b", size, each)], RULES)
    new = knowledge.close([(name("a3"), SAME, name("b5"))]).delta
    assert len(new) == 2 * size * size + 2 * size * size * each
    assert len({id(others) for others in new.by_subject[name("p0")].values()}) == 2
    assert len({id(others) for others in new.by_subject[SAME].values()}) == 2
    assert not knowledge.close([(name("z"), name("p0"), name("y"))]).delta.by_subject.get(SAME)


def test_stated_reflexive_equality_holds_for_one_name() -> None:
    """Stated in the background or at an instant, for one name of the individual."""
    size, each = 30, 4
    loops = [(name(each), SAME, name(each)) for each in ("a3", "z")]
    plain, looped = (Knowledge.load([*clique("a", size, each), *more], RULES) for more in ([], loops))
    assert set(looped.background) == {*plain.background, *loops}
    assert abs(written(looped.background) - written(plain.background)) <= 3 * size
    for instant in ([(name("a5"), SAME, name("new"))], [(name("new"), name("p0"), name("a7"))]):
        assert set(looped.close(instant).delta) == set(plain.close(instant).delta)
        new = plain.close([*instant, *loops]).delta
        assert set(new) == {*plain.close(instant).delta, *loops}
        assert written(new) <= written(plain.close(instant).delta) + 3 * size
    different = (name("z"), f"<{OWL}differentFrom>", name("z"))
    assert [found.rule for found in looped.close([different]).contradictions] == ["eq-diff1"]
    assert [found.rule for found in plain.close([different]).contradictions] == ["eq-diff1"]  # eq-ref


def test_reflexive_equality_and_difference_in_the_background_contradict() -> None:
    same, different = ((name("i"), f"<{OWL}{word}>", name("i")) for word in ("sameAs", "differentFrom"))
    knowledge = Knowledge.load([same, different], RULES)
    assert [(each.rule, set(each.triples)) for each in knowledge.contradictions] == [("eq-diff1", {different})]


def test_values_of_a_functional_property_are_merged_once() -> None:
    knowledge = Knowledge.load([(name("p"), RDF_TYPE, f"<{OWL}FunctionalProperty>")], RULES)
    values = [(name("x"), name("p"), name(f"v{n}")) for n in range(50)]
    assert len(knowledge.close(values).delta) == 50 + 50 * 49


def test_query_matches_every_copy() -> None:
    from dotr.engine.spec import ProgramSpec
    from dotr.languages.programs import compile_program

    rule = Document("r.dotr", "PREFIX : <http://e/> define B = [ [] a :B ] from A = [ SELECT ?x ?y WHERE { ?x :p0 ?y } ]")
    counted = Document(
        "c.dotr", "PREFIX : <http://e/> define D = [ [] a :D ] from C = [ SELECT ?z (COUNT(*) AS ?n) WHERE { ?z :p0 ?y } GROUP BY ?z ]"
    )
    program = compile_program(ProgramSpec((rule, counted), entailment=Entailment.OWL2RL, prefixes={"": "http://e/", "owl": OWL}))
    with Session(program) as session:
        events = session.advance(1, ":a owl:sameAs :b , :c . :a :p0 :x , :y . :c :p0 :y .")
    assert Counter(event.type for event in events) == {"B": 6, "D": 3}
