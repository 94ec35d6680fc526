"""SPARQL queries by the letter (SPARQL 1.1, section 18): every operator scans, every solution is a dictionary."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Iterable, Mapping
from collections.abc import Sequence as Listed
from fractions import Fraction

from dotr.model.algebra import (
    AggregateCall,
    Alternative,
    Bgp,
    BgpItem,
    Const,
    Direction,
    Exists,
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
    Pattern,
    Repeat,
    Select,
    Sequence,
    Slot,
    TermPattern,
    TriplePattern,
    Union,
    Values,
    WindowBlock,
)
from dotr.model.terms import Term, Triple, Variable, literal, literal_parts
from tests.oracle.expressions import Scope, computed, holds
from tests.oracle.triple_terms import anonymous, blanks, held, is_triple_term, parts
from tests.oracle.values import Err, Number, Value, as_float, order_key, promoted, quotient, single, sort_key, term_of, value_of

Solution = dict[Variable, Term]


class NamesDecide(Exception):
    """Raised where only the names of blank nodes, which this oracle chooses in its own way, determine a query's answer."""


class Dataset(list[Triple]):
    """The default graph of a report of a continuous query, with the graph of each window, and the solutions of each MATCH."""

    def __init__(self, default: Iterable[Triple], windows: Mapping[Term, list[Triple]], matches: Listed[list[Solution]]) -> None:
        super().__init__(default)
        self.windows = windows
        self.matches = matches
        self._with: dict[tuple[int, Term], list[Triple]] = {}
        for triple in self:
            for place in enumerate(triple):
                self._with.setdefault(place, []).append(triple)

    def narrowed(self, terms: Iterable[Term | None]) -> list[Triple]:
        """The triples that match the most selective constant, in order: nested scans of large windows would take too long."""
        lists = [self._with.get((place, term), []) for place, term in enumerate(terms) if term is not None]
        return min(lists, key=len, default=self)


def select(query: Select, graph: frozenset[Triple]) -> list[Solution]:
    """The solutions of a query, in one order that depends on the graph alone."""
    return solutions(query, sorted(graph), {})


def solutions(pattern: Pattern, graph: list[Triple], outer: Mapping[Variable, Term]) -> list[Solution]:
    """The solutions of a pattern; `outer` has the bindings that EXISTS substitutes."""
    match pattern:
        case Bgp(patterns):
            found: list[Solution] = [{}]
            for item in patterns:
                found = [extended for solution in found for extended in matches(item, graph, solution, outer)]
            return found
        case Join(left, right):
            return [{**a, **b} for a in solutions(left, graph, outer) for b in solutions(right, graph, outer) if agree(a, b)]
        case LeftJoin(left, right, condition):
            result = []
            others = solutions(right, graph, outer)
            for a in solutions(left, graph, outer):
                joined = [{**a, **b} for b in others if agree(a, b)]
                joined = [s for s in joined if condition is None or holds(condition, scope(s, graph, outer))]
                result += joined or [a]
            return result
        case Union(left, right):
            return solutions(left, graph, outer) + solutions(right, graph, outer)
        case Minus(left, right):
            others = solutions(right, graph, outer)
            return [a for a in solutions(left, graph, outer) if not any(a.keys() & b.keys() and agree(a, b) for b in others)]
        case Filter(inner, conditions):
            return [s for s in solutions(inner, graph, outer) if all(holds(c, scope(s, graph, outer)) for c in conditions)]
        case Extend(inner, variable, expression):
            result = []
            for s in solutions(inner, graph, outer):
                term = computed(expression, scope(s, graph, outer))
                result.append(s if term is None else {**s, variable: term})
            return result
        case Values(variables, rows):
            return [{v: t for v, t in zip(variables, row, strict=True) if t is not None} for row in rows]
        case Group():
            return grouped(pattern, graph, outer)
        case Select():
            return selected(pattern, graph, outer)
        case WindowBlock(window, inner):
            assert isinstance(graph, Dataset)
            return solutions(inner, graph.windows[window], outer)
        case MatchPattern(number):
            assert isinstance(graph, Dataset)
            return [dict(mapping) for mapping in graph.matches[number]]


