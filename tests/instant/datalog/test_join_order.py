"""Rules whose atoms share a value are joined in the order of what is selective: the work of a closure, counted.

Work is the number of triples and rows that the loops of delta rules visit, and of look-ups. Each family has n things that share one
value, so that a join that begins with this value visits n * n of them for about n conclusions.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from typing import Final

import pytest

from dotr.evaluation.codegen.builder import WorkCount
from dotr.evaluation.triples.index import TripleIndex
from dotr.instant.datalog.background.knowledge import Knowledge, close_background
from dotr.instant.datalog.closure.derivations import RuleWriter
from dotr.instant.datalog.closure.instant import Closer, RuleDispatch
from dotr.instant.datalog.entailment import Entailment, rule_set
from dotr.model.datalog import DatalogRule
from dotr.model.places import Document
from dotr.model.terms import OWL, RDF_FIRST, RDF_NIL, RDF_REST, RDF_TYPE, RDFS, Triple, iri
from dotr.syntax.datalog import parse_datalog

SUBCLASS, SUBPROPERTY = iri(RDFS + "subClassOf"), iri(RDFS + "subPropertyOf")


def e(name: str) -> str:
    return f"<http://e/{name}>"


def restriction(number: int, kind: str, property: str, filler: str) -> Iterator[Triple]:
    yield e(f"R{number}"), iri(OWL + "onProperty"), e(property)
    yield e(f"R{number}"), iri(OWL + kind), e(filler)


def fillers(kind: str, count: int) -> Iterator[Triple]:
    """Restrictions on one property, on fillers in classes of five."""
    for n in range(count):
        yield from restriction(n, kind, "part", f"F{n}")
        yield e(f"F{n}"), SUBCLASS, e(f"F{n - n % 5}")


def properties(kind: str, count: int) -> Iterator[Triple]:
    """Restrictions on one filler or value, on properties below others."""
    for n in range(count):
        yield from restriction(n, kind, f"p{n}", "F")
        yield e(f"p{n}"), SUBPROPERTY, e(f"p{n - n % 5}")


def either(kind: str, count: int) -> Iterator[Triple]:
    """Half of the restrictions share the property, the others the filler: no order is good for both."""
    yield from fillers(kind, count // 2)
    for n in range(count // 2, count):
        yield from restriction(n, kind, f"p{n}", "F")
        yield e(f"p{n}"), SUBPROPERTY, e(f"p{n - n % 5}")


def keyed(values: Sequence[Callable[[int], str]], count: int) -> Iterator[Triple]:
    """Things of one class that has a key of several properties."""
    yield e("K"), iri(OWL + "hasKey"), e("l0")
    for number in range(len(values)):
        yield e(f"l{number}"), RDF_FIRST, e(f"k{number}")
        yield e(f"l{number}"), RDF_REST, e(f"l{number + 1}") if number + 1 < len(values) else RDF_NIL
    for n in range(count):
        yield e(f"x{n}"), RDF_TYPE, e("K")
        for number, value in enumerate(values):
            yield e(f"x{n}"), e(f"k{number}"), e(f"{number}{value(n)}")


def inverse_functional(count: int) -> Iterator[Triple]:
    yield e("id"), RDF_TYPE, iri(OWL + "InverseFunctionalProperty")
    yield e("code"), SUBPROPERTY, e("id")
    for n in range(count):
        yield e(f"x{n}"), e("code"), e(f"v{n // 2}")
        yield e(f"x{n}"), e("of"), e("one")


def individuals(kind: str, count: int) -> Iterator[Triple]:
    """Restrictions on one property, each with an individual that has it."""
    for n in range(count):
        yield from restriction(n, kind, "part", f"F{n}")
        yield e(f"x{n}"), e("part"), e(f"F{n}" if kind == "hasValue" else f"y{n}")
        yield e(f"x{n}"), RDF_TYPE, e(f"R{n}")
        yield e(f"y{n}"), RDF_TYPE, e(f"F{n}")


def shared(_: int) -> str:
    return "one"


def pairs(n: int) -> str:
    return f"v{n // 2}"


OWL_FAMILIES: Final[dict[str, Callable[[int], Iterator[Triple]]]] = {
    "scm-svf1": lambda n: fillers("someValuesFrom", n),
    "scm-svf2": lambda n: properties("someValuesFrom", n),
    "scm-svf1 and scm-svf2": lambda n: either("someValuesFrom", n),
    "scm-avf1": lambda n: fillers("allValuesFrom", n),
    "scm-avf2": lambda n: properties("allValuesFrom", n),
    "scm-hv": lambda n: properties("hasValue", n),
    "prp-key, one": lambda n: keyed([pairs], n),
    "prp-key, the first shared": lambda n: keyed([shared, pairs], n),
    "prp-key, the second shared": lambda n: keyed([pairs, shared], n),
    "prp-key, half of each": lambda n: keyed([lambda x: f"v{x % 2 * x}", lambda x: f"v{(x + 1) % 2 * x}"], n),
    "prp-key, three": lambda n: keyed([shared, pairs, shared], n),
    "prp-key, the third of three": lambda n: keyed([shared, shared, pairs], n),
    "prp-key, the third of four": lambda n: keyed([shared, shared, pairs, shared], n),
    "prp-ifp": inverse_functional,
    "cls-svf1": lambda n: individuals("someValuesFrom", n),
    "cls-avf": lambda n: individuals("allValuesFrom", n),
    "cls-hv2": lambda n: individuals("hasValue", n),
}


def devices(count: int) -> Iterator[Triple]:
    """All on one floor; a door leads from each room to another."""
    for n in range(count):
        yield e(f"d{n}"), e("at"), e(f"r{n}")
        yield e(f"d{n}"), e("floor"), e("ground")
        yield e(f"r{n}"), e("door"), e(f"r{n * 7 % count}")


def halls(count: int) -> Iterator[Triple]:
    """Half of the devices share the floor, the others a hall with a door to every room."""
    for n in range(count):
        yield e(f"d{n}"), e("at"), e(f"r{n}" if n % 2 else "hall")
        yield e(f"d{n}"), e("floor"), e("ground" if n % 2 else f"f{n // 4}")
        yield e(f"r{n}" if n % 2 else "hall"), e("door"), e(f"r{n}")


def crowd(count: int) -> Iterator[Triple]:
    """All on one floor; one of them is special."""
    for n in range(count):
        yield e(f"d{n}"), e("floor"), e("ground")
    yield e("d1"), e("chief"), e("yes")
    yield e("d1"), RDF_TYPE, e("Chief")


def star(count: int) -> Iterator[Triple]:
    """Lines into a node and out of it, of which one goes on."""
    for n in range(count):
        yield e(f"a{n}"), e("in"), e("hub")
        yield e("hub"), e("out"), e(f"c{n}")
    yield e("c1"), e("on"), e("end")


PREFIX: Final = "PREFIX : <http://e/>\n"
NEAR: Final = ":near[?a, ?b] :- :at[?a, ?x], :floor[?a, ?f], :at[?b, ?y], :floor[?b, ?f], :door[?x, ?y] ."
DATALOG_FAMILIES: Final[dict[str, tuple[Callable[[int], Iterator[Triple]], str]]] = {
    "near": (devices, NEAR),
    "near, or through a hall": (halls, NEAR),
    "next": (devices, ":next[?x, ?y] :- :floor[?a, ?f], :floor[?b, ?f], :at[?a, ?x], :at[?b, ?y], :door[?x, ?y] ."),
    "a derived door": (devices, ":way[?x, ?y] :- :door[?x, ?y] .\n" + NEAR.replace(":door", ":way")),
    "a rare property": (crowd, ":leads[?b, ?a] :- :floor[?a, ?f], :floor[?b, ?f], :chief[?b, ?z] ."),
    "a rare class": (crowd, ":leads[?b, ?a] :- :floor[?a, ?f], :floor[?b, ?f], :Chief[?b] ."),
    "a chain through a hub": (star, ":to[?a, ?d] :- :in[?a, ?b], :out[?b, ?c], :on[?c, ?d] ."),
}


@pytest.fixture
def work(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], object]], int]:
    """A function that runs another, and returns the work of the rules compiled in it."""
    total = 0

    def passed(count: int, seen: list[int]) -> int:
        nonlocal total
        total += count - (seen[-1] if seen else 0)
        seen[:] = [count]
        return count

    begin = RuleWriter.begin

    def counted(writer: RuleWriter, arguments: Sequence[str]) -> None:
        writer._count = WorkCount(0, passed, is_repeated=True)
        begin(writer, arguments)
        writer.assign("rows", "[]")  # of this call: what it has counted so far

    monkeypatch.setattr(RuleWriter, "begin", counted)

    def of(run: Callable[[], object]) -> int:
        nonlocal total
        total = 0
        run()
        return total

    return of


def datalog(text: str) -> list[DatalogRule]:
    return list(parse_datalog(Document("d.dlog", PREFIX + text), {}))


def in_another_order(triples: Sequence[Triple]) -> list[Triple]:
    return random.Random(7).sample(triples, len(triples))


@pytest.mark.parametrize("name", OWL_FAMILIES)
def test_work_of_the_rows_of_owl_is_linear(name: str, work: Callable[[Callable[[], object]], int]) -> None:
    """In any order; a premise that another row concludes in the same round may be found in this round or the next."""
    few, many = (list(OWL_FAMILIES[name](count)) for count in (40, 160))
    rules = rule_set(Entailment.OWL2RL)
    small = work(lambda: close_background(few, rules))
    assert small > 0
    assert work(lambda: close_background(many, rules)) <= 5 * small
    assert work(lambda: close_background(in_another_order(many), rules)) <= 5 * small


@pytest.mark.parametrize("name", DATALOG_FAMILIES)
def test_work_of_rules_is_linear_and_the_same_in_any_order(name: str, work: Callable[[Callable[[], object]], int]) -> None:
    make, text = DATALOG_FAMILIES[name]
    few, many = (list(make(count)) for count in (40, 160))
    rules = datalog(text)
    small = work(lambda: close_background(few, rules))
    assert 0 < small == work(lambda: close_background(in_another_order(few), rules))
    assert work(lambda: close_background(many, rules)) <= 5 * small


@pytest.mark.parametrize("name", DATALOG_FAMILIES)
def test_work_of_an_instant_is_linear(name: str, work: Callable[[Callable[[], object]], int]) -> None:
    make, text = DATALOG_FAMILIES[name]
    few, many = (list(make(count)) for count in (40, 160))
    rules = RuleDispatch(datalog(text))
    small = work(lambda: Closer(rules, TripleIndex()).close(few))
    assert small > 0
    assert work(lambda: Closer(rules, TripleIndex()).close(many)) <= 5 * small


@pytest.mark.parametrize("kind", ["someValuesFrom", "allValuesFrom", "hasValue"])
def test_work_of_an_instant_does_not_grow_with_the_restrictions(kind: str, work: Callable[[Callable[[], object]], int]) -> None:
    rules = rule_set(Entailment.OWL2RL)
    instant = [triple for triple in individuals(kind, 5) if triple[0].startswith(("<http://e/x", "<http://e/y"))]
    found = []
    for count in (40, 160):
        schema = [triple for triple in individuals(kind, count) if triple[0].startswith("<http://e/R")]
        knowledge = Knowledge.load(schema, rules)
        found.append((work(lambda: knowledge.close(instant)), len(knowledge.close(instant).delta)))  # noqa: B023
    assert found[0] == found[1] > (0, len(instant) - 1)


def test_work_of_a_stratum_is_linear(work: Callable[[Callable[[], object]], int]) -> None:
    """A rule with NOT is evaluated over the model below at once."""
    rules = datalog(NEAR.replace(" .", ", NOT :broken[?a, ?a] ."))
    few, many = (list(devices(count)) for count in (40, 160))
    small = work(lambda: Knowledge.load(few, rules))
    assert small > 0
    assert work(lambda: Knowledge.load(many, rules)) <= 5 * small


def test_body_of_more_atoms_than_loops_nest() -> None:
    """The choice is in front of more loops than CPython compiles in one function."""
    atoms = [f":p[?v{n}, ?v{n + 1}]" for n in range(24)]
    rules = datalog(f":q[?v0, ?v24] :- :p[?v0, ?w], :p[?w, ?v2], {', '.join(atoms)} .")
    chain = [(e(f"n{n}"), e("p"), e(f"n{n + 1}")) for n in range(25)]
    assert {t for t in close_background(chain, rules).triples if t[1] == e("q")} == {
        (e(f"n{n}"), e("q"), e(f"n{n + 24}")) for n in range(2)
    }
