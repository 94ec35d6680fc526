"""Limits of stage two: exact per rule and anchor, independent of grouping, partitions and
batches."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace

import pytest
from hypothesis import given, note
from hypothesis import strategies as st

from dotr.api.session import Session
from dotr.engine.driver import Engine
from dotr.engine.program import CompiledProgram
from dotr.engine.spec import ProgramSpec
from dotr.evaluation.limits import Limits
from dotr.languages.programs import compile_program
from dotr.model.places import Document
from dotr.model.stream import DeadLetter, Element, Firing, Reason, output_order
from dotr.model.terms import literal
from dotr.model.time import LAST_MICRO, Clock
from dotr.temporal.matching import events as found_module
from dotr.temporal.matching.matcher import compile as matcher_module
from tests.oracle.cases import world
from tests.oracle.program import Result, run
from tests.oracle.temporal import Over
from tests.oracle.triple_terms import anonymous
from tests.support.properties import MOST, examples, oracle, output_signatures
from tests.support.running import Batched, by_time, outputs, partitioned
from tests.support.strategies import ProgramText
from tests.support.strategies_streams import streams
from tests.temporal.matching.test_rule_templates import HEADER, crowded, dense, rules_of_one_template, thresholds

PREFIX = "PREFIX : <http://example.org/>\n"


def program_of(rules: str, limits: Limits | None = None) -> CompiledProgram:
    """A program whose limits apply to stage two alone (None: the default ones)."""
    program = compile_program(ProgramSpec((Document("rules.dotr", rules),)))
    return program if limits is None else limited(program, limits)


def limited(program: CompiledProgram, limits: Limits) -> CompiledProgram:
    """The program with other limits in stage two."""
    return replace(program, spec=replace(program.spec, limits=limits))


def ran(program: CompiledProgram, elements: Iterable[Element], clock: Clock | None = None) -> tuple[list[Firing], list[DeadLetter]]:
    """The firings and dead letters of a run in one process."""
    engine = Engine(program, clock or Clock())
    firings = [f for time, graphs in by_time(elements).items() for f in engine.step(time, graphs)[0]]
    firings += [f for moment in engine.finish() for f in moment]
    return firings, engine.failed


def in_parts(
    program: CompiledProgram, elements: Sequence[Element], buckets: int, cuts: Sequence[int]
) -> tuple[list[Firing], list[DeadLetter]]:
    """The firings and dead letters of a run in buckets and batches."""
    batched = Batched(program, Clock(), buckets)
    firings: list[Firing] = []
    after = -LAST_MICRO
    for closed in [*sorted(set(cuts)), LAST_MICRO]:
        firings += batched.batch([element for element in elements if after < element.time <= closed], closed)
        after = closed
    return sorted(firings, key=output_order), batched.failed


def overs(letters: Iterable[DeadLetter]) -> Counter[Over]:
    """The exceeded limits of dead letters, in the oracle's form."""
    exceeded: Counter[Over] = Counter()
    for letter in letters:
        assert letter.reason is Reason.LIMIT
        assert letter.input == f"rule {letter.text}"
        assert letter.time is not None
        matched = re.fullmatch(
            r"rule (\S+) goes over a limit at its anchor \S+ (.*): more than .* (branch|tried), at the clause (.*)", letter.why
        )
        assert matched is not None, letter.why
        rule, anchor, limit, clause = matched.groups()
        label = clause.split()[-1] if limit == "branch" else None
        exceeded[Over(letter.time, rule, frozenset(json.loads(anchor).items()), label)] += 1
    return exceeded


def nameless(found: Iterable[Over]) -> Counter[object]:
    """The outputs up to the labels of blank nodes."""
    return Counter((o.time, o.rule, o.clause, tuple(sorted((name, anonymous(term)) for name, term in o.anchor))) for o in found)


def by_brute_force(program: CompiledProgram, text: ProgramText, elements: Sequence[Element]) -> Result:
    read = world(program.rules, [text.background], [("d.dlog", text.datalog)], text.entailment, clock=text.clock)
    return run(replace(read, limits=program.spec.limits), elements, 5 * MOST)


