"""The fast path for a fact that is alone in its instant: results and state equal those of a general
step."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Iterable, Sequence

import pytest

from dotr.engine.driver import Engine
from dotr.engine.program import CompiledProgram
from dotr.engine.spec import ProgramSpec
from dotr.evaluation.limits import Limits
from dotr.languages.programs import compile_program
from dotr.model.places import Document
from dotr.model.stream import DeadLetter, Element, Firing, output_order
from dotr.model.terms import XSD, Triple, literal
from dotr.model.time import Clock
from dotr.temporal.matching import operator
from dotr.temporal.matching.event_store import RunStore
from dotr.temporal.matching.events import SearchStart, anchor_of
from dotr.temporal.matching.matcher import compile_matcher
from dotr.temporal.matching.matcher.compile import LoneSearch, Matcher
from dotr.temporal.matching.operator import MANY_GROUPS
from dotr.temporal.matching.rule_counts import RuleCounts
from tests.oracle.cases import world
from tests.oracle.program import run
from tests.oracle.temporal import Output
from tests.support.properties import output_signatures
from tests.support.running import by_time

pytestmark = pytest.mark.fallbacks("rules")

SECOND = 1_000_000
HEADER = "PREFIX : <http://e/>\n" + "".join(f"query {name} = [ SELECT ?k ?v WHERE {{ ?k :{name.lower()} ?v }} ]\n" for name in ("A", "B"))
WITHIN = "[ FILTER(?k = A.?k && ?v >= {n}) ] within 9 s from A"
FORMS = {
    "last": f"and last B {WITHIN}",
    "each": f"and each B {WITHIN}",
    "not": f"and not B {WITHIN}",
    "count": f"and ?x = count(*) of B {WITHIN} if ?x > 1",
    "consuming": f"and last B {WITHIN}",
    "any": "and each B within 9 s from A",
    "equal": "and each B [ FILTER(?v = A.?v) ] within 9 s from A",
    "two": "and last B within 9 s from A and each B as Other [ FILTER(?k = A.?k) ] within 9 s from A",
    "same": "and each A as Other [ FILTER(?k = A.?k) ] within [0 s, 9 s] from A and not B [ FILTER(?v > 99) ] within 9 s from A",
}


def program(form: str, rules: int, limits: Limits) -> CompiledProgram:
    text = HEADER
    for n in range(rules):
        clause, end = FORMS[form].replace("{n}", str(2 * n)), " consuming B" if form == "consuming" else ""
        text += f"rule R{n} define E{n} = [ [] :v ?v ] from A [ FILTER(?v >= {n}) ] {clause} with E{n}.?v = A.?v{end}\n"
    return compile_program(ProgramSpec((Document("r.dotr", text),), limits=limits))


def instants() -> Iterable[tuple[int, list[tuple[Triple, ...]]]]:
    """Instants of 400 s, mostly with one fact, sometimes with none or two."""
    chosen = random.Random(7)

    def triple() -> Triple:
        key, predicate = f"<http://e/k{chosen.randrange(2)}>", f"<http://e/{chosen.choice('abb')}>"
        return key, predicate, literal(chosen.choice(("", "0")) + str(chosen.randrange(9)), XSD + "integer")

    for second in range(400):
        yield second * SECOND, [(triple(),) for _ in range(chosen.choice((0, 1, 1, 1, 1, 2)))]


def ran(program: CompiledProgram, *, lone: bool) -> tuple[list[Firing], list[DeadLetter], dict[str, RuleCounts], list[bytes], int]:
    """Firings, dead letters, counts and state; and the number of instants on the fast path."""
    found: list[Firing] = []
    fast = 0
    engine = Engine(program, Clock(), emit=found.extend)
    (layer,) = engine._layers
    original = layer.step_fact

    def step_fact(*arguments: object, **named: object) -> object:
        nonlocal fast
        fast += 1
        return original(*arguments, **named)  # type: ignore[arg-type]

    layer.step_fact = step_fact  # type: ignore[method-assign, assignment]
    if not lone:
        engine._lone = None
    for time, graphs in instants():
        found += engine.step(time, graphs)[0]
    assert all(group != MANY_GROUPS for group in layer._operator.lone_groups)
    return sorted(found, key=output_order), engine.failed, engine.rule_counts, engine.encode(400 * SECOND), fast


@pytest.mark.parametrize("rules", [1, 4])
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("limits", [Limits(), Limits(matches=2), Limits(probes=3)], ids=["free", "matches", "probes"])
@pytest.mark.parametrize("many", [1, 30, 1000])
def test_step_of_a_lone_fact_equals_a_general_step(
    form: str, rules: int, limits: Limits, many: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(operator, "MANY_FACTS", many)
    *expected, never = ran(program(form, rules, limits), lone=False)
    *got, fast = ran(program(form, rules, limits), lone=True)
    assert got == expected
    assert (never, fast > 200) == (0, True)
    if limits == Limits():
        assert expected[0]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("rules", [1, 4])
def test_state_that_is_written_often_is_that_of_general_steps(form: str, rules: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between two questions for the state the store of B does without a log, where it has one index that only stores."""
    monkeypatch.setattr(operator, "MANY_FACTS", 3)
    compiled, chosen = program(form, rules, Limits()), random.Random(rules)
    general, lone = Engine(compiled, Clock()), Engine(compiled, Clock())
    general._lone = None
    without_log = 0
    for time, graphs in instants():
        assert lone.step(time, graphs)[0] == general.step(time, graphs)[0]
        without_log += any(isinstance(store, RunStore) for store in lone._states[0].stores)
        match chosen.randrange(60):
            case 0:
                assert lone.encode(time) == general.encode(time)
            case 1:
                assert lone.event_counts == general.event_counts
            case 2:
                lone.reload()
                general.reload()
    assert lone.encode(400 * SECOND) == general.encode(400 * SECOND)
    assert lone.rule_counts == general.rule_counts
    has_log_always = form in ("count", "two") or (form, rules) == ("consuming", 4)  # an aggregate, two indexes, a run for each rule
    assert (without_log > 40) == (not has_log_always)


