"""Record of the calls of a session in Python, for a replay.

Memory: the graphs of all calls, from the first one on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from dotr.engine.program import CompiledProgram
from dotr.evaluation.expressions.values.times import format_time
from dotr.explanations.replay.stream import ElementPlace, InputProgress, RejectedElement, Replay, ReplayedInstant
from dotr.model.terms import Triple
from dotr.model.time import Clock, Micros


@dataclass(slots=True)
class SessionRecord:
    """The calls of a session so far.

    - `calls`: the time (µs since 1970) and the graphs of each `advance`; no graphs if only time
      advanced.
    - `finished`: True after `finish`.
    """

    calls: list[tuple[Micros, Sequence[tuple[Triple, ...]]]] = field(default_factory=list)
    finished: bool = False

    def replay(self, program: CompiledProgram, clock: Clock) -> Replay:
        """The replay of the calls so far; later calls do not change it.

        The place of a graph is its number in its call.

        >>> from dotr.engine.program import compile_program
        >>> from dotr.engine.spec import ProgramSpec
        >>> record = SessionRecord([(12_000_000, [()]), (20_000_000, [])])
        >>> replay = record.replay(compile_program(ProgramSpec()), Clock())
        >>> [(instant.time, [str(place) for place in instant.places]) for instant in replay.instants()]
        [(12000000, ['graph 1 of advance(12)']), (20000000, [])]
        >>> replay.ended
        False
        """
        calls, finished = list(self.calls), self.finished

        def read(on_reject: Callable[[RejectedElement], None]) -> Iterator[ReplayedInstant]:
            for time, graphs in calls:
                call = f"advance({format_time(time, clock)})"
                yield ReplayedInstant(time, graphs, [ElementPlace(f"graph {number} of {call}", 0) for number in range(1, len(graphs) + 1)])

        def progress() -> Sequence[InputProgress]:
            return () if finished else (InputProgress("", calls[-1][0] - 1 if calls else None, ended=False),)

        return Replay("", program, clock, program.rules.prefixes, read, progress)
