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
from dotr.model.stream import DeadLetter, Firing, output_order
from dotr.model.terms import XSD, Triple, literal
from dotr.model.time import Clock
from dotr.temporal.matching import operator
from dotr.temporal.matching.events import SearchStart, anchor_of
from dotr.temporal.matching.matcher import compile_matcher
from dotr.temporal.matching.matcher.compile import LoneSearch, Matcher
from dotr.temporal.matching.operator import MANY_GROUPS
from dotr.temporal.matching.rule_counts import RuleCounts

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
