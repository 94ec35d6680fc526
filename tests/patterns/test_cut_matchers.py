"""Rules cut into stages give what they give in one piece, in any number of buckets: fresh names, limits and counts included.

`DOTR_EXAMPLES=1000` tries that many programs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import pytest

from dotr.engine.limit_letters import one_an_anchor
from dotr.engine.program import CompiledProgram, compile_program
from dotr.engine.spec import ProgramSpec
from dotr.errors.diagnostics import Refused
from dotr.joins.limits import Limits
from dotr.layout.stages import BindingStream
from dotr.model.places import Document
from dotr.model.stream import Element
from dotr.model.time import LAST_MICRO, Clock
from tests.patterns.test_patterns_limits import in_parts, limited, ran
from tests.patterns.test_rule_counts import counts_of, summaries
from tests.support.properties import EXAMPLES
from tests.support.random_chains import KINDS, ChainMaker
from tests.support.running import Batched, in_batches, outputs, run_engine

MOST = 3_000
BUCKETS = (1, 2, 3, 8)


def programs(text: str) -> tuple[CompiledProgram, CompiledProgram]:
    """A program in one piece, and cut."""
    spec = ProgramSpec((Document("rules.dotr", text),))
    return compile_program(spec), compile_program(replace(spec, cut=True))


def example(seed: int, kinds: Sequence[str] = KINDS) -> tuple[ChainMaker, CompiledProgram, CompiledProgram, list[Element]]:
    maker = ChainMaker(seed, kinds)
    try:
        whole, cut = programs(maker.program())
    except Refused as refused:
        pytest.skip(str(refused.diagnostics[0]))
    return maker, whole, cut, maker.stream()


def seeds(number: int) -> range:
    return range(int(EXAMPLES or number))


@pytest.mark.parametrize("seed", seeds(30))
def test_cut_equals_uncut(seed: int) -> None:
    maker, whole, cut, elements = example(seed)
    expected = list(run_engine(whole, elements, Clock(), most=MOST).outputs)
    if len(expected) > MOST:
        pytest.skip("too many outputs")
    cuts = [maker.choose(elements).time for _ in range(3)]
    for buckets in BUCKETS:
        assert outputs(in_batches(cut, elements, Clock(), buckets, cuts)) == expected


def counted(program: CompiledProgram, elements: Sequence[Element], buckets: int) -> dict[str, tuple[int, int, int | None]]:
    batched = Batched(program, Clock(), buckets)
    batched.batch(elements, LAST_MICRO)
    return summaries(batched.rule_counts)


@pytest.mark.parametrize("seed", seeds(20))
def test_limits_and_counts_of_cut_rules(seed: int) -> None:
    """The product of a branch travels with its binding: what goes over the limit does so in one piece and in many."""
    maker, whole, cut, elements = example(seed + 1_000_000, ("each", "each", "each", "last 2", "last"))
    limits = Limits(matches=maker.choose([1, 2, 3, 5, 8, 20]))
    whole, cut = limited(whole, limits), limited(cut, limits)
    firings, letters = ran(whole, elements)
    expected = summaries(counts_of(whole, elements, Clock()))
    for buckets in BUCKETS:
        found, left = in_parts(cut, elements, buckets, [maker.choose(elements).time])
        assert outputs(found) == outputs(firings)
        assert Counter(one_an_anchor(left, whole.rules.rules)) == Counter(letters)
        assert counted(cut, elements, buckets) == expected


def test_a_hundred_rules_alike_are_one_binding() -> None:
    """Rules alike up to constants send one row for all of them that the binding satisfies."""
    rules = [
        f"""rule R{number} define E{number} = [ :one :v ?v ] from A as One [ FILTER(?v > {number}) ]
        and each B as Two [ FILTER(?k = One.?k) ] within 5 s from One and last C as Three [ FILTER(?w = Two.?w) ] within 5 s from Two
        with E{number}.?v = Three.?v"""
        for number in range(100)
    ]
    queries = "".join(f"query {label} = [ SELECT ?k ?v ?w WHERE {{ ?x a :{label} ; :k ?k ; :v ?v ; :w ?w }} ]\n" for label in "ABC")
    _, cut = programs("PREFIX : <http://e/>\n" + queries + "\n".join(rules))
    _, last = cut.layout.layers
    assert len({port.stream for port in last.ports if isinstance(port.stream, BindingStream)}) == 1

    def report(label: str, v: int) -> tuple[tuple[str, str, str], ...]:
        values = {"k": "<http://e/i>", "v": f'"{v}"^^<http://www.w3.org/2001/XMLSchema#integer>', "w": "<http://e/j>"}
        about = (("_:0", f"<http://e/{name}>", value) for name, value in values.items())
        return (("_:0", "<http://www.w3.org/1999/02/22-rdf-syntax-ns#type>", f"<http://e/{label}>"), *about)

    batched = Batched(cut, Clock(), 2)
    elements = [Element(1, report("C", 5)), Element(2, report("B", 7)), Element(2, report("B", 8)), Element(3, report("A", 70))]
    layer = batched.layers[0]
    sent: list[str | None] = []
    step = layer.step

    def noted(*arguments: object, **named: object) -> object:
        result = step(*arguments, **named)  # type: ignore[arg-type]
        sent.extend(values[0] for stream, (_, values) in result.events if isinstance(stream, BindingStream))
        return result

    layer.step = noted  # type: ignore[method-assign, assignment]
    assert len(batched.batch(elements, LAST_MICRO)) == 2 * 70
    assert [len((each or "").split()) for each in sent] == [70, 70]
