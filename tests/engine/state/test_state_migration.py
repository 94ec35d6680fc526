"""Rules changed during a stream: unchanged rules continue, those of which nothing is kept behave as if started there."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from dotr import Session
from dotr.engine.program import CompiledProgram
from dotr.engine.spec import ProgramSpec
from dotr.engine.state.migration import StateFate, StateMigrator, merge_parts, state_change
from dotr.engine.state.schema import StateSchema, knowledge_digests, state_schema
from dotr.languages.programs import compile_program
from dotr.model.places import Document
from dotr.model.stream import Element, Firing, output_order
from dotr.model.terms import XSD
from dotr.model.time import LAST_MICRO, Clock, Micros
from dotr.temporal.matching.state import StateSnapshot
from tests.support.properties import examples
from tests.support.running import Batched
from tests.support.stored_checkpoints import CUT, SMALL, Story, read, remaining_outputs
from tests.support.stored_program import WHOLE

S = 1_000_000
HEADER = """PREFIX : <http://e/>
query Reading = [ SELECT ?room ?v WHERE { ?r :room ?room ; :value ?v } ]
"""

HIGH = "[ SELECT ?room ?v WHERE {{ ?r :room ?room ; :value ?v . FILTER(?v > {}) }} ]"
"""Queries equal up to a filter share a stream; the shared query depends on all of them."""


def jump(least: int, window: int, name: str = "Jump") -> str:
    return f"""rule {name} define {name} = [ [] :at ?room ; :by ?by ] from Now = {HIGH.format(least)}
and last Before = [ SELECT ?room2 ?v2 WHERE {{ ?r :room ?room2 ; :value ?v2 . FILTER(?v2 > {least} && ?room2 = Now.?room) }} ]
within {window} s from Now with {name}.?room = Now.?room, {name}.?by = Now.?v - Before.?v2"""


def any_room(least: int, window: int) -> str:
    """A rule without a key."""
    return f"""rule Any define Any = [ [] :v ?v ; :w ?w ] from Reading
and each High = {HIGH.format(least)} within [1 s, {window} s] from Reading with Any.?v = Reading.?v, Any.?w = High.?v"""


def consuming(number: int) -> str:
    return f"""rule Eaten define Eaten = [ dotr_id1 :room ?room ; :n ?n ] from Reading as Now
and first Reading as Old [ FILTER(?room = Now.?room && ?v < Now.?v) ] within 9 s from Now
and ?n = count(*) of Reading as Some [ FILTER(?room = Now.?room && ?v > {number}) ] within 8 s from Now
if ?n > 0 with Eaten.?room = Now.?room, Eaten.?n = ?n consuming Old, Some"""


def pair(window: int) -> str:
    """A rule over another rule's events under another key: a further layer."""
    return f"""rule Pair define Pair = [ [] :one ?one ; :other ?other ] from Jump
and each Jump as Earlier [ FILTER(?by = Jump.?by) ] within {window} s from Jump
with Pair.?one = Jump.?room, Pair.?other = Earlier.?room"""


def quiet(delay: int) -> str:
    return f"""rule Quiet define Quiet = [ dotr_id1 :quiet ?room ] from High = {HIGH.format(4)} delayed by {delay} s
and not Reading as Next [ FILTER(?room = High.?room) ] within [0, {delay} s) from High with Quiet.?room = High.?room"""


def ticked(every: int) -> str:
    return f"""rule Ticked define Ticked = [ [] :n ?n ] from every {every} s as Tick
and ?n = count(*) of Reading as All within [0, 6 s) from Tick with Ticked.?n = ?n"""


def run(most: int) -> str:
    """A recursive rule, which also reads the events of `Start`."""
    return f"""rule Run define Run = [ [] :run ?n ] from Reading as Now
and each Run as Before [ FILTER(?room = Now.?room && ?n < {most}) ] within 7 s from Now
with Run.?room = Now.?room, Run.?n = Before.?n + 1"""


START = "rule Start define Run = [ [] :run ?n ] from Reading as Now [ FILTER(?v > 6) ] with Run.?room = Now.?room, Run.?n = 1"
LATER = "rule Later define Later = [ :x :of ?room ] from Reading as R [ FILTER(?v > {}) ] delayed by 3 s with Later.?room = R.?room"

