"""Cost as one thing grows and the rest stays: input, live keys, windows; dotr alone.

Background, Datalog rules and rules grow in the work `paper`, cores in the work `spark`.
"""

from __future__ import annotations

import random
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from benchmarks.field.measuring import Case
from benchmarks.field.paper import scenario_case
from benchmarks.field.works import Scale, Work
from benchmarks.scenario import Size

_HOUR: Final = 3_600


def events(size: int, rooms: int) -> Iterator[tuple[int, str, int, int]]:
    """One event a second: its time, A (20 %) or B, room, and value."""
    choose = random.Random(1)
    for second in range(size):
        yield second, "A" if choose.random() < 0.2 else "B", choose.randrange(rooms), choose.randrange(1000)


def by_definition(size: int, rooms: int, within: int, each: bool) -> int:
    """Number of matches: for each A, the Bs of its room with a greater value in the time before it, all or the last."""
    before: dict[int, list[tuple[int, int]]] = defaultdict(list)
    count = 0
    for second, kind, room, value in events(size, rooms):
        if kind == "B":
            before[room].append((second, value))
        else:
            near = before[room][bisect_left(before[room], (second - within, -1)) :]
            found = sum(other > value for _, other in near)
            count += found if each else min(found, 1)
    return count


def ours(size: str, rooms: str, within: str, form: str) -> Callable[[], int]:
    """Stage two of dotr, from facts of interest to matches."""
    from benchmarks.patterns import SECOND, number, program, query, room, streams
    from dotr.engine.router import Router

    layout, operator = program(
        query("A")
        + query("B")
        + f"rule R define C = [ dotr_id1 :v ?v ] from A and {form} B [ FILTER(?room = A.?room && ?v > A.?v) ]"
        + f" within {within} s from A with C.?v = A.?v"
    )
    names, router = streams(layout), Router(layout)
    instants = [
        (second * SECOND, {names[kind]: [(room(place), number(value))]}) for second, kind, place, value in events(int(size), int(rooms))
    ]

    def run() -> int:
        state, matches = operator.start(), 0
        for now, facts in instants:
            if arrivals := router.facts(facts)[0].get(0):
                matches += len(operator.step(state, now, arrivals))
        return matches

    return run


def pattern_case(title: str, size: int, rooms: int, within: int, form: str, unit: str = "event") -> Case:
    """A case of stage two; per match, where matches are what grows."""
    expected = by_definition(size, rooms, within, form == "each")
    return Case(
        name=title,
        parameters={"events": size, "rooms": rooms, "within": within},
        unit=unit,
        units=expected if unit == "match" else size,
        expected=expected,
        own=("benchmarks.field.growth:ours", str(size), str(rooms), str(within), form),
    )


def cases(scale: Scale, folder: Path) -> Iterator[Case]:
    """Each thing that grows in turn."""
    for graphs in (5_000, 10_000, 20_000, 40_000):
        size = Size(scale.of(graphs))
        yield scenario_case(folder / f"input-{graphs}", f"input: {size.graphs:,} graphs", size)
    for rooms in (10, 1_000, 100_000):
        yield pattern_case(f"live keys: {rooms:,} rooms", scale.of(50_000), rooms, _HOUR, "last")
    for within in (30, 300, 3_000):
        yield pattern_case(f"window: each within {within:,} s, of one match", scale.of(20_000), 50, within, "each", "match")


WORK: Final = Work(
    name="growth",
    title="Cost as one thing grows: an element of the scenario, an event or match of stage two",
    packages=("dotr",),
    minutes=2,
    cases=cases,
    axis="graphs",
    headlines=("live keys: 100,000 rooms", "window: each within 3,000 s, of one match"),
)
