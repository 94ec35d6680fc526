"""Live merge of inputs by time, against an oracle of semantics.md, section 6."""

from __future__ import annotations

from contextlib import suppress

from hypothesis import given, settings

from dotr.model.stream import DeadLetter
from dotr.streams.lateness import Lateness
from dotr.streams.merge.live import Channel, live_instants
from tests.oracle.arrivals import Arrives, Elapse, Ends, Input, Outcome, Step, outcome
from tests.support.scripts import Stopped, World, worlds


def in_process(inputs: list[Input], script: list[Step]) -> Outcome:
    world = World(inputs, script)
    channels = [
        Channel(feed, Lateness.of(feed.spec), None if spec.idle is None else int(spec.idle * 1_000_000))
        for feed, spec in zip(world.feeds, inputs, strict=True)
    ]
    dead: list[DeadLetter] = []
    found: list[tuple[int, list[tuple[int, int]]]] = []
    with suppress(Stopped):
        for time, elements in live_instants(channels, dead.append, world.clock, world.go_on):
            found.append((time, sorted((int(e.file.input), int(e.record.raw)) for e in elements.sourced())))
    return Outcome(found, sorted((int(letter.input), int(letter.text), letter.reason.value) for letter in dead))


@given(worlds())
@settings(max_examples=500, deadline=None)
def test_live_merge_agrees_with_the_oracle(world: tuple[list[Input], list[Step]]) -> None:
    assert in_process(*world) == outcome(*world)


def test_oracle_agrees_with_a_case_by_hand() -> None:
    inputs = [Input(delay=2), Input(idle=5.0), Input(single=True)]
    script: list[Step] = [Arrives(0, 10), Arrives(0, 13), Arrives(0, 10), Arrives(0, 12), Arrives(2, 12), Arrives(2, 12), Elapse(5.0)]
    closed = [(10, [(0, 0)])]
    assert outcome(inputs, script) == Outcome(closed, [(0, 2, "late"), (2, 1, "second")])
    script += [Arrives(1, 10), Arrives(1, 11), Ends(0), Ends(1), Ends(2)]
    closed += [(11, [(1, 1)]), (12, [(0, 3), (2, 0)]), (13, [(0, 1)])]
    assert outcome(inputs, script) == Outcome(closed, [(0, 2, "late"), (1, 0, "idle"), (2, 1, "second")])
    assert in_process(inputs, script) == outcome(inputs, script)