SELDOM = """rule Seldom define Seldom = [ [] :at ?room ; :v ?v ] from Reading as R [ FILTER(?v > {}) ]
with Seldom.?room = R.?room, Seldom.?v = R.?v once in 5 s per ?room"""
LONE = """rule Lone define Lone = [ [] :at ?room ] from Reading as Now
and last 2 Reading as Old [ FILTER(?room = Now.?room && ?v > {}) ] within 9 s from Now
with Lone.?room = Now.?room, Lone.?old = Old.?v consuming Old once in 2 s per ?old"""
BY_VALUE = """rule ByValue define ByValue = [ [] :quiet ?room ] from Reading as R delayed by R.?v at most {} s
and not Reading as Next [ FILTER(?room = R.?room) ] within [0, 5 s) from R with ByValue.?room = R.?room, ByValue.?since = time(R)"""

STANDING = """rule Standing define Standing = [ [] :at ?room ; :v ?v ] from Reading as Now
and last Reading as Old [ FILTER(?room = Now.?room) ] {} with Standing.?room = Now.?room, Standing.?v = Old.?v"""
NOVEL = """rule Novel define Novel = [ [] :at ?room ] from Reading as Now
and not Reading as Old [ FILTER(?room = Now.?room && ?v > {}) ] {} with Novel.?room = Now.?room"""
TWICE = """rule Twice define Twice = [ [] :at ?room ; :v ?v ] from Reading as Now
and last Reading as One [ FILTER(?room = Now.?room && ?v > 3) ] within [0, 5 s] from Now
and {} last Reading as Two [ FILTER(?room = Now.?room) ] within [0, 7 s] from Now with Twice.?room = Now.?room, Twice.?v = Two.?v"""

RULES: dict[str, list[str]] = {
    "Jump": [jump(2, 9), jump(2, 5), jump(0, 9)],
    "Leap": [jump(1, 8, "Leap"), jump(5, 8, "Leap")],
    "Any": [any_room(3, 4), any_room(5, 4)],
    "Eaten": [consuming(3), consuming(1)],
    "Pair": [pair(9), pair(6)],
    "Quiet": [quiet(2), quiet(4)],
    "Ticked": [ticked(3), ticked(4)],
    "Start": [START],
    "Run": [run(3), run(4)],
    "Later": [LATER.format(3), LATER.format(5)],
    "Seldom": [SELDOM.format(2), SELDOM.format(0)],
    "Lone": [LONE.format(2), LONE.format(0)],
    "Standing": [STANDING.format(window) for window in ("before Now", "within 9 s from Now", "within 4 s from Now")],
    "Novel": [NOVEL.format(3, "before Now"), NOVEL.format(3, "within 9 s from Now"), NOVEL.format(5, "before Now")],
    "Twice": [TWICE.format(word) for word in ("also", "")],
    "ByValue": [BY_VALUE.format(8), BY_VALUE.format(5)],
}


def program(rules: list[str], background: str = "", header: str = HEADER) -> CompiledProgram:
    return compile_program(ProgramSpec((Document("rules.dotr", header + "\n".join(rules)),), (Document("b.dlog", background),)))


@st.composite
def programs(draw: st.DrawFn) -> list[list[str]]:
    """The rules of three programs, each derived from the one before."""
    made: list[list[str]] = [[], [], []]
    for name, variants in RULES.items():
        number = draw(st.sampled_from([None, *range(len(variants))]), label=name)
        for rules in made:
            rules += [] if number is None else [variants[number]]
            number = draw(st.sampled_from([number, number, number, number, None, *range(len(variants))]), label=f"{name} then")
    for rules in made:
        defined = {rule.split()[1] for rule in rules}
        assume("Pair" not in defined or "Jump" in defined)
    return [draw(st.permutations(rules)) for rules in made]


