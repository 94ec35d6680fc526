"""Replays of configurations and of the cases of rule tests."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from dotr.commands.test.cases import Case
from dotr.commands.test.files import is_test
from dotr.commands.test.run import LoadedTest, load_test
from dotr.errors.diagnostics import Diagnostic, Refused, did_you_mean, refuse
from dotr.explanations.replay.stream import RejectedElement, Replay, ReplayedInstant
from dotr.runtimes.pipeline.config import read_document
from dotr.runtimes.pipeline.reading import read_config
from dotr.runtimes.pipeline.replay import replay_of_config
from dotr.syntax.yaml import read_tree


def open_replays(path: str, case: str | None = None, options: Sequence[str] = ()) -> list[Replay]:
    """Replays of a configuration (one) or of a rule test (one for each case).

    Args:
        path: a configuration or a rule test.
        case: the number of a case, counted from 1, or its name; None for all.
        options: values that change the configuration, as those of `--set`.

    Raises:
        Refused: a file cannot be read or is wrong, or there is no such case.

    >>> [replay.case for replay in open_replays("tests/cases/rule_r.yaml", "1")]
    ['smoke after heat in one room is a fire']
    """
    if not is_test(read_tree(read_document(path)).data):
        config = read_config(path, options)
        if case is not None:
            raise refuse("C218", f"{path} is a configuration, which has no cases", None, "Leave --case out, or name a rule test.")
        return [replay_of_config(config, path)]
    if options:
        raise refuse("C218", f"{path} is a rule test, in which --set changes nothing", None, "Leave --set out, or name a configuration.")
    test = load_test(path)
    return [replay_of_case(test, number) for number in _selected(path, test.cases, case)]


def _selected(path: str, cases: Sequence[Case], case: str | None) -> Sequence[int]:
    """Numbers of the selected cases, counted from 0."""
    if case is None:
        return range(len(cases))
    names = [each.name for each in cases]
    if case in names:
        return [number for number, name in enumerate(names) if name == case]
    if case.isdecimal() and 1 <= int(case) <= len(cases):
        return [int(case) - 1]
    hint = did_you_mean(case, names) or f"It has {len(cases)}: name one, or write its number from 1 on."
    raise Refused([Diagnostic("C218", f"{path} has no case {case}", None, hint)])


def replay_of_case(test: LoadedTest, number: int) -> Replay:
    """A replay of case `number`, counted from 0.

    The place of an element is the line of its entry in `stream`, or its place in a recording.
    """
    case = test.cases[number]

    def read(on_reject: Callable[[RejectedElement], None]) -> Iterator[ReplayedInstant]:
        for time in sorted(case.elements):
            yield ReplayedInstant(time, case.elements[time], case.places[time])

    prefixes = {**test.file.prefixes, **test.program.rules.prefixes}
    return Replay(test.file.path, test.program, case.clock, prefixes, read, case=case.name)
