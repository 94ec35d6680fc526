"""The perfect model of a Datalog program and a rule set, by naive fix-point, stratum after stratum (semantics.md, section 2)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from dotr.model.algebra import Bgp, Const, Expression, TriplePattern, Var
from dotr.model.datalog import Bind, BodyItem, DatalogRule, FilterItem, GroupAggregate, Not
from dotr.model.terms import Term, Triple, Variable
from tests.oracle.algebra import Solution, aggregated, agree, scope, solutions
from tests.oracle.expressions import computed, holds
from tests.oracle.generalised import entailed
from tests.oracle.triple_terms import whole


def close(triples: Iterable[Triple], rules: Sequence[DatalogRule], entailment: str) -> frozenset[Triple]:
    """K(t) of B ∪ I(t). The models of the strata, lowest first: each is the least one that holds the one below and is closed under its own
    rules, those of the strata below and the rule set. NOT and AGGREGATE of a rule are evaluated over the model below its own stratum."""
    strata = stratified(rules)
    models: list[frozenset[Triple]] = []
    known = frozenset(triples)
    for level in range(max(strata, default=0) + 1):
        active = [
            (rule, models[stratum - 1] if stratum else known) for rule, stratum in zip(rules, strata, strict=True) if stratum <= level
        ]
        while True:
            derived = {t for rule, below in active for t in consequences(rule, known, below)} | entailed(entailment, known)
            if derived <= known:
                break
            known |= derived
        models.append(known)
    return known


def consequences(rule: DatalogRule, known: frozenset[Triple], below: frozenset[Triple]) -> set[Triple]:
    found = set()
    for solution in body_solutions(rule.body, sorted(known), sorted(below)):
        for head in rule.head:
            s, p, o = (
                slot.term if isinstance(slot, Const) else solution[slot.name] for slot in (head.subject, head.predicate, head.object)
            )
            if is_rdf((s, p, o)):
                found.add((s, p, o))
    return found


def is_rdf(triple: Triple) -> bool:
    return whole(*triple) is not None


def body_solutions(body: Sequence[BodyItem], graph: list[Triple], below: list[Triple]) -> list[Solution]:
    """The solutions of a body, whose order has no meaning: triples and aggregates first, then BINDs, then tests, then negations."""
    found = solutions(Bgp(tuple(item for item in body if isinstance(item, TriplePattern))), graph, {})
    for item in body:
        if isinstance(item, GroupAggregate):
            rows = groups(item, below)
            found = [{**s, **row} for s in found for row in rows if agree(s, row)]
    binds = [item for item in body if isinstance(item, Bind)]
    produced = {bind.variable for bind in binds}
    while binds:
        waiting = {b.variable for b in binds}
        ready = [b for b in binds if not variables(b.expression) & waiting or not variables(b.expression) & produced]
        assert ready, "circular BIND"
        for bind in ready:
            found = [
                bound for s in found if (bound := with_value(s, bind.variable, computed(bind.expression, scope(s, graph, {})))) is not None
            ]
            binds.remove(bind)
    for item in body:
        if isinstance(item, FilterItem):
            found = [s for s in found if holds(item.condition, scope(s, graph, {}))]
    for item in body:
        if isinstance(item, Not):
            found = [s for s in found if not solutions(Bgp(item.body), below, s)]
    return found


def groups(item: GroupAggregate, graph: list[Triple]) -> list[Solution]:
    """The rows of an aggregate: a group with an error has none; without keys there is always one group."""
    members: dict[tuple[Term, ...], list[Solution]] = {} if item.keys else {(): []}
    for solution in body_solutions(item.body, graph, []):
        members.setdefault(tuple(solution[key] for key in item.keys), []).append(solution)
    rows = []
    for key, group in members.items():
        row = dict(zip(item.keys, key, strict=True))
        terms = [(variable, aggregated(call, group, graph, {})) for variable, call in item.results]
        if all(term is not None for _, term in terms):
            row |= {variable: term for variable, term in terms if term is not None}
            rows.append(row)
    return rows


def with_value(solution: Solution, variable: Variable, term: Term | None) -> Solution | None:
    if term is None or solution.get(variable, term) != term:
        return None
    return {**solution, variable: term}


def variables(expression: Expression) -> set[Variable]:
    if isinstance(expression, Var):
        return {expression.name}
    return {v for a in getattr(expression, "arguments", ()) for v in variables(a)}


def stratified(rules: Sequence[DatalogRule]) -> list[int]:
    """The least stratum of every rule; a rule with NOT or AGGREGATE comes after the closure of the given triples."""
    strata = [0] * len(rules)
    for _ in range(len(rules) + 2):
        before = list(strata)
        for i, rule in enumerate(rules):
            for item in rule.body:
                below = isinstance(item, Not | GroupAggregate)
                atoms = [a for a in (item.body if isinstance(item, Not | GroupAggregate) else (item,)) if isinstance(a, TriplePattern)]
                feeders = [strata[j] for j, other in enumerate(rules) for head in other.head if any(unify(head, a) for a in atoms)]
                strata[i] = max([strata[i], *(f + below for f in feeders), int(below)])
        if strata == before:
            return strata
    raise ValueError("recursion through NOT")


def unify(a: TriplePattern, b: TriplePattern) -> bool:
    """True if predicates and objects (classes) let one triple match both."""
    pairs = ((a.predicate, b.predicate), (a.object, b.object))
    return all(not (isinstance(x, Const) and isinstance(y, Const)) or x == y for x, y in pairs)