@st.composite
def streams(draw: st.DrawFn) -> list[Element]:
    readings = st.tuples(st.integers(0, 2), st.integers(0, 9))
    instants = draw(st.lists(st.lists(readings, max_size=3), min_size=2, max_size=24))
    predicates = "<http://e/room>", "<http://e/value>"
    found, time = [], 0
    for readings_now in instants:
        time += draw(st.integers(1, 3)) * S
        triples = []
        for number, (room, value) in enumerate(readings_now):
            triples.append((f"_:{number}", predicates[0], f"<http://e/r{room}>"))
            triples.append((f"_:{number}", predicates[1], f'"{value}"^^<http://www.w3.org/2001/XMLSchema#integer>'))
        found.append(Element(time, tuple(triples)))
    return found


def continued(
    run: Batched, before: StateSchema, changed: CompiledProgram, now: Micros
) -> tuple[Batched, StateSchema, dict[str, StateFate]]:
    """The run as another program continues it, the schema of its state, and the fate of each rule."""
    found = state_change(before, changed, now)
    changed = compile_program(replace(changed.spec, since=found.since))
    assert state_schema(changed) == found.after == StateSchema.of_json(found.after.to_json())
    migrator = StateMigrator(before, found.after, changed, run.clock, run.buckets)
    following = Batched(changed, run.clock, run.buckets)
    parts: dict[tuple[int, int], list[StateSnapshot]] = {}
    passed = None
    for layer, states in enumerate(run.states):
        for bucket, text in enumerate(states):
            state = StateSnapshot.decode(text)
            passed = state.passed
            for place, part in migrator.redistribute(layer, bucket, state).items():
                parts.setdefault(place, []).append(StateSnapshot.decode(part.encode()))
    for number, of in enumerate(changed.layout.layers):
        for bucket in range(run.buckets):
            following.states[number][bucket] = merge_parts(of, parts.get((number, bucket), ()), passed).encode()
    return following, found.after, {verdict.rule: verdict.fate for verdict in found.verdicts}


def firings_of(firings: list[Firing], rules: set[str]) -> list[Firing]:
    return sorted((firing for firing in firings if firing.rule in rules), key=output_order)


def with_clock(rules: list[str]) -> list[str]:
    """The rules with an unread tick, so that programs with and without timers share the times."""
    return [*rules, "rule Clock define Clock = [ [] :now ?t ] from every 7 s as Tick with Clock.?t = time(Tick)"]


def started(program: CompiledProgram, clock: Clock, buckets: int, now: Micros) -> Batched:
    """A run that starts at the time `now` (µs)."""
    run = Batched(program, clock, buckets)
    run.states = [[StateSnapshot.decode(text)._replace(passed=now).encode() for text in states] for states in run.states]
    return run


@examples(60)
@given(programs(), streams(), st.integers(1, 3), st.data())
def test_unchanged_rules_continue_and_changed_rules_start_empty(
    texts: list[list[str]], elements: list[Element], buckets: int, data: st.DataObject
) -> None:
    cuts = sorted(data.draw(st.lists(st.integers(0, len(elements) - 1), min_size=2, max_size=2)))
    ends = [*(elements[cut].time for cut in cuts), LAST_MICRO]
    spans = [elements[: cuts[0] + 1], elements[cuts[0] + 1 : cuts[1] + 1], elements[cuts[1] + 1 :]]
    made = [program(with_clock(rules)) for rules in texts]
    clock = Clock(made[0].spec.unit)

    run = Batched(made[0], clock, buckets)
    run.batch(spans[0], ends[0])
    schema = state_schema(made[0])
    since = dict.fromkeys((rule.name for rule in made[0].rules.rules), 0)
    mixed: set[str] = set()
    older = {rule.name: set(rule.reads) for rule in schema.rules}
    others = [Batched(made[0], clock, buckets)]
    others[0].batch(spans[0], ends[0])
    for number in (1, 2):
        run, schema, fates = continued(run, schema, made[number], ends[number - 1])
        reads = {rule.name: set(rule.reads) for rule in schema.rules}
        kept = {name for name, fate in fates.items() if fate in (StateFate.KEPT, StateFate.PARTLY)}
        empty = {name for name, fate in fates.items() if fate is StateFate.EMPTY}
        since = {name: number if name in empty else since[name] for name in kept | empty}
        assert {name for name in fates if fates[name] is StateFate.DROPPED}.isdisjoint(rule.name for rule in made[number].rules.rules)
        before, now = texts[number - 1], set(texts[number])
        same = {rule.split()[1] for rule in before if rule in now} | {"Clock"}
        assert {name for name, fate in fates.items() if fate is StateFate.KEPT} >= same
        mixed = ((mixed | fates.keys()) & kept) - same | (mixed & kept)  # `test_clause_changes` has the oracle of those
        mixed |= {name for name in kept if reads[name] != older[name]}
        while further := {name for name in reads if any(r in mixed or since[r] != since[name] for r in reads[name])} - mixed:
            mixed |= further
        older = reads
        got = run.batch(spans[number], ends[number])
        others.append(started(made[number], clock, buckets, ends[number - 1]))
        for start, other in enumerate(others):
            rules = {name for name, added_with in since.items() if added_with == start} - mixed
            assert firings_of(got, rules) == firings_of(other.batch(spans[number], ends[number]), rules)


