"""The closure of an instant equals the naive fixpoint of the rules over background and instant."""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations, product

from hypothesis import given, settings
from hypothesis import strategies as st

from dotr.evaluation.expressions import condition, evaluator
from dotr.evaluation.joins.compile import compile_join
from dotr.evaluation.joins.order import Side
from dotr.evaluation.triples.index import TripleIndex
from dotr.instant.datalog.background.knowledge import Knowledge, check_safety
from dotr.instant.datalog.closure.closed_instant import Contradiction
from dotr.model.algebra import Call, Const, Slot, TriplePattern, Var
from dotr.model.datalog import Bind, DatalogRule, FilterItem
from dotr.model.terms import OWL, RDF_TYPE, RDFS, XSD, Term, Triple, Variable, iri, literal
from dotr.model.traverse import free_variables

Binding = dict[Variable, Term]

SUBCLASS, DOMAIN, SAME = iri(RDFS + "subClassOf"), iri(RDFS + "domain"), iri(OWL + "sameAs")
TRANSITIVE = iri(OWL + "TransitiveProperty")
HIDDEN = "<urn:dotr:hidden:h>"
NUMBERS = [literal(str(n), XSD + "integer") for n in range(4)]
NODES = ["<a>", "<b>", "_:n", "<C>", "<p>", TRANSITIVE]
PREDICATES = ["<p>", "<q>", RDF_TYPE, SUBCLASS, DOMAIN, SAME, HIDDEN]
OBJECTS = [*NODES, '"s"', *NUMBERS]


# --- naive evaluation ---


def naive(triples: set[Triple], rules: list[DatalogRule]) -> tuple[set[Triple], set[Contradiction]]:
    """The least model of rules of a rule set, in which a blank node may be a predicate."""
    known = set(triples)
    while True:
        derived: set[Triple] = set()
        contradictions: set[Contradiction] = set()
        for rule in rules:
            for binding in matches(rule, known):
                if not rule.head:
                    premises = {instance(item, binding) for item in rule.body if isinstance(item, TriplePattern)}
                    contradictions.add(Contradiction(rule.name, tuple(sorted(premises))))
                derived |= {t for t in (instance(head, binding) for head in rule.head) if t[0][0] != '"' and t[1][0] in "<_"}
        if derived <= known:
            return known, contradictions
        known |= derived


def matches(rule: DatalogRule, known: set[Triple]) -> list[Binding]:
    bindings: list[Binding] = [{}]
    for item in rule.body:
        if isinstance(item, TriplePattern):
            bindings = [b for binding in bindings for triple in known if (b := extended(binding, item, triple)) is not None]
    binds = [item for item in rule.body if isinstance(item, Bind)]
    while binds:
        bind = next(b for b in binds if all(v in binding for v in free_variables(b) for binding in bindings))
        binds.remove(bind)
        names = free_variables(bind)
        value = evaluator(bind.expression, [Var(n) for n in names])
        computed = [(binding, value(*(binding[n] for n in names))) for binding in bindings]
        bindings = [{**b, bind.variable: v} for b, v in computed if v is not None and b.get(bind.variable, v) == v]
    for item in rule.body:
        if isinstance(item, FilterItem):
            names = free_variables(item)
            holds = condition(item.condition, [Var(n) for n in names])
            bindings = [b for b in bindings if holds(*(b[n] for n in names))]
    return bindings


def extended(binding: Binding, pattern: TriplePattern, triple: Triple) -> Binding | None:
    result = dict(binding)
    for slot, term in zip((pattern.subject, pattern.predicate, pattern.object), triple, strict=True):
        if isinstance(slot, Const):
            if slot.term != term:
                return None
        elif result.setdefault(slot.name, term) != term:
            return None
    return result


def instance(pattern: TriplePattern, binding: Binding) -> Triple:
    def term(slot: Slot) -> Term:
        return slot.term if isinstance(slot, Const) else binding[slot.name]

    return term(pattern.subject), term(pattern.predicate), term(pattern.object)


# --- random programs ---

names = st.sampled_from(["x", "y", "z", "v"])
triples = st.tuples(st.sampled_from(NODES), st.sampled_from(PREDICATES), st.sampled_from(OBJECTS))
graphs = st.sets(triples, max_size=8)


def slots(constants: list[Term]) -> st.SearchStrategy[Slot]:
    return st.one_of(st.builds(Var, names), st.builds(Var, names), st.builds(Const, st.sampled_from(constants)))


