"""Comparison of two programs: the stepwise comparison equals that of two complete runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from dotr.commands.replay.comparison import ProgramPair, compare
from dotr.commands.test.difference import comparable, comparable_attributes
from dotr.engine.driver import Engine
from dotr.engine.program import CompiledProgram
from dotr.engine.replay import ElementPlace, InputProgress, RejectedElement, Replay, ReplayedInstant
from dotr.engine.spec import ProgramSpec
from dotr.languages.programs import compile_program
from dotr.model.places import Document
from dotr.model.stream import Firing
from dotr.model.terms import XSD, Triple, literal
from dotr.model.time import Clock, Unit
from tests.conftest import Project
from tests.support.properties import examples

S = 1_000_000
RULES = """PREFIX : <http://e/>
query Air = [ SELECT ?room ?v WHERE {{ ?r :room ?room ; :value ?v }} ]
rule Rise define Rise = [ dotr_id a :Rise ; :room ?room ; :by ?by ] from Air as Now
and last Air as Old [ FILTER(?room = Now.?room) ] within {window} s from Now
if Now.?v > Old.?v with Rise.?room = Now.?room, Rise.?by = Now.?v - Old.?v
rule Still define Still = [ dotr_id :still ?room ; :of [ a :Thing ] ] from Air [ FILTER(?v > {least}) ] delayed by 3 s
and not Air as Next [ FILTER(?room = Air.?room) ] within [0, 3 s) from Air with Still.?room = Air.?room
rule Count define Count = [ [] :n ?n ] from every {every} s as Tick and ?n = count(*) of Air within [0, 4 s) from Tick with Count.?n = ?n
rule Twice define Twice = [ [] :twice ?room ] from Rise and each Rise as Before [ FILTER(?room = Rise.?room) ] within 6 s from Rise
with Twice.?room = Rise.?room
"""
Elements = list[tuple[int, str, int]]


@cache
def program(window: int, least: int, every: int) -> CompiledProgram:
    return compile_program(ProgramSpec((Document("r.dotr", RULES.format(window=window, least=least, every=every)),)))


def replay_of(compiled: CompiledProgram, elements: Elements, *, ended: bool = True) -> Replay:
    def read(on_reject: Callable[[RejectedElement], None]) -> Iterator[ReplayedInstant]:
        for time in sorted({time for time, _, _ in elements}):
            graphs: list[tuple[Triple, ...]] = [
                (("_:0", "<http://e/room>", f"<http://e/{room}>"), ("_:0", "<http://e/value>", literal(str(v), XSD + "integer")))
                for at, room, v in elements
                if at == time
            ]
            yield ReplayedInstant(time * S, graphs, [ElementPlace("a", 1)] * len(graphs))

    return Replay("c.yaml", compiled, Clock(Unit.SECOND, dated=False), {}, read, lambda: [InputProgress("a", None, ended)])


def whole_run(replay: Replay) -> list[Firing]:
    engine = Engine(replay.program, replay.clock)
    firings = [firing for instant in replay.instants() for firing in engine.step(instant.time, instant.graphs)[0]]
    return firings + ([firing for moment in engine.finish() for firing in moment] if replay.ended else [])


def forms(firings: Sequence[Firing], rule: str) -> Counter[object]:
    return Counter(
        (firing.time, firing.event, comparable_attributes(dict(firing.attributes)), comparable(firing.graph or ()))
        for firing in firings
        if firing.rule == rule
    )


def expected(pair: ProgramPair) -> dict[str, tuple[int, int, int, int]]:
    before, after = whole_run(pair.before), whole_run(pair.after)
    found = {}
    for rule in ("Rise", "Still", "Count", "Twice"):
        one, other = forms(before, rule), forms(after, rule)
        found[rule] = (one.total(), other.total(), (other - one).total(), (one - other).total())
    return found


def compared(pair: ProgramPair) -> dict[str, tuple[int, int, int, int]]:
    return {each.rule: (each.before, each.after, each.new, each.gone) for each in compare(pair)}


streams = st.lists(st.tuples(st.integers(0, 14), st.sampled_from("ab"), st.integers(0, 3)), max_size=12)
programs = st.builds(program, st.sampled_from([2, 5]), st.sampled_from([0, 1]), st.sampled_from([3, 4]))


@examples(60)
@given(programs, programs, streams, st.booleans())
def test_equal_inputs_are_read_once(one: CompiledProgram, other: CompiledProgram, elements: Elements, ended: bool) -> None:
    pair = ProgramPair(replay_of(one, elements, ended=ended), replay_of(other, elements, ended=ended), same_inputs=True)
    assert compared(pair) == expected(pair) == compared(ProgramPair(pair.before, pair.after, same_inputs=False))


@examples(60)
@given(programs, programs, streams, streams)
def test_different_inputs_are_read_for_each_program(
    one: CompiledProgram, other: CompiledProgram, elements: Elements, others: Elements
) -> None:
    pair = ProgramPair(replay_of(one, elements), replay_of(other, others), same_inputs=False)
    assert compared(pair) == expected(pair)


def test_inputs_that_differ_are_read_apart(project: Project) -> None:
    project.write("a.ndjson", '{"time": 5, "graph": ":a a :A ."}\n{"time": 3, "graph": ":b a :A ."}\n{"time": 9, "graph": ":c a :A ."}\n')
    answer = project.dotr("replay", "c.yaml", "--set", "input.0.lateness=2 s")
    assert answer == (1, "R: 2 -> 3 events, 1 new, 0 gone (--show 5: which, and why).\n", "")
    answer = project.dotr("replay", "c.yaml", "--set", "input.0.lateness=2 s", "--show", "1")
    assert answer.out.splitlines()[1] == "new: R at 3: x :b"


def test_an_input_that_grows_has_no_end(project: Project) -> None:
    project.write("a.ndjson", "".join(f'{{"time": {time}, "graph": ":a a :A ."}}\n' for time in (5, 9, 20)))
    project.change("r.dotr", "?x a :A } ]", "?x a :A } ] delayed by 3 s")
    project.change("c.yaml", "path: a.ndjson", "path: a*.ndjson, watch: true")
    project.write("new.dotr", Path("r.dotr").read_text(encoding="utf-8").replace("3 s", "2 s"))
    answer = project.dotr("replay", "c.yaml", "--set", "rules.0=new.dotr")
    assert answer.out == "R: 1 -> 1 event, 1 new, 1 gone (--show 5: which, and why or why not).\n"


def test_shown_events_are_the_first_of_each_rule() -> None:
    before, after = program(2, 0, 3), program(5, 1, 4)
    elements = [(time, "a", time % 4) for time in range(15)]
    pair = ProgramPair(replay_of(before, elements), replay_of(after, elements), same_inputs=True)
    for each in compare(pair, show=2):
        assert len(each.first_new) == min(2, each.new)
        assert len(each.first_gone) == min(2, each.gone)
        assert (each.read == ()) == (each.rule != "Twice" or not each.differs)
