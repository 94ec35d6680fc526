"""Clauses changed during a stream: those that are as before keep their events, whatever else of their rules has changed."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import event, given
from hypothesis import strategies as st

from dotr import Session
from dotr.engine.state.migration import state_change
from dotr.engine.state.schema import StateSchema, state_schema
from dotr.languages.programs import compile_program
from dotr.model.stream import Element
from dotr.model.terms import XSD, Triple
from dotr.model.time import LAST_MICRO, Clock
from tests.engine.state import test_state_migration as changing
from tests.oracle.program import Change, World, run
from tests.support.properties import examples
from tests.support.running import Batched, outputs

S = 1_000_000

LEFT = {
    "anchor": ["?v > 1", "?v > 4", "true"],
    "delay": ["", "", "delayed by 2 s", "delayed by 4 s"],
    "mode": ["each", "last", "first", "last 2"],
    "old": ["?w > 2", "?w > 3", "?w < 8"],
    "tie": ["?room = Now.?room", "?room = Now.?room", "?w != Now.?v"],
    "window": ["within [0, 6 s] from Now", "within [0, 6 s] from Now", "within 4 s from Now"],
    "number": ["Heavy = count(*)", "Heavy = max(Some.?v)"],
    "some": ["?v > 3", "?v > 5"],
    "span": ["within 7 s from Now", "within 3 s from Old", "between Old and Now"],
    "if": ["BOUND(?heavy)", "?heavy > 1", "Old.?w > Now.?v || ?heavy > 2"],
    "template": [":left", ":gone"],
    "with": ["?heavy", "?heavy + 1"],
    "further": ["", "", ", Left.?again = Old.?w"],
    "consuming": ["", "", "consuming Old", "consuming Some"],
    "once": ["", "", "once in 3 s per ?room"],
}
PAIR = {
    "heavy": ["?heavy > 0", "?heavy > 2"],
    "within": ["within 9 s from Left", "within [1 s, 5 s] from Left"],
    "mode": ["each", "last"],
    "if": ["true", "Left.?heavy > 1"],
}


def text(left: dict[str, str], pair: dict[str, str]) -> str:
    return f"""rule Left "{left["template"]}" define Left = [ [] {left["template"]} ?room ; :n ?heavy ]