predicates = st.one_of(st.builds(Const, st.sampled_from(PREDICATES)), st.builds(Const, st.sampled_from(PREDICATES)), st.builds(Var, names))
patterns = st.builds(TriplePattern, slots(NODES), predicates, slots(OBJECTS))
conditions = st.one_of(
    st.builds(lambda a, b: FilterItem(Call("!=", (Var(a), Var(b)))), names, names),
    st.builds(lambda a, n: FilterItem(Call("<", (Var(a), Const(n)))), names, st.sampled_from(NUMBERS)),
    st.builds(lambda a, b: FilterItem(Call("!", (Call("SAMETERM", (Var(a), Var(b))),))), names, names),
    # The result is one of the numbers, so that recursion ends.
    st.builds(lambda a, b: Bind(Call("*", (Var(a), Const(NUMBERS[0]))), b), names, st.sampled_from(["v", "w"])),
    st.builds(lambda a: Bind(Call("IF", (Call("ISIRI", (Var(a),)), Var(a), Const(NUMBERS[1]))), "w"), names),
)


SCHEMATIC = [
    DatalogRule(
        "cax-sco",
        (TriplePattern(Var("x"), Const(RDF_TYPE), Var("d")),),
        (TriplePattern(Var("c"), Const(SUBCLASS), Var("d")), TriplePattern(Var("x"), Const(RDF_TYPE), Var("c"))),
    ),
    DatalogRule(
        "prp-dom",
        (TriplePattern(Var("x"), Const(RDF_TYPE), Var("c")),),
        (TriplePattern(Var("p"), Const(DOMAIN), Var("c")), TriplePattern(Var("x"), Var("p"), Var("y"))),
    ),
    DatalogRule(
        "prp-trp",
        (TriplePattern(Var("x"), Var("p"), Var("z")),),
        (
            TriplePattern(Var("p"), Const(RDF_TYPE), Const(TRANSITIVE)),
            TriplePattern(Var("x"), Var("p"), Var("y")),
            TriplePattern(Var("y"), Var("p"), Var("z")),
        ),
    ),
    DatalogRule(
        "eq-rep-s",
        (TriplePattern(Var("t"), Var("p"), Var("o")),),
        (TriplePattern(Var("s"), Const(SAME), Var("t")), TriplePattern(Var("s"), Var("p"), Var("o"))),
    ),
    DatalogRule(
        "eq-rep-p",
        (TriplePattern(Var("s"), Var("q"), Var("o")),),
        (TriplePattern(Var("p"), Const(SAME), Var("q")), TriplePattern(Var("s"), Var("p"), Var("o"))),
    ),
    DatalogRule(
        "cax-dw",
        (),
        (
            TriplePattern(Var("c"), Const("<disjoint>"), Var("d")),
            TriplePattern(Var("x"), Const(RDF_TYPE), Var("c")),
            TriplePattern(Var("x"), Const(RDF_TYPE), Var("d")),
            FilterItem(Call("!=", (Var("c"), Var("d")))),
        ),
    ),
    DatalogRule(
        "chain",
        (TriplePattern(Var("x"), Var("h"), Var("z")),),
        (
            TriplePattern(Var("h"), Const(SUBCLASS), Var("k")),
            TriplePattern(Var("k"), Const(DOMAIN), Var("m")),
            TriplePattern(Var("x"), Var("k"), Var("y")),
            TriplePattern(Var("y"), Var("m"), Var("z")),
        ),
    ),
]


@st.composite
def rules(draw: st.DrawFn) -> DatalogRule:
    if draw(st.booleans()):
        return draw(st.sampled_from(SCHEMATIC))
    body: list[TriplePattern | FilterItem | Bind] = [
        *draw(st.lists(patterns, min_size=1, max_size=3)),
        *draw(st.lists(conditions, max_size=2)),
    ]
    head = draw(st.lists(st.builds(TriplePattern, slots(NODES), predicates, slots(OBJECTS)), max_size=2))
    name = f"rule {draw(st.integers(0, 1000))}"
    rule = DatalogRule(name, tuple(head), tuple(draw(st.permutations(body))))
    if not check_safety(rule):
        return rule
    bound = [v for item in body if isinstance(item, TriplePattern) for v in free_variables(item)] or ["x"]
    safe = TriplePattern(Var(bound[0]), Const("<q>"), Var(bound[-1]))
    return DatalogRule(
        name, (safe,), tuple(item for item in body if isinstance(item, TriplePattern) or set(free_variables(item)) <= set(bound))
    )


