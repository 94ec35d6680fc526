"""Stage two of a program without state: the task that reads an instant runs all rules on the
instant and writes their firings.

Invariant: a task has whole instants in order, and no firing at an instant uses events of another
(`Layout.stateful_operators`), so the output is that of one engine over the whole stream. Each task
starts with an empty engine, so a repeated task gives the same output.
"""

from __future__ import annotations

from dotr.engine.driver import Engine, StreamItems
from dotr.instant.stage_one import InstantFacts
from dotr.model.stream import Firing
from dotr.model.time import Micros
from dotr.runtimes.spark.exchange.job import Job
from dotr.runtimes.spark.exchange.rows import SparkRow
from dotr.runtimes.spark.exchange.spilled_rows import FIRINGS, SpillBuffer, SpilledDeadLetters
from dotr.runtimes.spark.exchange.worker_cache import layers_of, program_of
from dotr.temporal.matching.rule_counts import RuleCounts


class StatelessStageTwo:
    """The firings of a task's instants. The dead letters of anchors at which a rule fails or
    exceeds a limit are added to `dead_letters`.
    """

    def __init__(self, job: Job, dead_letters: SpilledDeadLetters) -> None:
        self._firings = SpillBuffer(FIRINGS, job)
        self._engine = Engine(program_of(job), job.clock, layers_of(job), self._emit)
        self._dead_letters = dead_letters

    def add(self, time: Micros, facts: InstantFacts, items: StreamItems) -> None:
        """Run the rules on the facts of an instant; a program without state has no units that read
        `items`."""
        firings = self._engine.match(time, facts, items)
        if firings:
            self._emit(firings)
        if self._engine.failed:
            self._dead_letters.extend(self._engine.failed)
            self._engine.failed.clear()

    @property
    def rule_counts(self) -> dict[str, RuleCounts]:
        """The counts so far by the name of the rule."""
        return self._engine.rule_counts

    def _emit(self, firings: list[Firing]) -> None:
        self._firings.add(firings, len(firings))

    def lines(self) -> list[SparkRow]:
        """The firings as rows."""
        return self._firings.rows(-1)