from Now = [ SELECT ?room ?v WHERE {{ ?r :room ?room ; :value ?v . FILTER({left["anchor"]}) }} ] {left["delay"]}
and {left["mode"]} Old = [ SELECT ?room ?w WHERE {{ ?r :room ?room ; :value ?w . FILTER({left["old"]} && {left["tie"]}) }} ]
{left["window"]}
and ?{left["number"].replace("Heavy", "heavy")} of Reading as Some [ FILTER(?room = Now.?room && {left["some"]}) ] {left["span"]}
if {left["if"]} with Left.?room = Now.?room, Left.?heavy = {left["with"]}{left["further"]} {left["consuming"]} {left["once"]}
rule Pair define Pair = [ [] :pair ?room ; :n ?heavy ] from Left
and {pair["mode"]} Left as Earlier [ FILTER(?room = Left.?room && {pair["heavy"]}) ] {pair["within"]}
if {pair["if"]} with Pair.?room = Left.?room, Pair.?heavy = Earlier.?heavy"""


def choice(parts: dict[str, list[str]]) -> st.SearchStrategy[dict[str, str]]:
    return st.fixed_dictionaries({name: st.sampled_from(variants) for name, variants in parts.items()})


@st.composite
def edits(draw: st.DrawFn, parts: dict[str, list[str]]) -> tuple[dict[str, str], dict[str, str]]:
    """The parts of a rule, and those after an edit of at most three of them."""
    before = draw(choice(parts))
    changed = draw(st.sets(st.sampled_from(sorted(parts)), max_size=3))
    return before, {name: draw(st.sampled_from(parts[name])) if name in changed else each for name, each in before.items()}


OWN = {"Old": {"old", "window"}, "Some": {"some", "span"}, "Earlier": {"heavy", "within"}}
"""The parts on which the events of a clause depend."""


@examples(25)
@given(edits(LEFT), edits(PAIR), changing.streams(), st.integers(1, 3), st.data())
def test_events_after_an_edit_are_those_of_the_new_rules_over_the_events_that_are_kept(
    left: tuple[dict[str, str], dict[str, str]],
    pair: tuple[dict[str, str], dict[str, str]],
    elements: list[Element],
    buckets: int,
    data: st.DataObject,
) -> None:
    before, after = [changing.program([text(*parts)]) for parts in zip(left, pair, strict=True)]
    if data.draw(st.booleans(), label="in stages"):
        before, after = [compile_program(replace(made.spec, cut=True)) for made in (before, after)]
    cut = data.draw(st.integers(0, len(elements) - 2), label="cut")
    at, clock = elements[cut].time, Clock()
    schema = StateSchema.of_json(state_schema(before).to_json())
    found = state_change(schema, after, at)
    lost = {(verdict.rule, role.label): role.why for verdict in found.verdicts for role in verdict.roles if role.old is None}
    parts = {name for sides in (left, pair) for name in sides[0] if sides[0][name] != sides[1][name]}
    for rule, label in [("Left", "Old"), ("Left", "Some"), ("Pair", "Earlier")]:
        consumed = {side["consuming"] for side in left if side["consuming"].endswith(label)}
        is_changed = bool(OWN[label] & parts) or (len(consumed) == 1 and left[0]["consuming"] != left[1]["consuming"])
        assert is_changed or lost.get((rule, label), "of each key").startswith("of each key"), (label, lost, parts)
        assert not is_changed or (rule, label) in lost, (label, lost, parts)
    assert (("Left", "Now") in lost) == (bool({"anchor", "delay"} & parts) and any(side["delay"] for side in left))
    event(f"{len(lost)} roles start empty")
    starting = set(lost) | ({("Left", "")} if left[0]["once"] != left[1]["once"] else set())
    expected = run(World(rules=before.rules.rules), elements, change=Change(at, after.rules.rules, frozenset(starting)))
    first = Batched(before, clock, buckets)
    got = first.batch(elements[: cut + 1], at)
    second, _, _ = changing.continued(first, schema, after, at)
    got += second.batch(elements[cut + 1 :], LAST_MICRO)
    if not expected.decided_by_names:
        ordered = sorted(outputs(got), key=lambda o: (o.time, o.rule, sorted(o.attributes.items())))
        assert [replace(each, graph=frozenset()) for each in ordered] == [replace(each, graph=frozenset()) for each in expected.outputs]


HEADER = "query Level = [ SELECT ?room ?v WHERE { ?r :room ?room ; :value ?v } ]\n"
RULE = """rule Left "somebody left" define Left = [ [] :left ?room ] from Level as Now [ FILTER(?v > 4) ] delayed by 2 s
and each Level as Start [ FILTER(?room = Now.?room && ?v > 1) ] within 9 s from Now
and not Level as Heavy [ FILTER(?room = Now.?room && ?v > 7) ] within 9 s from Now
if Start.?v < 9 with Left.?room = Now.?room, Left.?v = Start.?v + 1"""


def verdict(old: str, new: str, rule: str = RULE) -> str:
    before, after = changing.program([rule]), changing.program([rule.replace(old, new)])
    assert old in rule
    found = state_change(StateSchema.of_json(state_schema(before).to_json()), after, 7 * S)
    (told,) = map(str, found.verdicts)
    return told


@pytest.mark.core
@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("somebody left", "the room is empty", "keeps its state"),
        ("Start.?v < 9", "Start.?v < 8", "keeps its state: it has changed outside of its clauses"),
        ("Start.?v + 1", "Start.?v + 2", "keeps its state: it has changed outside of its clauses"),
        (":left ?room", ":gone ?room", "keeps its state: it has changed outside of its clauses"),
        ("?v > 7", "?v > 6", "keeps Now, Start; Heavy starts empty: its FILTER has changed"),
        ("?v > 1)", "?v > 2)", "keeps Now, Heavy; Start starts empty: its FILTER has changed"),
        ("?v > 1) ] within 9 s", "?v > 1) ] within 8 s", "keeps Now, Heavy; Start starts empty: its window has changed"),
        ("?v > 4", "?v > 5", "keeps Start, Heavy; Now starts empty: its FILTER has changed"),
        ("2 s", "3 s", "keeps Start, Heavy; Now starts empty: its delay has changed"),
        ("delayed by 2 s", "", "keeps Start, Heavy; Now starts empty: it is not delayed any more"),
        ("Start.?v + 1", "Start.?v + 1 consuming Start", "keeps Now, Heavy; Start starts empty: its consumption has changed"),
        ("not Level as Heavy", "not Level as Large", "keeps Now, Start; Large starts empty: it is new"),
        ("Level as Start [", "Reading as Start [", "keeps its state: it has changed outside of its clauses"),
    ],
)
def test_state_is_told_by_clause(old: str, new: str, told: str) -> None:
    rule = HEADER + RULE
    assert verdict(old, new, rule) == f"rule Left {told}"


@pytest.mark.core
def test_only_clause_that_starts_empty_is_told() -> None:
    rule = RULE.replace(" delayed by 2 s", "").replace("Level", "Reading").partition("and not")[0] + "with Left.?room = Now.?room"
    assert verdict("?v > 1", "?v > 2", rule) == "rule Left: Start starts empty: its FILTER has changed"
    assert verdict("?v > 4", "?v > 5", rule) == "rule Left keeps its state: it has changed outside of its clauses"
    assert verdict("each", "last 2", rule) == "rule Left keeps its state: it has changed outside of its clauses"
    last = rule.replace("each", "last")
    assert verdict("last", "each", last) == "rule Left: Start starts empty: of each key the newest event alone was kept"


def reading(room: str, value: int) -> tuple[Triple, ...]:
    return ("_:r", "<http://e/room>", f"<http://e/{room}>"), ("_:r", "<http://e/value>", f'"{value}"^^<{XSD}integer>')


MAKER = "rule Hot define Hot = [ [] :hot ?room ] from Reading [ FILTER(?v > 3) ] with Hot.?room = Reading.?room"
READER = """rule Twice define Twice = [ [] :twice ?room ] from Reading as Now
and each Hot [ FILTER(?room = Now.?room) ] within 9 s from Now with Twice.?room = Now.?room"""


@pytest.mark.core
@pytest.mark.parametrize("further", ["", ", Hot.?v = Reading.?v", ", Hot.?a = 1"])
def test_reader_keeps_the_events_that_a_changed_rule_made_before(further: str) -> None:
    """Also where the events have another attribute now, which those of before lack."""
    session = Session(changing.program([MAKER, READER]))
    session.advance(1, reading("a", 4))
    then = changing.program([MAKER.replace("?v > 3", "?v > 5") + further, READER])
    restored = Session.restored(then, session.save())
    made = [(each.time, each.rule) for time, value in ((2, 4), (3, 6), (4, 1)) for each in restored.advance(time, reading("a", value))]
    assert made == [(2, "Twice"), (3, "Hot"), (3, "Twice"), (4, "Twice"), (4, "Twice")]


@pytest.mark.core
def test_consumed_events_stay_consumed_where_the_condition_changes() -> None:
    rule = """rule Left define Left = [ [] :left ?room ] from Reading as Now