def scope(solution: Solution, graph: list[Triple], outer: Mapping[Variable, Term]) -> Scope:
    merged = {**outer, **solution}

    def exists(expression: Exists) -> bool:
        return any(agree(merged, s) for s in solutions(expression.pattern, graph, merged))

    return Scope(merged, exists=exists)


def agree(a: Mapping[Variable, Term], b: Mapping[Variable, Term]) -> bool:
    return all(a[v] == b[v] for v in a.keys() & b.keys())


def matches(item: BgpItem, graph: list[Triple], solution: Solution, outer: Mapping[Variable, Term]) -> list[Solution]:
    if isinstance(item, TermPattern):
        slots = (item.term, item.subject, item.predicate, item.object)
        terms = sorted(held(n for s, _, o in graph for n in (s, o)))
        pairs: Iterable[tuple[tuple[Slot, Term], ...]] = (tuple(zip(slots, (t, *parts(t)), strict=True)) for t in terms)
    elif isinstance(item, TriplePattern):
        places = (item.subject, item.predicate, item.object)
        near = graph.narrowed(fixed(slot, solution, outer) for slot in places) if isinstance(graph, Dataset) else graph
        pairs = (((item.subject, s), (item.predicate, p), (item.object, o)) for s, p, o in near)
    else:
        ends = [fixed(item.subject, solution, outer), fixed(item.object, solution, outer)]
        nodes = {n for s, _, o in graph for n in (s, o)} | {e for e in ends if e is not None}
        pairs = (((item.subject, s), (item.object, o)) for s, o in walk(item.path, graph, sorted(nodes)))
    result = []
    for pair in pairs:
        extended = dict(solution)
        if all(put(slot, term, extended, outer) for slot, term in pair):
            result.append(extended)
    return result


def fixed(slot: Slot, solution: Solution, outer: Mapping[Variable, Term]) -> Term | None:
    return slot.term if isinstance(slot, Const) else solution.get(slot.name, outer.get(slot.name))


def put(slot: Slot, term: Term, solution: Solution, outer: Mapping[Variable, Term]) -> bool:
    """Binds the slot to the term, if that is possible."""
    expected = fixed(slot, solution, outer)
    if expected is not None and expected != term:
        return False
    if not isinstance(slot, Const):
        solution[slot.name] = term
    return True


def walk(path: Path, graph: list[Triple], nodes: list[Term]) -> list[tuple[Term, Term]]:
    """All pairs that a path connects, with their multiplicity."""
    match path:
        case Link(predicate):
            return [(s, o) for s, p, o in graph if p == predicate]
        case Inverse(inner):
            return [(o, s) for s, o in walk(inner, graph, nodes)]
        case Sequence(left, right):
            return [(a, d) for a, b in walk(left, graph, nodes) for c, d in walk(right, graph, nodes) if b == c]
        case Alternative(left, right):
            return walk(left, graph, nodes) + walk(right, graph, nodes)
        case Negated(forward, backward):
            ahead = [(s, o) for s, p, o in graph if forward is not None and p not in forward]
            return ahead + [(o, s) for s, p, o in graph if backward is not None and p not in backward]
        case Repeat(inner, least, many):
            step = set(walk(inner, graph, nodes))
            reached = {(n, n) for n in nodes} if least == 0 else set()
            reached |= step
            while many:
                more = reached | {(a, d) for a, b in reached for c, d in step if b == c}
                if more == reached:
                    break
                reached = more
            return sorted(reached)


def solution_order(solution: Mapping[Variable, Term]) -> tuple[object, ...]:
    """The tie order of section 4: (name, value) pairs sorted by name, first with all blank nodes equal, then by their names."""
    pairs = sorted(solution.items())
    return [(v, anonymous(t)) for v, t in pairs], pairs