def fates(before: list[str], after: list[str]) -> dict[str, str]:
    found = state_change(state_schema(program(before)), program(after), 7)
    return {verdict.rule: f"{verdict.fate.value} {verdict.why}".strip() for verdict in found.verdicts}


def test_reformatted_rule_keeps_its_state() -> None:
    first, second = jump(2, 9), pair(9)
    other = first.replace("within 9 s", "WITHIN 9000 ms  # nine\n").replace("?r :", "?thing <http://e/x> 1 . ?thing :") + "\n"
    assert fates([first, second], [second, first + "  # the same"]) == dict.fromkeys(["Jump", "Pair"], "keeps its state")
    assert fates([first], [first.replace("?r :", "?thing :").replace("within 9 s", "WITHIN 9000 ms")]) == {"Jump": "keeps its state"}
    assert fates([first, second], [other, second]) == {
        "Jump": "starts empty",
        "Pair": "keeps its state",
    }


def test_reformatted_program_moves_no_state() -> None:
    first, second = program([jump(2, 9), ticked(3)]), program(["# in words", jump(2, 9), "", ticked(3)])
    assert not state_change(state_schema(first), second, 7).moves


ZONED = """PREFIX : <http://e/>
rule Follow define Follow = [ [] :zone ?zone ; :before ?before ] from Now = [ SELECT ?zone WHERE { ?r :room ?room . ?room :zone ?zone } ]
and each Old = [ SELECT ?before WHERE { ?r :room ?other . ?other :zone ?before } ] within 10 s from Now
with Follow.?zone = Now.?zone, Follow.?before = Old.?before
"""


def zoned(zone: str, folder: Path) -> CompiledProgram:
    path = folder / f"{zone}.ttl"
    path.write_text(f"<http://e/r1> <http://e/zone> <http://e/{zone}> .")
    return compile_program(ProgramSpec((Document("zoned.dotr", ZONED),), graphs=(str(path),)))


