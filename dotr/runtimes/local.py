"""The in-process runtime: one pass over the inputs, one step an instant. The reference that every other runtime agrees with.

Memory: the state of the rules, and what lies within the inputs' delays; it does not grow with the length of the streams.
"""

from __future__ import annotations

import time
from collections import Counter
from contextlib import ExitStack

from dotr.engine.instants import merge
from dotr.engine.session import Engine
from dotr.io import FileSink, letter_line, merged
from dotr.model.stream import DeadLetter, Reason
from dotr.outputs.writing import writer
from dotr.runtimes.letters import LOG, Complaints
from dotr.runtimes.pipeline import Pipeline
from dotr.runtimes.totals import Progress, Totals

_REPORT_SECONDS = 0.25
_CHECK_EVERY = 256


def run_local(pipeline: Pipeline, report: Progress) -> Totals:
    """Run a pipeline to the end of its input, or until interrupted: then all instants so far are written, whole.

    Raises `Refused` where an input cannot be opened, or an output is there already or cannot be written.
    """
    with ExitStack() as stack:
        sinks = [
            (writer(output.format, pipeline.clock), stack.enter_context(FileSink(output.path, output.place))) for output in pipeline.outputs
        ]
        rejected = stack.enter_context(FileSink(pipeline.dead_letter_path)) if pipeline.dead_letter_path else None
        run = _Run(pipeline, rejected)
        next_report = time.monotonic()
        try:
            for number, (now, elements) in enumerate(merged(pipeline.inputs, run.dead)):
                firings, asked = run.engine.step(merge(now, [triples for _, triples in elements]))
                run.instants += 1
                run.elements += len(elements)
                if asked.contradictions:
                    run.inconsistent(now, asked.contradictions[0].rule)
                if asked.facts:
                    run.facts += sum(map(len, asked.facts.values()))
                if firings:
                    run.events += len(firings)
                    run.dropped += sum([firing.dropped for firing in firings])
                    for write, sink in sinks:
                        sink.write(write(firings))
                if not number % _CHECK_EVERY and time.monotonic() >= next_report:
                    report(run.totals())
                    for _, sink in sinks:
                        sink.flush()
                    next_report = time.monotonic() + _REPORT_SECONDS
        except KeyboardInterrupt:
            LOG.warning("stopped: the output holds all instants so far")
    totals = run.totals()
    report(totals)
    return totals


class _Run:
    """What a run has done so far."""

    def __init__(self, pipeline: Pipeline, rejected: FileSink | None) -> None:
        self.engine = Engine(pipeline.program, pipeline.clock)
        self.elements = self.instants = self.facts = self.events = self.dropped = self.contradictory = 0
        self._clock = pipeline.clock
        self._rejected = rejected
        self._dead: Counter[Reason] = Counter()
        self._complaints = Complaints()

    def dead(self, letter: DeadLetter) -> None:
        self._dead[letter.reason] += 1
        self._complaints.tell(letter)
        if self._rejected is not None:
            self._rejected.write([letter_line(letter, self._clock) + "\n"])

    def inconsistent(self, now: int, rule: str) -> None:
        self.contradictory += 1
        if self.contradictory <= 3:
            LOG.warning("the instant %d µs is inconsistent (%s); its facts are those of what was derived", now, rule)

    def totals(self) -> Totals:
        return Totals(self.elements, self.instants, self.facts, self.events, dict(self._dead), self.dropped)
