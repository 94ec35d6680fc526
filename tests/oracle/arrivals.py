"""When instants close and what is rejected, by the text of semantics.md, section 6: everything is computed again after every step.

A script is a sequence of external events: an element arrives at an input, an input ends, some seconds pass, a heartbeat comes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True)
class Input:
    """`idle`: after so many seconds without an element the input is idle. `single`: every element is an instant. `apart`: elements of one
    time are set one microsecond apart."""

    delay: int = 0
    idle: float | None = None
    single: bool = False
    apart: bool = False


@dataclass(frozen=True)
class Arrives:
    """An element; None: one that cannot be read."""

    input: int
    time: int | None


@dataclass(frozen=True)
class Ends:
    input: int


@dataclass(frozen=True)
class Elapse:
    seconds: float


@dataclass(frozen=True)
class Beats:
    """A heartbeat of the pipeline's clock, later than those before."""

    time: int


Step: TypeAlias = Arrives | Ends | Elapse | Beats


@dataclass(frozen=True)
class Outcome:
    """Instants as they close: the time, and the elements as (input, place in its input). Dead letters: (input, place, reason)."""

    instants: list[tuple[int, list[tuple[int, int]]]]
    dead: list[tuple[int, int, str]]


def outcome(inputs: Sequence[Input], script: Sequence[Step]) -> Outcome:
    """The instants and dead letters of a script."""
    came: list[list[int | None]] = [[] for _ in inputs]
    last_came = [0.0 for _ in inputs]
    ended = [False for _ in inputs]
    now, heartbeat = 0.0, -1
    open_instants: dict[int, list[tuple[int, int]]] = {}
    closed: list[tuple[int, list[tuple[int, int]]]] = []
    dead: list[tuple[int, int, str]] = []

    def lets_close(number: int, time: int) -> bool:
        spec = inputs[number]
        readable = [each for each in came[number] if each is not None]
        passed = any(each > time + spec.delay or (spec.single and each == time) for each in readable)
        idle = spec.idle is not None and now - last_came[number] >= spec.idle
        return ended[number] or passed or idle or time <= heartbeat

    for step in script:
        match step:
            case Elapse(seconds):
                now += seconds
            case Ends(number):
                ended[number] = True
            case Beats(time):
                heartbeat = time
            case Arrives(number, time):
                spec, before = inputs[number], [each for each in came[number] if each is not None]
                place = len(came[number])
                came[number].append(time)
                last_came[number] = now
                moved = time
                if spec.apart and time is not None:
                    moved = time + before.count(time)
                    if all(each < time for each in before):
                        reach_it = [(at, each) for at, held in open_instants.items() if at >= time for each in held if each[0] == number]
                        for at, each in reach_it:
                            open_instants[at].remove(each)
                            dead.append((*each, "second"))
                        open_instants = {at: held for at, held in open_instants.items() if held}
                if time is None or moved is None:
                    dead.append((number, place, "unreadable"))
                elif any(each - time > spec.delay for each in before):
                    dead.append((number, place, "late"))
                elif spec.single and time in before:
                    dead.append((number, place, "second"))
                elif moved <= heartbeat:
                    dead.append((number, place, "clock"))
                elif closed and moved <= closed[-1][0]:
                    dead.append((number, place, "idle"))
                else:
                    open_instants.setdefault(moved, []).append((number, place))
        while open_instants and all(lets_close(number, min(open_instants)) for number in range(len(inputs))):
            earliest = min(open_instants)
            closed.append((earliest, sorted(open_instants.pop(earliest))))
    return Outcome(closed, sorted(dead))
