"""Rules cut into stages have the output of uncut rules, in any number of buckets: fresh names, limits and counts included.

`DOTR_EXAMPLES=1000` tries that many programs.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace

import pytest
from hypothesis import assume, given

from dotr.engine.multi_query import share_queries
from dotr.engine.program import CompiledProgram
from dotr.engine.spec import ProgramSpec
from dotr.errors.diagnostics import Refused
from dotr.errors.fallbacks import EXPECTED
from dotr.evaluation.limits import Limits
from dotr.languages.programs import compile_program
from dotr.model.places import Document
from dotr.model.stream import Element, Reason
from dotr.model.time import LAST_MICRO, Clock, Micros
from dotr.runtimes.spark.sink import one_letter_per_anchor
from dotr.temporal.layout.layers import lay_out
from dotr.temporal.layout.stages import BindingStream
from dotr.temporal.matching import operator
from dotr.temporal.matching.events import EnteringBinding, SearchStart
from dotr.temporal.matching.matcher import compile_matcher
from dotr.temporal.matching.matcher.compile import Matcher
from tests.evaluation.codegen.test_codegen_golden import cut_matcher
from tests.support.properties import EXAMPLES, compiled, examples, shown
from tests.support.random_chains import KINDS, ChainMaker
from tests.support.running import Batched, in_batches, outputs, run_engine
from tests.support.strategies import PLAIN, ProgramText
from tests.support.strategies import programs as rule_programs
from tests.support.strategies_streams import streams
from tests.temporal.matching.test_patterns_limits import in_parts, limited, ran
from tests.temporal.matching.test_patterns_semantics import CUTS
from tests.temporal.matching.test_rule_counts import counts_of, summaries

MOST = 3_000
BUCKETS = (1, 2, 3, 8)


def programs(text: str) -> tuple[CompiledProgram, CompiledProgram]:
    """A program, uncut and cut."""
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


@pytest.mark.parametrize("seed", seeds(15))
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


@pytest.mark.parametrize("seed", seeds(8))
def test_limits_and_counts_of_cut_rules(seed: int) -> None:
    """A binding holds the product of its branch, so cut rules exceed a limit exactly when uncut rules do."""
    maker, whole, cut, elements = example(seed + 1_000_000, ("each", "each", "each", "last 2", "last"))
    limits = Limits(matches=maker.choose([1, 2, 3, 5, 8, 20]))
    whole, cut = limited(whole, limits), limited(cut, limits)
    firings, letters = ran(whole, elements)
    expected = summaries(counts_of(whole, elements, Clock()))
    for buckets in BUCKETS:
        found, left = in_parts(cut, elements, buckets, [maker.choose(elements).time])
        assert outputs(found) == outputs(firings)
        assert Counter(one_letter_per_anchor(left, whole.rules.rules)) == Counter(letters)
        assert counted(cut, elements, buckets) == expected


@examples(25)
@given(rule_programs(PLAIN), streams(), CUTS)
def test_every_construct_may_be_cut(text: ProgramText, elements: list[Element], cuts: list[Micros]) -> None:
    """Programs of all productions of the rule language's grammar."""
    shown(text, elements)
    whole = compiled(text)
    expected = list(run_engine(whole, elements, text.clock, most=MOST).outputs)
    assume(len(expected) <= MOST)
    cut = replace(whole, spec=replace(whole.spec, cut=True), layout=lay_out(share_queries(whole.rules.rules), cut=True))
    for buckets in (1, 3):
        assert outputs(in_batches(cut, elements, text.clock, buckets, cuts)) == expected