programs = st.lists(rules().filter(lambda rule: not check_safety(rule)), min_size=1, max_size=4)


@settings(max_examples=600, deadline=None)
@given(graphs, st.lists(graphs, min_size=1, max_size=3), programs)
def test_closure_equals_naive_fixpoint(background: set[Triple], instants: list[set[Triple]], program: list[DatalogRule]) -> None:
    knowledge = Knowledge.load(
        sorted(background), [replace(rule, of_rule_set=True) for rule in program]
    )  # rule sets match hidden predicates
    closed, contradictions = naive(background, program)
    assert set(knowledge.background) == closed
    assert set(knowledge.contradictions) == contradictions
    assert knowledge.derived == len(closed) - len(background)
    for instant in instants:
        closure = knowledge.close(sorted(instant))
        everything, alarms = naive(background | instant, program)
        assert set(closure.delta) == everything - closed
        assert set(closure.contradictions) == alarms - contradictions
        assert consistent(closure.delta)
    assert set(knowledge.background) == closed
    assert consistent(knowledge.background)


def consistent(index: TripleIndex) -> bool:
    """True where all tables of an index hold the same triples, each once."""
    forward = [(s, p, o) for p, ends in index.by_subject.items() for s, others in ends.items() for o in others]
    backward = [(s, p, o) for p, ends in index.by_object.items() for o, others in ends.items() for s in others]
    return sorted(forward) == sorted(backward) == sorted(index.triples) and len(index) == len(forward)


sides = st.sampled_from(list(Side))


@settings(max_examples=400, deadline=None)
@given(
    graphs,
    graphs,
    st.lists(st.tuples(patterns, sides), max_size=3),
    st.lists(conditions, max_size=2),
    st.booleans(),
    st.sets(names),
    st.data(),
)
def test_join_has_one_row_per_match(
    background: set[Triple],
    new: set[Triple],
    body: list[tuple[TriplePattern, Side]],
    tests: list[FilterItem | Bind],
    fixed: bool,
    given_names: set[str],
    data: st.DataObject,
) -> None:
    new -= background
    bound = {v for pattern, _ in body for v in free_variables(pattern)} | given_names
    tests = [t for t in tests if set(free_variables(t)) <= bound]
    projection = ["x", "y", "z", "v", "w"]
    given_terms = {name: data.draw(st.sampled_from(OBJECTS)) for name in sorted(given_names)}
    old, fresh = TripleIndex(sorted(background)), TripleIndex(sorted(new))
    items = data.draw(st.permutations([*(p for p, _ in body), *tests]))
    order = [side for item in items for pattern, side in body if item is pattern]
    join = compile_join(items, list(given_terms), order, projection, index=old if fixed else None, hidden=True)
    reads = {Side.BACKGROUND: background, Side.DELTA: new, Side.BOTH: background | new}
    expected: list[tuple[Term | None, ...]] = []
    for choice in product(*(reads[side] for _, side in body)):
        binding: Binding | None = dict(given_terms)
        for (pattern, _), triple in zip(body, choice, strict=True):
            binding = extended(binding, pattern, triple) if binding is not None else None
        if binding is not None:
            constants = tuple(TriplePattern(Var(n), Const("<given>"), Const(t)) for n, t in binding.items())
            facts = {(t, "<given>", t) for t in binding.values()}
            expected += (
                [tuple(b.get(n) for n in projection) for b in matches(DatalogRule("", (), (*constants, *tests)), facts)]
                if binding
                else [tuple(None for _ in projection)]
            )
    assert sorted(map(str, join(old, fresh, *given_terms.values()))) == sorted(map(str, expected))


def test_closure_is_independent_of_triple_order() -> None:
    instant = [("<a>", RDF_TYPE, "<C>"), ("<C>", SUBCLASS, "<D>"), ("<D>", SUBCLASS, "<E>"), ("<a>", SAME, "<b>")]
    knowledge = Knowledge.load([("<E>", SUBCLASS, "<F>")], SCHEMATIC)
    results = {frozenset(knowledge.close(order).delta) for order in permutations(instant)}
    assert len(results) == 1
    assert ("<b>", RDF_TYPE, "<F>") in next(iter(results))