def random_rules(chosen: random.Random) -> str:
    """One to three rules from A with one or two clauses of B or A, each with an equality or none, and a threshold or none."""
    text, consuming = HEADER, ""
    for n in range(chosen.choice((1, 1, 2, 3))):
        clauses = []
        for place in range(chosen.choice((1, 1, 1, 2))):
            mode, label = chosen.choice(("last", "last", "each", "first", "not", "last 2")), chosen.choice("BBBA")
            tests = chosen.sample(("?k = A.?k", f"?v >= {chosen.randrange(6)}", "?v < A.?v"), chosen.randrange(3))
            window = chosen.choice(("within 9 s", "within 40 s", "within [0 s, 20 s]", "within [5 s, 30 s]"))
            where = f" [ FILTER({' && '.join(tests)}) ]" if tests else ""
            clauses.append(f"and {mode} {label} as L{place}{where} {window} from A")
            consuming = f" consuming L{place}" if mode not in ("not", "last 2") and not chosen.randrange(4) else ""
        text += f"rule R{n} define E{n} = [ [] :v ?v ] from A {' '.join(clauses)} with E{n}.?v = A.?v{consuming}\n"
    return text


def agree_with_the_oracle(seed: int) -> bool:
    """Compares one random program over a stream of facts that are mostly alone; true if a store did without a log."""
    chosen = random.Random(seed)
    compiled = compile_program(ProgramSpec((Document("r.dotr", random_rules(chosen)),)))
    elements, time = [], 0
    for _ in range(90):
        time += chosen.choice((1, 1, 2, 5, 11, 45 if not chosen.randrange(9) else 3)) * SECOND
        for _ in range(chosen.choice((1, 1, 1, 1, 1, 2))):
            value = literal(chosen.choice(("", "0")) + str(chosen.randrange(9)), XSD + "integer")
            elements.append(Element(time, ((f"<http://e/k{chosen.randrange(3)}>", f"<http://e/{chosen.choice('abb')}>", value),)))
    general, lone = Engine(compiled, Clock()), Engine(compiled, Clock())
    general._lone = None
    found, without_log = list[Firing](), False
    for now, graphs in by_time(elements).items():
        firings = lone.step(now, graphs)[0]
        assert firings == general.step(now, graphs)[0]
        found += firings
        without_log |= any(isinstance(store, RunStore) for store in lone._states[0].stores)
        if not chosen.randrange(20):
            assert lone.encode(now) == general.encode(now)
    assert lone.encode(time) == general.encode(time)
    expected = run(world(compiled.rules, [], [], "none"), elements).outputs
    outputs = [Output(f.time, f.rule, f.event, dict(f.attributes), frozenset(f.graph or ()), f.dropped) for f in found]
    assert output_signatures(outputs) == output_signatures(expected)
    return without_log


def test_lone_facts_agree_with_the_oracle(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(operator, "MANY_FACTS", 2)
    assert sum(map(agree_with_the_oracle, range(12))) >= 4


@pytest.mark.soak
def test_many_lone_facts_agree_with_the_oracle(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(operator, "MANY_FACTS", 2)
    assert sum(map(agree_with_the_oracle, range(100, 700))) >= 200


def test_failed_generated_function_is_retried_by_rule(monkeypatch: pytest.MonkeyPatch) -> None:
    """The search of a generated function fails at each A of value 5; the separate rule does not."""

    def failing(*arguments: object, **named: object) -> Matcher:
        matcher = compile_matcher(*arguments, **named)  # type: ignore[arg-type]
        assert matcher.lone is not None
        search = matcher.lone()
        assert search is not None
        (begin,) = [n for n, line in enumerate(search.lines) if line.endswith("(event,):")]
        lines = [*search.lines[: begin + 1], "        if fails(e0): raise RuntimeError('a fault')", *search.lines[begin + 1 :]]
        names = {**search.names, "fails": lambda event: event[2][-1] == literal("5", XSD + "integer")}
        return dataclasses.replace(matcher, lone=lambda: LoneSearch(lines, names))

    *expected, _ = ran(program("each", 4, Limits()), lone=False)
    monkeypatch.setattr(operator, "MANY_FACTS", 1)
    monkeypatch.setattr(operator, "compile_matcher", failing)
    *got, _ = ran(program("each", 4, Limits()), lone=True)
    assert got[0] == expected[0]
    assert got[1] == []


@pytest.mark.parametrize("rules", [1, 4])
@pytest.mark.parametrize("form", ["last", "each"])
def test_failed_group_at_a_lone_fact_equals_a_general_step(form: str, rules: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A group fails at each A of value 5, and so does each of its rules separately."""

    def failing(*arguments: object, **named: object) -> Matcher:
        matcher = compile_matcher(*arguments, **named)  # type: ignore[arg-type]

        def find(anchors: Iterable[SearchStart], *rest: object) -> None:
            starts: Sequence[SearchStart] = list(anchors)
            matcher.find(starts, *rest)  # type: ignore[arg-type]
            if any(anchor_of(start)[2][-1] == literal("5", XSD + "integer") for start in starts):
                raise RuntimeError("a fault")

        return dataclasses.replace(matcher, find=find)

    monkeypatch.setattr(operator, "compile_matcher", failing)
    *expected, _ = ran(program(form, rules, Limits()), lone=False)
    *got, _ = ran(program(form, rules, Limits()), lone=True)
    assert got == expected
    assert expected[1]
