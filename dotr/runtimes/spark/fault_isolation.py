"""Elements that make stage one fail, found again in what a task reads, so that their own text can become dead letters."""

from __future__ import annotations

from collections.abc import Sequence

from dotr.engine.fault_isolation import attribute_failures, isolate
from dotr.engine.stage_one import InstantFacts
from dotr.model.stream import Element, Reason
from dotr.model.time import Micros
from dotr.runtimes.spark.inputs import Rejected, files_of, judge
from dotr.runtimes.spark.job import Job
from dotr.runtimes.spark.task import Task
from dotr.runtimes.spark.worker_cache import input_of, program_of
from dotr.sources.records import SourcedElement


def rescued(
    job: Job, task: Task, time: Micros, elements: list[Element], dead: Rejected, error: Exception
) -> tuple[InstantFacts, list[Element]] | None:
    """What stage one says of the elements that it can take, and those; the others are dead letters. None: it can take none."""
    found = isolate(program_of(job), time, [triples for _, triples in elements], error)
    if found.rejected:
        again = _again(job, task, time)
        dead.extend([again[number].letter(Reason.FAILED, why) for number, why in found.rejected.items()])
        elements = [element for number, element in enumerate(again) if number not in found.rejected]
    return None if found.asked is None else (found.asked, elements)


def blame(job: Job, task: Task, time: Micros, elements: list[Element], asked: InstantFacts, dead: Rejected) -> None:
    """Tell of the elements that make queries fail."""
    found = attribute_failures(program_of(job), time, [triples for _, triples in elements], asked)
    again = traced(job, task, time, elements)
    dead.extend([again[number].letter(Reason.FAILED, why) for number, why in found.items()])


def traced(job: Job, task: Task, time: Micros, elements: Sequence[Element]) -> list[SourcedElement]:
    """The elements of an instant with their records: they are read a second time for those."""
    return [element for element in elements if isinstance(element, SourcedElement)] or _again(job, task, time)


def _again(job: Job, task: Task, time: Micros) -> list[SourcedElement]:
    """The elements of an instant, in the order in which the task has them, with their records."""
    found: list[Element] = []
    for stretch in task.stretches:
        judge(files_of(input_of(job, stretch.input), stretch, trace=True), stretch, time - 1, time, found, [])
    return [element for element in found if isinstance(element, SourcedElement)]