def joined(rules: Sequence[str]) -> ProgramText:
    return ProgramText(HEADER + "\n".join(rules), HEADER[: HEADER.index("query")], "", "none")


LIMITS = st.builds(
    lambda matches, probes: Limits(matches=matches, probes=probes),
    st.sampled_from([1, 2, 3, 5, 8, 1000]),
    st.sampled_from([3, 7, 12, 25, 60, 20_000_000, 20_000_000, 20_000_000]),
)
CUTS = st.lists(st.integers(0, 9).map(lambda n: n * 1_000_000), max_size=3)


def check(rules: list[str], elements: list[Element], limits: Limits, cuts: list[int], *, unlimited: bool = False) -> None:
    """Rules together obey limits as each alone and as the oracle. `unlimited`: they also match so without limits. The programs are
    compiled once for both, which takes most of the time."""
    text = joined(rules)
    note(f"{limits}\n{text.rules}")
    for element in elements:
        note(f"{element.time}: {' . '.join(map(' '.join, element.triples))}")
    group, single = program_of(text.rules), [program_of(HEADER + rule) for rule in rules]
    check_limits(limited(group, limits), [limited(each, limits) for each in single], text, elements, cuts)
    if unlimited:
        check_matches(group, single, text, elements)


def check_limits(
    together: CompiledProgram, single: Sequence[CompiledProgram], text: ProgramText, elements: list[Element], cuts: list[int]
) -> None:
    firings, letters = ran(together, elements)
    assert max(overs(letters).values(), default=1) == 1
    alone: Counter[tuple[object, ...]] = Counter()
    exceeded: Counter[Over] = Counter()
    for program in single:
        fired, left = ran(program, elements)
        alone += output_signatures(outputs(fired))
        exceeded += overs(left)
    assert overs(letters) == exceeded
    assert output_signatures(outputs(firings)) == alone
    expected = by_brute_force(together, text, elements)
    if not expected.decided_by_names and not expected.too_much:
        assert nameless(overs(letters)) == nameless(expected.over)
        assert output_signatures(outputs(firings)) == output_signatures(expected.outputs)
    for buckets in (1, 3):
        fired, left = in_parts(together, elements, buckets, cuts)
        assert outputs(fired) == outputs(sorted(firings, key=output_order))
        assert Counter(left) == Counter(letters)


def check_matches(together: CompiledProgram, single: Sequence[CompiledProgram], text: ProgramText, elements: list[Element]) -> None:
    found = output_signatures(outputs(partitioned(together, elements, 1)))
    alone: Counter[tuple[object, ...]] = Counter()
    for program in single:
        alone += output_signatures(outputs(partitioned(program, elements, 3, reload=True)))
    assert found == alone
    assert found == output_signatures(oracle(text, elements, together).outputs)


@examples(150)
@given(rules_of_one_template(), st.one_of(dense(), streams()), LIMITS, CUTS)
def test_grouped_rules_match_and_obey_the_limits_as_single_rules(
    rules: list[str], elements: list[Element], limits: Limits, cuts: list[int]
) -> None:
    check(rules, elements, limits, cuts, unlimited=True)


@examples(60)
@given(thresholds(), crowded(), LIMITS, CUTS)
def test_grouped_thresholds_obey_the_limits_as_single_rules(
    rules: list[str], elements: list[Element], limits: Limits, cuts: list[int]
) -> None:
    check(rules, elements, limits, cuts)


def check_random(program: CompiledProgram, text: ProgramText, elements: list[Element], limits: Limits) -> None:
    """A program of any rules obeys limits as the oracle does (`test_patterns_semantics`)."""
    note(f"{limits}")
    program = limited(program, limits)
    firings, letters = ran(program, elements, text.clock)
    expected = by_brute_force(program, text, elements)
    if not expected.decided_by_names and not expected.too_much:
        assert nameless(overs(letters)) == nameless(expected.over)
        assert output_signatures(outputs(firings)) == output_signatures(expected.outputs)


