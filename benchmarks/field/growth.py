"""Cost as one thing grows and the rest stays: input, live keys, windows; dotr alone.

The reading of the input alone is measured in the same run: rows by `csv`, lines by `json`, and lines
whose graph dotr parses. Background, Datalog rules and rules grow in the work `paper`, real input in
the work `aarhus`, cores in the work `spark`.
"""

from __future__ import annotations

import csv
import json
import random
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from benchmarks.field.measuring import Case
from benchmarks.field.paper import scenario_case
from benchmarks.field.works import Scale, Work
from benchmarks.scenario import PREFIX, Size

if TYPE_CHECKING:
    from dotr.model.stream import DeadLetter

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


def reading(path: str, form: str) -> Callable[[], int]:
    """Reading alone of a stream of one-triple graphs: `csv` and `json` by Python's modules, `graph` by dotr with its triples."""
    from dotr.streams.merge.bounded import merged
    from dotr.streams.records import Format, InputFile

    def rows() -> int:
        with open(path, encoding="utf-8", newline="") as file:
            return sum(1 for _ in csv.reader(file))

    def lines() -> int:
        with open(path, encoding="utf-8") as file:
            return sum(1 for _ in map(json.loads, file))

    def graphs() -> int:
        file = InputFile("stream", path, Format.NDJSON, prefixes=(("", PREFIX),))
        return sum(len(element.triples) for _, together in merged([file], _refuse) for element in together)

    return {"csv": rows, "json": lines, "graph": graphs}[form]


def _refuse(letter: DeadLetter) -> None:
    raise ValueError(letter.why)


def write_rows(stream: Path) -> Path:
    """The elements of a stream as rows: time, subject, predicate and value."""
    path = stream.with_suffix(".csv")
    with stream.open(encoding="utf-8") as lines, path.open("w", encoding="utf-8", newline="") as file:
        write = csv.writer(file).writerow
        for element in map(json.loads, lines):
            write([element["time"], *element["graph"].split()[:3]])
    return path


def reading_cases(stream: Path, size: int) -> Iterator[Case]:
    """Reading alone of a stream, in three forms."""
    for title, form, path in (
        ("a row of CSV", "csv", write_rows(stream)),
        ("a line of JSON", "json", stream),
        ("a graph of one triple", "graph", stream),
    ):
        yield Case(
            name=f"reading alone: {title}",
            parameters={"reading": form},
            unit="element",
            units=size,
            expected=size,
            own=("benchmarks.field.growth:reading", str(path), form),
        )


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
    """The cases of each growing quantity in turn."""
    sizes = [(folder / f"input-{graphs}", Size(scale.of(graphs))) for graphs in (5_000, 10_000, 20_000, 40_000)]
    scenarios = [scenario_case(where, f"input: {size.graphs:,} graphs", size) for where, size in sizes]
    yield from reading_cases(sizes[-1][0] / "stream.ndjson", sizes[-1][1].graphs)
    for case in scenarios:
        yield replace(case, against="reading alone: a graph of one triple")
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
)