def test_changed_knowledge_keeps_stored_events(tmp_path: Path) -> None:
    """Stored events were extracted with the knowledge of their instants, and are kept."""
    first, then = zoned("A", tmp_path), zoned("B", tmp_path)
    run = Batched(first, Clock(), 2)
    seen = [Element(time * S, (("_:r", "<http://e/room>", "<http://e/r1>"),)) for time in (1, 2, 5)]
    before = run.batch(seen[:2], 4 * S)
    found = state_change(state_schema(first), then, 4 * S)
    assert [verdict.fate for verdict in found.verdicts] == [StateFate.KEPT]
    assert not found.moves
    why = "The background knowledge, or a setting of it, has changed"
    assert found.knowledge_warning == f"{why}: events that are kept were extracted with the old one, and stay as they are."
    following = Batched(then, Clock(), 2)
    following.states = run.states
    after = following.batch(seen[2:], LAST_MICRO)
    assert [(firing.time // S, dict(firing.attributes)) for firing in (*before, *after)] == [
        (2, {"zone": "<http://e/A>", "before": "<http://e/A>"}),
        (5, {"zone": "<http://e/B>", "before": "<http://e/A>"}),
        (5, {"zone": "<http://e/B>", "before": "<http://e/A>"}),
    ]
    assert state_change(found.after, then, 5 * S).knowledge_warning is None


def test_background_rules_are_compared_by_meaning_not_by_place() -> None:
    """Another folder, comments, and a checkpoint whose digest has the file and line of each rule."""
    rules = "<http://e/p>(?x, ?y) :- <http://e/q>(?x, ?y) .\n<http://e/q>(?x, ?y) :- <http://e/r>(?x, ?y) .\n"

    def of(name: str, text: str) -> CompiledProgram:
        ruleset = Document("zoned.dotr", ZONED)
        return compile_program(ProgramSpec((ruleset,), (Document(name, text),)))

    here = state_schema(of("rules.dlog", rules))
    for there in (of("rules.dlog", rules), of("/elsewhere/more.dlog", f"# moved\n\n{rules}")):
        assert state_change(here, there, 7).knowledge_warning is None
    older = replace(here, knowledge=knowledge_digests(of("rules.dlog", rules)).with_places)
    assert state_change(older, of("rules.dlog", rules), 7).knowledge_warning is None
    for other in (rules.replace("/r>", "/s>"), rules.splitlines()[0], ""):
        assert state_change(here, of("rules.dlog", other), 7).knowledge_warning is not None
        assert state_change(older, of("rules.dlog", other), 7).knowledge_warning is not None


def test_changed_rule_starts_empty_with_other_knowledge() -> None:
    background = "<http://e/p>(?x, ?y) :- <http://e/q>(?x, ?y) ."
    found = state_change(state_schema(program([jump(2, 9), ticked(3)])), program([jump(2, 5), ticked(3)], background), 7)
    assert [(verdict.rule, verdict.fate) for verdict in found.verdicts] == [("Jump", StateFate.EMPTY), ("Ticked", StateFate.KEPT)]
    assert found.moves
    none = state_change(state_schema(program([jump(2, 9)])), program([jump(2, 5)], background), 7)
    assert none.knowledge_warning == "The background knowledge, or a setting of it, has changed."


def test_split_stores_are_merged_after_the_new_windows() -> None:
    first, then = program([jump(2, 9)]), program([jump(2, 9), jump(1, 8, "Leap")])
    one = state_change(state_schema(first), then, 10 * S)
    assert one.since == {"Leap.Before": 10 * S}
    assert state_change(one.after, then, 18 * S).since == {"Leap.Before": 10 * S}
    two = state_change(one.after, then, 18 * S + 1)
    assert two.since == {}
    assert two.moves
    assert not state_change(two.after, then, 30 * S).moves


@pytest.mark.parametrize(
    ("story", "path"),
    [(story, path) for story in (SMALL, WHOLE) for path in story.kept],
    ids=lambda each: each.stem if isinstance(each, Path) else each.folder.name,
)
def test_checkpoint_of_every_release_opens(story: Story, path: Path) -> None:
    there, program = read(path, story), story.made()
    found = state_change(there.holdings, program, 0)
    assert {verdict.fate for verdict in found.verdicts} == {StateFate.KEPT}
    assert {verdict.rule for verdict in found.verdicts} == {rule.name for rule in program.rules.rules}
    assert not found.moves
    assert found.knowledge_warning is None
    run = Batched(program, Clock(), len(there.states[0]))
    run.states = there.states
    assert remaining_outputs(run, story) == there.after
    assert {rule for _, rule, _ in there.after} == {rule.name for rule in program.rules.rules}


@pytest.mark.parametrize("story", [SMALL, WHOLE], ids=lambda story: story.folder.name)
def test_run_from_stored_checkpoint_equals_an_uninterrupted_run(story: Story) -> None:
    firings = sorted(Batched(story.made(), Clock(), 1).batch(story.elements, LAST_MICRO), key=output_order)
    rest = [(f.time, f.rule, [list(triple) for triple in f.graph or ()]) for f in firings if f.time > CUT]
    for path in story.kept:
        assert rest == read(path, story).after


@pytest.mark.parametrize(
    ("once", "fires_at"),
    [
        ("once in 9 s per ?room", [10]),  # the firing at 1 is kept, and holds back until 10
        ("once in 4 s per ?room", [5, 10]),
        ("once in 9 s", [2]),  # other keys: no firing is kept
        ("", [2, 5, 10]),
    ],
)
def test_change_of_once_keeps_the_rest_of_the_state(once: str, fires_at: list[int]) -> None:
    """The reading at 0 is kept, whatever becomes of `once`."""
    text = """rule Seldom define Seldom = [ [] :at ?room ] from Reading as R
and last Reading as Old [ FILTER(?room = R.?room) ] within 10 s from R with Seldom.?room = R.?room, Seldom.?old = Old.?v """
    before, after = program([text + "once in 5 s per ?room"]), program([text + once])
    rows = [
        (time, [(f"_:{time}", "<http://e/room>", "<http://e/r>"), (f"_:{time}", "<http://e/value>", f'"{time}"')])
        for time in (0, 1, 2, 5, 10)
    ]
    elements = [Element(time * S, tuple(triples)) for time, triples in rows]
    clock = Clock(before.spec.unit)
    run = Batched(before, clock, 2)
    assert [firing.time for firing in run.batch(elements[:2], 1 * S)] == [1 * S]
    run, _, fates = continued(run, state_schema(before), after, 1 * S)
    assert fates == {"Seldom": StateFate.KEPT}
    fired = [firing for firing in run.batch(elements[2:], LAST_MICRO) if firing.rule == "Seldom"]
    assert [firing.time // S for firing in fired] == fires_at
    before_it = max(time for time in (0, 1, 2, 5) if time < fires_at[0])
    assert fired[0].attributes[0] == ("old", f'"{before_it}"')


@pytest.mark.parametrize(
    ("before", "after", "told"),
    [
        (STANDING.format("within 9 s from Now"), STANDING.format("before Now"), "Standing: Old starts empty: its window has changed"),
        (NOVEL.format(3, "before Now"), NOVEL.format(3, "within 9 s from Now"), "Novel: Old starts empty: its window has changed"),
        (TWICE.format(""), TWICE.format("also"), "Twice keeps its state: it has changed outside of its clauses"),
        (TWICE.format("also"), TWICE.format(""), "Twice keeps One; Two starts empty: of each key the newest event alone was kept"),
    ],
)
def test_changed_before_and_also_are_told(before: str, after: str, told: str) -> None:
    (verdict,) = state_change(state_schema(program([before])), program([after]), 1 * S).verdicts
    assert str(verdict) == f"rule {told}"


@pytest.mark.parametrize(
    ("before", "after", "why"),
    [
        ("once in 5 s per ?room", "once in 9 s per ?room", ""),
        ("", "once in 5 s", "`once` is new, and no earlier firing holds back another"),
        ("once in 5 s", "", "it no longer says `once`, and no earlier firing holds back another"),
        ("once in 5 s per ?room", "once in 5 s per ?v", "`once` has other keys, and no earlier firing holds back another"),
    ],
)
def test_changed_once_is_told(before: str, after: str, why: str) -> None:
    text = "rule Seldom define Seldom = [ [] :at ?room, ?v ] from Reading as R with Seldom.?room = R.?room, Seldom.?v = R.?v "
    (verdict,) = state_change(state_schema(program([text + before])), program([text + after]), 1 * S).verdicts
    assert (verdict.fate, str(verdict).partition(": ")[2]) == (StateFate.KEPT, why)


def test_firings_of_one_moment_are_kept_by_their_keys() -> None:
    """Firings have no ordinals: two of one time are two, whatever rule stands beside."""
    before = program([SELDOM.format(2), "rule Later define Later = [ :x :of ?room ] from Reading as R with Later.?room = R.?room"])
    session = Session(before)
    both = [(f"_:{room}", "<http://e/room>", f"<http://e/{room}>") for room in "rs"]
    both += [(f"_:{room}", "<http://e/value>", f'"3"^^<{XSD}integer>') for room in "rs"]
    assert sum(event.rule == "Seldom" for event in session.advance(1, tuple(both))) == 2
    restored = Session.restored(program([SELDOM.format(2)]), session.save())
    assert restored.advance(2, tuple(both)) == []