# --- by hand ---

PAIRS = """
query A = [ SELECT ?x ?v WHERE { ?x :p ?v } ]
rule R define C = [ [] :x ?x ; :y ?y ; :z ?z ]
from A and each A as B within [0, 10 s] from A and each A as D within [0, 10 s] from A
with C.?x = A.?v, C.?y = B.?v, C.?z = D.?v
"""


def number(value: int) -> str:
    return literal(str(value), "http://www.w3.org/2001/XMLSchema#integer")


def instant(size: int, time: int = 1, first: int = 0) -> Element:
    """Several readings at one time."""
    triples = [(f"<http://example.org/n{n:05}>", "<http://example.org/p>", number(n)) for n in range(first, first + size)]
    return Element(time * 1_000_000, tuple(triples))


def test_anchor_with_too_many_branches_is_one_dead_letter() -> None:
    program = program_of(PREFIX + PAIRS, Limits(matches=12))
    for size, branches in ((4, 24), (5, 60)):
        firings, letters = ran(program, [instant(size)])
        assert len(firings) == (branches if (size - 1) * (size - 2) <= 12 else 0)
        assert len(letters) == (0 if (size - 1) * (size - 2) <= 12 else size)
    firings, letters = ran(program, [instant(6)])
    assert firings == []
    assert letters[0] == DeadLetter(
        Reason.LIMIT,
        "rule R",
        "rules.dotr",
        4,
        1_000_000,
        "R",
        'rule R goes over a limit at its anchor A {"v": "\\"0\\"^^<http://www.w3.org/2001/XMLSchema#integer>", '
        '"x": "<http://example.org/n00000>"}: more than 12 matches of a branch, at the clause each D',
    )


def test_other_branches_of_a_limited_anchor_match() -> None:
    """Each B has as many D as its value; only the B with five exceeds the limit."""
    rules = (
        PREFIX
        + """
    query A = [ SELECT ?x WHERE { ?x :a 1 } ]
    query B = [ SELECT ?x ?k WHERE { ?x :b ?k } ]
    query D = [ SELECT ?x ?k WHERE { ?x :d ?k } ]
    rule R define C = [ [] :x ?x ; :y ?y ]
    from A and each B within [0, 10 s] from A and each D [ FILTER(?k = B.?k) ] within [0, 10 s] from A
    with C.?x = B.?k, C.?y = D.?x
    """
    )
    e = "<http://example.org/"
    b = [(f"{e}b{n}>", f"{e}b>", f"{e}k{n}>") for n in range(3)]
    d = [(f"{e}d{n}-{m}>", f"{e}d>", f"{e}k{n}>") for n, many in enumerate((1, 5, 2)) for m in range(many)]
    element = Element(1_000_000, ((f"{e}a>", f"{e}a>", number(1)), *b, *d))
    firings, letters = ran(program_of(rules, Limits(matches=6)), [element])
    assert Counter(dict(f.attributes)["x"] for f in firings) == {f"{e}k0>": 1, f"{e}k2>": 2}
    assert [letter.why.endswith("at the clause each D") for letter in letters] == [True]
    assert ran(program_of(rules, Limits(matches=15)), [element])[1] == []


