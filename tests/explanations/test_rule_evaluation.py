"""The plain evaluator of explanations: it finds the firings of the engine (for other programs: `tests/api/test_random_programs.py`)."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Sequence

from hypothesis import given

from dotr.engine.program import CompiledProgram
from dotr.engine.replay import ElementPlace, RejectedElement, Replay, ReplayedInstant
from dotr.explanations.evidence.evaluations import ConsumedEvents
from dotr.explanations.evidence.rule_evaluation import RuleEvaluator
from dotr.explanations.replay.recording import Recorder
from dotr.explanations.why_not.rule import why_not
from dotr.explanations.why_not.survey import Question
from dotr.model.stream import Element
from tests.oracle.temporal import Output
from tests.support.properties import compiled, examples, oracle, shown
from tests.support.running import by_time, run_engine
from tests.support.strategies import ProgramText, programs_of_expressions
from tests.support.strategies_streams import streams


def replay_of(program: CompiledProgram, text: ProgramText, elements: Sequence[Element]) -> Replay:
    def read(on_reject: Callable[[RejectedElement], None]) -> Iterator[ReplayedInstant]:
        for time, graphs in sorted(by_time(elements).items()):
            yield ReplayedInstant(time, graphs, [ElementPlace("stream", number) for number, _ in enumerate(graphs, 1)])

    return Replay("random", program, text.clock, {}, read)


def assert_evaluated_alike(program: CompiledProgram, text: ProgramText, elements: list[Element], outputs: Sequence[Output]) -> None:
    """Each rule fires at the same anchors with the same events in the engine, whose outputs are
    given, and in the plain evaluator, and as often as in the whole program.
    """
    whole = Counter((each.time, each.rule) for each in outputs)
    for rule in program.rules.rules:
        recorder = Recorder.of(replay_of(program, text, elements), rule.name)
        evaluator = RuleEvaluator(rule, recorder.history, ConsumedEvents(), text.clock, program.rules.places[rule.name])
        found: Counter[tuple[int, str]] = Counter()
        for step in recorder.steps():
            bindings = []
            reached = [0] * len(step.after)
            anchors = errors = 0
            for anchor in step.events:
                evaluation = evaluator.evaluate(anchor)
                far = evaluator.evaluate(anchor, reach=10)
                assert (far.reached, far.bindings) == (evaluation.reached, evaluation.bindings)
                evaluator.consume(evaluation)
                anchors += evaluation.is_anchor
                if evaluation.is_anchor:
                    reached = [before + more for before, more in zip(reached, evaluation.reached, strict=False)]
                errors += sum(each.errs for each in evaluation.final)
                bindings += [tuple(sorted(binding.events.items())) for binding in evaluation.bindings]
            assert (step.anchors, list(step.after), step.errors) == (anchors, reached, errors)
            assert Counter(bindings) == Counter(tuple(sorted(each.events.items())) for each in step.firings)
            found[step.time, rule.name] += len(step.firings)
        assert +found == Counter({key: number for key, number in whole.items() if key[1] == rule.name})


def assert_counted(program: CompiledProgram, text: ProgramText, elements: list[Element], outputs: Sequence[Output]) -> None:
    """The number of events of a funnel is that of the engine."""
    whole = Counter(each.rule for each in outputs)
    for rule in program.rules.rules:
        for every in (False, True):
            answer = why_not(replay_of(program, text, elements), rule.name, Question(every=every))
            assert answer.fired == bool(whole[rule.name])
            assert answer.lines()[0].startswith(f"{rule.name}: ")
            assert json.loads(json.dumps(answer.to_json()))["funnel"]["events"] == whole[rule.name]


@examples(40)
@given(programs_of_expressions(), streams())
def test_expressions_are_evaluated_as_by_the_engine(text: ProgramText, elements: list[Element]) -> None:
    shown(text, elements)
    program = compiled(text)
    oracle(text, elements, program)
    assert_evaluated_alike(program, text, elements, run_engine(program, elements, text.clock).outputs)