@pytest.mark.parametrize("copies", [1, 3])
def test_a_binding_that_fails_twice_is_one_dead_letter(copies: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The dead letter names rule and anchor once; other branches of the anchor and other rules of the template match."""
    rules = [
        f"""rule R{number} define E{number} = [ dotr_id :v ?v ] from A as One [ FILTER(?v > {number}) ]
        and each B as Two [ FILTER(?k = One.?k) ] within 5 s from One and last C as Three [ FILTER(?w = Two.?v) ] within 5 s from Two
        with E{number}.?v = Two.?v"""
        for number in range(copies)
    ]
    monkeypatch.setenv(EXPECTED, "all")
    monkeypatch.setattr(operator, "compile_matcher", hostile_at_bound(13))
    _, cut = programs(HEADER_OF_THREE + "\n".join(rules))
    elements = [report(1, "C", v=0, w=w) for w in (11, 12, 13)] + [report(2, "B", v=v) for v in (11, 12, 13, 13)] + [report(3, "A", v=70)]
    for buckets in (1, 2, 3):
        firings, letters = in_parts(cut, elements, buckets, [])
        assert Counter(firing.rule for firing in firings) == {f"R{number}": 2 for number in range(copies)}
        assert sorted(letter.input for letter in letters) == [f"rule R{number}" for number in range(copies)]
        assert {letter.reason for letter in letters} == {Reason.FAILED}
        assert all(json.loads(letter.text) == {"event": "One", "attributes": VALUES_OF_ANCHOR} for letter in letters)
        assert all("ZeroDivisionError: hostile" in letter.why for letter in letters)


def hostile_at_bound(value: int) -> Callable[..., Matcher]:
    """Matchers fail at a binding that has an event with the value."""

    def compiling(*arguments: object) -> Matcher:
        matcher = compile_matcher(*arguments)  # type: ignore[arg-type]

        def find(starts: Iterable[SearchStart], *rest: object) -> None:
            def watched() -> Iterator[SearchStart]:
                for start in starts:
                    yield start
                    if isinstance(start, EnteringBinding) and f'"{value}"' in repr(start.bound):
                        raise ZeroDivisionError("hostile")

            matcher.find(watched(), *rest)  # type: ignore[arg-type]

        return replace(matcher, find=find)

    return compiling


HEADER_OF_THREE = "PREFIX : <http://e/>\n" + "".join(
    f"query {label} = [ SELECT ?k ?v ?w WHERE {{ ?x a :{label} ; :k ?k ; :v ?v ; :w ?w }} ]\n" for label in "ABC"
)
VALUES_OF_ANCHOR = {
    "k": "<http://e/i>",
    "v": '"70"^^<http://www.w3.org/2001/XMLSchema#integer>',
    "w": '"0"^^<http://www.w3.org/2001/XMLSchema#integer>',
}


def report(time: int, label: str, *, v: int, w: int = 0) -> Element:
    """A report of one event."""
    values = {"k": "<http://e/i>", **{name: f'"{n}"^^<http://www.w3.org/2001/XMLSchema#integer>' for name, n in (("v", v), ("w", w))}}
    about = (("_:0", f"<http://e/{name}>", value) for name, value in values.items())
    return Element(time, (("_:0", "<http://www.w3.org/1999/02/22-rdf-syntax-ns#type>", f"<http://e/{label}>"), *about))


def test_bindings_of_equal_anchors_are_adjacent() -> None:
    """Equal matches have consecutive ordinals in any order of their bindings; a rule with an unsatisfied clause has no match."""
    decode = cut_matcher(1).decode
    assert decode is not None
    anchors = ("<http://e/a>", "<http://e/b>", "<http://e/a>")
    rows = [("0 2", "4", "7", str(n), "1", value, "5", "0", "1", value) for n, value in enumerate(anchors)]
    found = decode([(9, 0, row) for row in rows])
    assert [(*binding.anchor[:2], binding.size) for binding in found] == [(7, 0, 4), (7, 2, 4), (7, 1, 4)]
    assert [row[0] for row in found[0].rows] == [0, 2]
    assert found[0].bound == ((5, 0, ("1", "<http://e/a>")),)


def test_a_hundred_rules_of_one_template_send_one_binding() -> None:
    """Rules of one template send a single row for all rules that the binding satisfies."""
    rules = [
        f"""rule R{number} define E{number} = [ :one :v ?v ] from A as One [ FILTER(?v > {number}) ]
        and each B as Two [ FILTER(?k = One.?k) ] within 5 s from One and last C as Three [ FILTER(?w = Two.?w) ] within 5 s from Two
        with E{number}.?v = Three.?v"""
        for number in range(100)
    ]
    _, cut = programs(HEADER_OF_THREE + "\n".join(rules))
    _, last = cut.layout.layers
    assert len({port.stream for port in last.ports if isinstance(port.stream, BindingStream)}) == 1

    batched = Batched(cut, Clock(), 2)
    elements = [report(1, "C", v=5), report(2, "B", v=7), report(2, "B", v=8), report(3, "A", v=70)]
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
