"""Common parts of property tests of whole programs: number of examples, compilation, results.

The results are those of the engine and of the oracle. Examples are the same on every run: they
depend on the strategies and on the name of the test; `DOTR_EXAMPLES=5000` tries that many new ones.
"""

from __future__ import annotations

import os
import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random
from typing import Final, TypeVar

from hypothesis import HealthCheck, assume, note, seed, settings

from dotr.engine.program import CompiledProgram
from dotr.engine.spec import ProgramSpec
from dotr.instant.datalog.entailment import Entailment
from dotr.languages.programs import compile_program
from dotr.model.places import Document
from dotr.model.stream import Element
from tests.oracle.cases import world
from tests.oracle.isomorphism import canonical
from tests.oracle.program import Result, run
from tests.oracle.temporal import Output
from tests.support.strategies import ProgramText

EXAMPLES: Final = os.environ.get("DOTR_EXAMPLES")
MOST: Final = 200
"""The largest number of outputs of an example. One with more is skipped: a recursive event may double its matches at every instant."""


_Test = TypeVar("_Test", bound=Callable[..., object])


def examples(number: int) -> Callable[[_Test], _Test]:
    """The number of examples of a random test."""
    chosen = settings(
        max_examples=int(EXAMPLES or number),
        deadline=None,
        database=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large],
    )
    return chosen if EXAMPLES else lambda test: seed(test.__name__)(chosen(test))


def scattered(*example: object) -> Random:
    """A source of choices that depends on an example alone. Those that Hypothesis draws are the first of several most of the time."""
    return Random(repr(example))


def also_reloaded(program: object) -> bool:
    """Whether a program is tried with its state restored after every instant, too: one of three."""
    return scattered(program).randrange(3) == 0


def compiled(text: ProgramText, *, backwards: bool = False) -> CompiledProgram:
    """The compiled program. `backwards`: with the lines of graph and Datalog and the rules in reverse order, each rule in its own file."""

    def lines(part: str, header: int) -> str:
        head, rest = part.splitlines()[:header], part.splitlines()[header:]
        return "\n".join([*head, *(reversed(rest) if backwards else rest)]) + "\n"

    header, *statements = text.rules.split("\n\n") if backwards else ("", text.rules)
    rules = [Document(f"{number}.dotr", f"{header}\n{statement}") for number, statement in enumerate(statements)]
    with tempfile.TemporaryDirectory() as folder:
        graph = Path(folder) / "background.ttl"
        graph.write_text(lines(text.background, 3))
        return compile_program(
            ProgramSpec(
                tuple(reversed(rules)),
                (Document("random.dlog", lines(text.datalog, 2)),),
                (str(graph),),
                Entailment(text.entailment),
                unit=text.clock.unit,
            )
        )


def oracle(text: ProgramText, elements: Sequence[Element], program: CompiledProgram) -> Result:
    """The oracle's result, where there is one right answer.

    The rules are taken parsed from the compiled program, since parsing would take most of the time.
    """
    datalog = [("random.dlog", text.datalog)]
    result = run(world(program.rules, [text.background], datalog, text.entailment, clock=text.clock), elements, MOST)
    assume(not result.decided_by_names)
    assume(not result.too_much)
    return result


def output_signatures(outputs: Sequence[Output]) -> Counter[tuple[object, ...]]:
    """Outputs up to the names of blank and generated nodes."""
    return Counter((o.time, o.rule, o.event, canonical(o.graph, o.attributes), o.dropped) for o in outputs)


def reported(result: Result) -> Counter[tuple[object, ...]]:
    """Facts of interest up to the names of blank nodes."""
    return Counter((f.time, f.label, canonical([], f.attributes)) for f in result.facts)


def shown(text: ProgramText, elements: Sequence[Element]) -> None:
    note(f"{text.clock}\n{text.rules}\n--- Datalog\n{text.datalog}\n--- background, {text.entailment}\n{text.background}\n--- stream")
    for element in elements:
        note(f"{element.time}: {' . '.join(map(' '.join, element.triples))}")