def selected(query: Select, graph: list[Triple], outer: Mapping[Variable, Term]) -> list[Solution]:
    inner = {v: t for v, t in outer.items() if v in query.projection}
    found = [
        (projected(query, s), [sort_key(computed(key.expression, scope(s, graph, inner))) for key in query.order])
        for s in solutions(query.pattern, graph, inner)
    ]
    found.sort(key=lambda row: solution_order(row[0]))
    for i, key in reversed(list(enumerate(query.order))):
        found.sort(key=lambda row: row[1][i], reverse=key.direction is Direction.DESCENDING)
    if query.distinct:
        found = [row for i, row in enumerate(found) if row[0] not in [other for other, _ in found[:i]]]
    end = len(found) if query.limit is None else query.offset + query.limit
    for cut in (query.offset, end):
        if 0 < cut < len(found) and found[cut - 1][0] != found[cut][0]:
            (before, sorted_before), (after, sorted_after) = found[cut - 1 : cut + 1]
            if sorted_before == sorted_after and solution_order(before)[0] == solution_order(after)[0]:
                raise NamesDecide
    return [row for row, _ in found[query.offset : end]]


def projected(query: Select, solution: Solution) -> Solution:
    return {v: solution[v] for v in query.projection if v in solution}


def grouped(group: Group, graph: list[Triple], outer: Mapping[Variable, Term]) -> list[Solution]:
    groups: dict[tuple[Term | None, ...], list[Solution]] = {} if group.keys else {(): []}
    for s in solutions(group.pattern, graph, outer):
        key = tuple(computed(expression, scope(s, graph, outer)) for _, expression in group.keys)
        groups.setdefault(key, []).append(s)
    result = []
    for key, members in groups.items():
        row = {v: t for (v, _), t in zip(group.keys, key, strict=True) if t is not None}
        for variable, aggregate in group.aggregates:
            term = aggregated(aggregate, members, graph, outer)
            if term is not None:
                row[variable] = term
        result.append(row)
    return result


def aggregated(call: AggregateCall, members: list[Solution], graph: list[Triple], outer: Mapping[Variable, Term]) -> Term | None:
    name = call.function.upper()
    if call.argument is None:
        rows = [tuple(sorted((v, t) for v, t in m.items() if not v.startswith(("_:", ".")))) for m in members]
        return term_of(Number("integer", Fraction(len(set(rows) if call.distinct else rows))))
    computed_terms = [computed(call.argument, scope(m, graph, outer)) for m in members]
    terms = [t for t in computed_terms if t is not None]
    if name not in ("COUNT", "SAMPLE") and None in computed_terms:
        return None  # the list of values keeps its errors; only these two are defined to pass over them (18.5.1)
    if call.distinct:
        terms = sorted(set(terms))
    if name == "GROUP_CONCAT":
        if any(t.startswith("_:") or is_triple_term(t) for t in terms):
            return None
        texts = [literal_parts(t)[0] if t.startswith('"') else t[1:-1] for t in sorted(terms)]  # the tie order is that of terms
        return literal((" " if call.separator is None else call.separator).join(texts))
    if name == "SAMPLE":
        return extreme(min, terms, lambda t: (t[:1], t))
    return aggregate_terms(name, terms)


def extreme(choose: Callable[..., Term], terms: list[Term], key: Callable[[Term], tuple[object, ...]]) -> Term | None:
    chosen = choose(terms, key=key) if terms else None
    if chosen is not None and blanks(chosen) and len({node for t in terms for node in blanks(t)}) > 1:
        raise NamesDecide
    return chosen


def aggregate_terms(name: str, terms: list[Term]) -> Term | None:
    """COUNT, SUM, AVG, MIN and MAX of terms; None where there is no value."""
    if name == "COUNT":
        return term_of(Number("integer", Fraction(len(terms))))
    if name in ("MIN", "MAX"):
        return extreme(min if name == "MIN" else max, terms, order_key)
    try:
        total = summed(terms)
    except Err:
        return None
    if name == "SUM":
        return term_of(total)
    # SPARQL makes the average of nothing 0; a rule's aggregate of no events is unbound (done by the caller).
    if not terms:
        return term_of(Number("integer", Fraction(0)))
    if isinstance(total.value, Fraction):
        return term_of(Number("decimal", quotient(total.value / len(terms))))
    average = total.value / len(terms)
    return term_of(Number(total.kind, single(average) if total.kind == "float" else average))