and last Reading as Start [ FILTER(?room = Now.?room && ?v > 1) ] within 9 s from Now
if Start.?v < {} with Left.?room = Now.?room, Left.?v = Start.?v consuming Start"""
    session = Session(changing.program([rule.format(9)]))
    values = [(1, 5), (2, 1), (3, 1)]
    assert [len(session.advance(time, reading("a", value))) for time, value in values] == [0, 1, 0]
    restored = Session.restored(changing.program([rule.format(8)]), session.save())
    assert restored.advance(4, reading("a", 1)) == []
    assert restored.advance(5, reading("a", 6)) == []
    assert len(restored.advance(6, reading("a", 1))) == 1


@pytest.mark.core
def test_a_clause_reads_no_older_event_where_it_shares_a_store() -> None:
    rule = """rule Left define Left = [ [] :left ?room ] from Reading as Now
and not Reading as Low [ FILTER(?room = Now.?room && ?v < {}) ] within 9 s from Now
and each Reading as Start [ FILTER(?room = Now.?room && ?v > 1) ] within 9 s from Now with Left.?room = Now.?room, Left.?v = Start.?v"""
    session = Session(changing.program([rule.format(2)]))
    session.advance(1, reading("a", 3))
    restored = Session.restored(changing.program([rule.format(4)]), session.save())
    assert [each.attributes["v"] for each in restored.advance(2, reading("a", 5))] == [f'"3"^^<{XSD}integer>']
    assert len(restored.advance(3, reading("a", 3))) == 2
    assert restored.advance(4, reading("a", 5)) == []