@pytest.mark.parametrize("limit", [Limits(matches=2), Limits(probes=2)])
def test_anchor_over_a_limit_consumes_nothing(limit: Limits) -> None:
    rules = (
        PREFIX
        + """
    query A = [ SELECT ?x WHERE { ?x :a ?v } ]
    query B = [ SELECT ?x WHERE { ?x :b ?v } ]
    rule R define C = [ [] :x ?x ] from A and each B within 2 s from A with C.?x = B.?x consuming B
    """
    )

    def element(time: int, *names: str) -> Element:
        triples = [(f"<http://example.org/{name}>", f"<http://example.org/{name[0]}>", number(1)) for name in names]
        return Element(time * 1_000_000, tuple(triples))

    stream = [element(1, "b1", "b2"), element(2, "b3"), element(3, "a"), element(4, "a"), element(5, "a")]
    firings, letters = ran(program_of(rules, limit), stream)
    assert [(f.time // 1_000_000, dict(f.attributes)["x"][-3:]) for f in firings] == [(4, "b3>")]
    assert len(letters) == 1


def test_candidates_of_an_anchor_are_limited() -> None:
    """The latest five candidates are rejected."""
    rules = (
        PREFIX
        + """
    query A = [ SELECT ?x ?v WHERE { ?x :p ?v } ]
    rule R define C = [ [] :x ?x ] from A [ FILTER(?v = 9) ] and last A as B [ FILTER(?v < A.?v - 5) ] within [0, 0] from A with C.?x = B.?x
    """
    )
    for probes, fired in ((6, 0), (7, 1)):
        firings, letters = ran(program_of(rules, Limits(probes=probes)), [instant(10)])
        assert (len(firings), len(letters)) == (fired, 1 - fired)
    assert ran(program_of(rules, Limits(probes=6)), [instant(10)])[1][0].why.endswith("more than 6 candidates tried, at the clause last B")


def test_equal_dead_letters_are_reported_once() -> None:
    rules = PREFIX + PAIRS.replace("?x ?v WHERE", "?v WHERE").replace("?p ?v", "?p ?v")
    triples = [(f"<http://example.org/n{n}>", "<http://example.org/p>", number(n % 2)) for n in range(8)]
    firings, letters = ran(program_of(rules, Limits(matches=5)), [Element(1_000_000, tuple(triples))])
    assert firings == []
    assert len(letters) == 2


def test_many_matches_are_emitted_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Matches in parts of any size are the same, names of equal ones and events of other rules
    included."""
    rules = (
        PREFIX
        + PAIRS.replace("[] :x ?x", "dotr_id1 :x ?x").replace("?x ?v WHERE", "?v WHERE")
        + """
    rule Over define E = [ dotr_id1 :n ?n ] from C [ FILTER(?x = ?y) ] and ?n = count(*) of C as O within [0, 0] from C with E.?n = ?n
    """
    )
    triples = [(f"<http://example.org/n{n}>", "<http://example.org/p>", number(n % 3)) for n in range(9)]
    elements = [Element(1_000_000, tuple(triples)), Element(2_000_000, tuple(triples[:4]))]
    program = program_of(rules, Limits())
    expected, _ = ran(program, elements)
    assert len({f.graph for f in expected}) == len(expected) > 1_000
    for many in (1, 7, 100):
        monkeypatch.setattr(found_module, "FLUSH_SIZE", many)
        monkeypatch.setattr("dotr.temporal.matching.operator.FLUSH_SIZE", many)
        monkeypatch.setattr(matcher_module, "_GROUP_MATCHES", 5 * many)
        monkeypatch.setattr("dotr.temporal.stage_two._CHUNK_SIZE", many // 2 + 1)
        sizes: list[int] = []
        got: list[Firing] = []

        def put(firings: list[Firing], sizes: list[int] = sizes, got: list[Firing] = got) -> None:
            sizes.append(len(firings))
            got.extend(firings)

        engine = Engine(program, Clock(), emit=put)
        for time, graphs in by_time(elements).items():
            got += engine.step(time, graphs)[0]
        assert sorted(got, key=output_order) == expected
        assert max(sizes) <= many // 2 + 1


def test_session_warns_of_an_exceeded_limit(caplog: pytest.LogCaptureFixture) -> None:
    with Session(program_of(PREFIX + PAIRS, Limits(matches=5))) as session:
        assert session.advance(1, "@prefix : <http://example.org/> . " + " ".join(f":n{n} :p {n} ." for n in range(4))) == []
    assert len(caplog.messages) == 4
    assert caplog.messages[0].startswith("rules.dotr:4: rule R goes over a limit at its anchor A {")
