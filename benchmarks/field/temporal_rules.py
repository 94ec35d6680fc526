"""Rules "A and last (each) B of the room within 30 s" with own thresholds: events in memory to matches.

One event a second, 20 % A, in five rooms; rule n takes A and B whose value is n at least. The values
are 900 different integers, or do not repeat, as those of sensors hardly do: whatever a system keeps by
value is new with every event.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Callable, Iterator
from enum import Enum
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

from benchmarks.field.measuring import Case, Effort
from benchmarks.field.peers import ESPER_4, ESPER_9, FLINK, SIDDHI, JavaPeer, java
from benchmarks.field.rule_texts import WITHIN, own_rule, texts, write
from benchmarks.field.works import Scale, Work

_SIZES: Final = {1: 200_000, 10: 100_000, 100: 20_000, 1_000: 2_000}
"""Events of a run by number of rules."""
_NEW_VALUES: Final = {1: 90_000, 10: 90_000, 100: 10_000}
"""The same where values do not repeat: the first two are more than any cache of dotr keeps from run to run."""


class Values(Enum):
    """The values of a work's events; the name of a case begins with the text.

    Decimals have three places. The files have thousandths: the peers, without decimals, compare
    these as integers.
    """

    HUNDREDS = ""
    INTEGERS = "integers to 10⁹: "
    DECIMALS = "decimals: "

    @property
    def scale(self) -> int:
        """The number in a file that stands for 1."""
        return 1000 if self is Values.DECIMALS else 1


class Reading(NamedTuple):
    """An event: seconds, A or B, room and value, in thousandths if it is a decimal."""

    second: int
    kind: str
    room: int
    value: int


def readings(size: int, values: Values) -> Iterator[Reading]:
    """The same events at each call.

    >>> [len({event.value for event in readings(5_000, values)}) for values in Values]
    [898, 5000, 5000]
    """
    choose = random.Random(1)
    own = [] if values is Values.HUNDREDS else random.Random(2).sample(range(100, 10**9), size)
    for second in range(size):
        kind = "A" if choose.random() < 0.2 else "B"
        room, value = choose.randrange(5), choose.randrange(100, 1000)
        yield Reading(second, kind, room, own[second] if own else value)


def by_definition(events: list[Reading], thresholds: range, each: bool) -> int:
    """Number of matches: for each rule and A, the B of the room in (0, 30 s] before it, all or the last."""
    count = 0
    before: dict[int, list[Reading]] = defaultdict(list)
    for event in events:
        if event.kind == "B":
            before[event.room].append(event)
            continue
        near = [other for other in before[event.room][-WITHIN:] if event.second - WITHIN <= other.second < event.second]
        for threshold in thresholds:
            if event.value >= threshold:
                found = sum(other.value >= threshold for other in near)
                count += found if each else min(found, 1)
    return count


def ours(path: str, rules: str, form: str, values: str) -> Callable[[], int]:
    """Stage two of dotr, from facts of interest to matches."""
    from benchmarks.patterns import SECOND, decimal, matches_of, number, program, query, room, streams
    from dotr.engine.router import Router

    term = decimal if values == Values.DECIMALS.name else number

    layout, operator = program(query("A") + query("B") + "".join(own_rule(n, form) for n in range(int(rules))))
    names, router = streams(layout), Router(layout)
    instants = [
        (event.second * SECOND, {names[event.kind]: [(room(event.room), term(event.value))]}) for event in read_readings(Path(path))
    ]

    def run() -> int:
        state, matches = operator.start(), 0
        for now, facts in instants:
            matches += matches_of(operator, router, state, now, facts)
        return matches

    return run


def read_readings(path: Path) -> Iterator[Reading]:
    """The events of a file of tab-separated values."""
    for line in path.read_text(encoding="utf-8").splitlines():
        second, kind, place, value = line.split("\t")
        yield Reading(int(second), kind, int(place), int(value))


def write_readings(path: Path, size: int, values: Values = Values.HUNDREDS) -> list[Reading]:
    """Writes the events, and returns them."""
    events = list(readings(size, values))
    path.write_text("".join("\t".join(map(str, event)) + "\n" for event in events), encoding="utf-8")
    return events


def cases(scale: Scale, folder: Path) -> Iterator[Case]:
    """1 to 1,000 rules with `last`, 1 to 100 with `each`, also over values that do not repeat; Flink and fewer events in a case of its
    own."""
    effort, shorter, new = Effort(least_peer_runs=8), Effort(least_peer_runs=5, warm_seconds=5.0), (Values.INTEGERS, Values.DECIMALS)
    if scale is Scale.QUICK:
        for rules, form, size in ((1, "last", 40_000), (10, "last", 40_000), (100, "last", 5_000), (10, "each", 40_000)):
            yield case(folder, rules, form, size, (ESPER_9, SIDDHI), effort)
        for values in new:
            yield case(folder, 1, "last", _NEW_VALUES[1], (ESPER_9, SIDDHI), shorter, values=values)
        return
    for form, numbers in (("last", (1, 10, 100, 1_000)), ("each", (1, 10, 100))):
        for rules in numbers[: 3 if scale is Scale.HUNDREDTH else None]:
            old = (ESPER_4,) if rules <= 10 else ()
            yield case(folder, rules, form, scale.of(_SIZES[rules]), (ESPER_9, SIDDHI, *old), effort)
    for values in new:
        for form in ("last", "each"):
            for rules, size in _NEW_VALUES.items():
                yield case(folder, rules, form, scale.of(size), (ESPER_9, SIDDHI), shorter, values=values)
    for rules in (1, 10):
        yield case(folder, rules, "last", scale.of(20_000), (FLINK,), Effort(least_peer_runs=3, warm_runs=6), "a run is a job: ")


def case(
    folder: Path,
    rules: int,
    form: str,
    size: int,
    peers: tuple[JavaPeer, ...],
    effort: Effort,
    title: str = "",
    *,
    values: Values = Values.HUNDREDS,
) -> Case:
    """One number of rules. The plot has the cases of 900 values, so the others name the rules as a text."""
    path = folder / f"events-{size}-{values.name.lower()}.tsv"
    events, scale = write_readings(path, size, values), values.scale
    arguments = (str(path), str(rules), form)
    return Case(
        name=f"{title or values.value}{rules:,} rule{'s' if rules > 1 else ''}, {form}",
        parameters={"rules": rules if values is Values.HUNDREDS else f"{rules:,}", "form": form, "events": size},
        unit="event",
        units=size,
        expected=by_definition(events, range(0, rules * scale, scale), form == "each"),
        own=("benchmarks.field.temporal_rules:ours", *arguments, values.name),
        others={peer.name: partial(java, peer, *arguments, *write(folder, peer, rules, form, scale)) for peer in peers},
        effort=effort,
    )


WORK: Final = Work(
    name="field",
    title="Rules A and last or each B within 30 s, own thresholds: events in memory to matches",
    packages=(
        "dotr/temporal/matching",
        "dotr/temporal/layout",
        "dotr/engine/router.py",
        "dotr/evaluation/codegen",
        "dotr/evaluation/expressions",
    ),
    minutes=8,
    cases=cases,
    axis="rules",
    headlines={
        "1 rule, last": "an event, one rule",
        "100 rules, last": "an event, 100 rules",
        "integers to 10⁹: 1 rule, last": "an event with a new value, one rule",
    },
    texts=texts,
)