def quantile(terms: list[Term], p: Fraction) -> Term | None:
    """The number at place (n - 1) * p of the sorted ones, from 0, on the line between its neighbours (practice.md, 6)."""
    values = [value_of(term) for term in terms]
    numbers = sorted((v.value for v in values if isinstance(v, Number) and v.value == v.value), key=lambda n: (n, str(n)))
    if not values or not all(isinstance(v, Number) for v in values):
        return None
    if len(numbers) < len(values):
        return term_of(Number("double", math.nan))
    place = (len(numbers) - 1) * p
    low, high = numbers[math.floor(place)], numbers[math.ceil(place)]
    if low == high and isinstance(low, float) and math.isinf(low):
        return term_of(Number("double", low))
    if any(isinstance(n, float) and math.isinf(n) for n in (low, high)):
        infinite = {n for n in (low, high) if isinstance(n, float) and math.isinf(n)}
        return term_of(Number("double", infinite.pop() if len(infinite) == 1 else math.nan))
    return rounded_once(values, Fraction(low) + (Fraction(high) - Fraction(low)) * (place - math.floor(place)))


def spread(terms: list[Term], root: bool) -> Term | None:
    """The variance of a sample from its definition, or the double nearest to the root of it."""
    values = [value_of(term) for term in terms]
    if len(values) < 2 or not all(isinstance(v, Number) for v in values):
        return None
    if any(isinstance(v, Number) and isinstance(v.value, float) and not math.isfinite(v.value) for v in values):
        return term_of(Number("double", math.nan))
    numbers = [Fraction(v.value) for v in values if isinstance(v, Number)]
    mean = sum(numbers, Fraction(0)) / len(numbers)
    variance = sum(((n - mean) ** 2 for n in numbers), Fraction(0)) / (len(numbers) - 1)
    return term_of(Number("double", nearest_root(variance))) if root else rounded_once(values, variance)


def rounded_once(values: list[Value], exact: Fraction) -> Term | None:
    if any(isinstance(v, Number) and v.kind in ("double", "float") for v in values):
        return term_of(Number("double", as_float(exact) + 0.0))
    return term_of(Number("decimal", quotient(exact)))


def nearest_root(exact: Fraction) -> float:
    """The double whose square is nearest: between the middles to its neighbours, found by halving."""
    low, high = 0, 0x7FF0000000000000  # the bits of 0 and of INF; doubles and their bits ascend together
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if Fraction(of_bits(middle)) ** 2 <= exact else (low, middle)
    below = Fraction(of_bits(low))
    above = Fraction(of_bits(high)) if high != 0x7FF0000000000000 else Fraction(2) ** 1024
    half = ((below + above) / 2) ** 2
    return of_bits(low if exact < half or (exact == half and low % 2 == 0) else high)


def of_bits(bits: int) -> float:
    number: float = struct.unpack(">d", struct.pack(">Q", bits))[0]
    return number


def summed(terms: list[Term]) -> Number:
    """The exact sum, rounded once where a double or a float takes part."""
    total = Number("integer", Fraction(0))
    exact, special = Fraction(0), 0.0
    for term in terms:
        value = value_of(term)
        if not isinstance(value, Number):
            raise Err
        total = Number(promoted(total, value)[0], Fraction(0))
        if isinstance(value.value, float) and not math.isfinite(value.value):
            special += value.value
        else:
            exact += Fraction(value.value)
    if total.kind in ("integer", "decimal"):
        return Number(total.kind, exact)
    rounded = special if special != 0 else as_float(exact)
    return Number(total.kind, single(rounded) if total.kind == "float" else rounded)
