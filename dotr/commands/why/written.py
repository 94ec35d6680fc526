"""Sentences of why-not on a run: the elements that it rejected, and the events that it wrote.

Idea: a replay is no run. It takes elements that a run has rejected, as one that came behind an idle
input, and it may read other files. So the dead letters and the outputs of the configuration are
read, and what concerns the question is told beside the answer of the replay.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import PurePath
from typing import Final

from dotr.engine.driver import close_instant
from dotr.engine.replay import ElementPlace, RejectedElement, Replay, ReplayedInstant
from dotr.errors.diagnostics import Refused
from dotr.evaluation.expressions import has_terms
from dotr.explanations.text.narrative import NarrativePart, WhyNot, sentences
from dotr.explanations.why_not.survey import Question
from dotr.model.algebra import Attribute
from dotr.model.rules import FactSource
from dotr.model.stream import DeadLetter
from dotr.model.terms import Term, Triple, Variable
from dotr.model.time import Micros
from dotr.runtimes.pipeline.config import Config
from dotr.runtimes.pipeline.inputs import read_inputs
from dotr.runtimes.pipeline.written import WrittenOutput, written_dead_letters, written_outputs
from dotr.streams.formats.messages import message_decoder
from dotr.streams.records import Format, Message

_MOST_LETTERS: Final = 100_000
"""Maximum number of dead letters that are compared with the elements of the replay."""


class RunsAnswer:
    """The dead letters and outputs of a run, for one question.

    Args:
        config: the configuration.
        replay: its replay.
        name: the rule, or the label of a unit.
        question: the question.

    Attributes:
        replay: the replay, which notes the elements that the run has rejected.
    """

    def __init__(self, config: Config, replay: Replay, name: str, question: Question) -> None:
        self.replay = replace(replay, read=self._read)
        self._source = replay
        self._name = name
        self._question = question
        self._rule = next((rule for rule in replay.program.rules.rules if rule.name == name), None)
        self._delay = 0 if self._rule is None else self._rule.anchor.delay
        self._outputs: Sequence[WrittenOutput] = ()
        self._letters: dict[tuple[str, int], DeadLetter] = {}
        self._problem = "This is what a replay does: no outputs and no dead letters of a run are there."
        self._concerned: dict[tuple[str, int], bool] = {}
        try:
            self._outputs, _ = written_outputs(config, replay.program, replay.clock)
            letters = written_dead_letters(config, replay.clock)
            self._letters = {_place(each.file, each.line): each for each in islice(letters or (), _MOST_LETTERS)}
            if self._outputs or letters is not None:
                self._problem = ""
        except Refused as refused:
            self._problem = f"What a run wrote cannot be read: {refused.diagnostics[0].message}."
        inputs = read_inputs(replace(config, recording=""), [])
        specs = [*inputs.files, *(each.like for each in inputs.growing), *(each.like for each in inputs.topics)]
        self._decoders = {each.input: message_decoder(each) for each in specs if each.format not in (Format.PARQUET, Format.RECORDING)}

    def _read(self, on_reject: Callable[[RejectedElement], None]) -> Iterator[ReplayedInstant]:
        for instant in self._source.read(on_reject):
            if self._letters:
                for graph, place in zip(instant.graphs, instant.places, strict=True):
                    key = _place(*place)
                    if key in self._letters and key not in self._concerned:
                        self._concerned[key] = self._covers(instant.time) and self._concerns(instant.time, graph)
            yield instant

    def added_to(self, answer: WhyNot) -> WhyNot:
        """The answer of the replay, with what is told of the run."""
        told = [*self._rejected(), *self._wrote(is_expected=answer.fired), *([self._problem] if self._problem else [])]
        run: dict[str, NarrativePart] = {"run": told}
        narrative = answer.told
        return replace(answer, told=replace(narrative, below=(*narrative.below, *sentences(told)), parts={**narrative.parts, **run}))

    # --- elements ---

    def _rejected(self) -> Iterator[str]:
        found = [
            letter
            for key, letter in self._letters.items()
            if (self._concerned[key] if key in self._concerned else self._is_requested_letter(letter))
        ]
        if found:
            first = f"{found[0].reason.value}, {ElementPlace(found[0].file, found[0].line)}"
            number = len(found)
            yield f"The run rejected this element ({first})." if number == 1 else f"The run rejected {number:,} elements ({first}; …)."

    def _is_requested_letter(self, letter: DeadLetter) -> bool:
        """True if the element of a letter, which the replay does not have, is of the question: one
        that a recording lacks, since the run never took it."""
        question, time = self._question, letter.time
        if time is None or not self._covers(time):
            return False
        if not question.where:
            return question.first is not None or question.last is not None
        decode = self._decoders.get(letter.input)
        records = () if decode is None else decode(Message(letter.text.encode(errors="replace"), letter.line), True)
        return any(self._concerns(time, each.element.triples) for each in records if each.element is not None)

    def _covers(self, time: Micros) -> bool:
        """True if an element of a time is at, or an anchor of it may stand at, a requested time: with
        a delay of 7 s one of 6 is at 6 and 13, and where the data say how long it waits, from 6 to
        13."""
        question, due = self._question, time + self._delay
        may_be_between = self._rule is not None and self._rule.anchor.delayed_by is not None
        between = (question.last is None or time <= question.last) and (question.first is None or question.first <= due)
        return question.covers(time) or question.covers(due) or (may_be_between and between)

    def _concerns(self, time: Micros, graph: tuple[Triple, ...]) -> bool:
        """True if an element has the requested terms, or is a fact that has them, alone."""
        where = self._question.where
        if all(any(term in triple for triple in graph) for _, term in where):
            return True
        source, program = None if self._rule is None else self._rule.anchor.source, self._source.program
        if not isinstance(source, FactSource) or source not in program.layout.streams:
            return False
        facts = close_instant(program, time, [graph]).facts.facts.get(program.layout.streams.index(source), ())
        return any(has_terms(dict(zip(source.attributes, row, strict=True)), where) for row in facts)

    # --- events ---

    def _wrote(self, *, is_expected: bool) -> Iterator[str]:
        """A sentence on the requested events in the first output that can tell; without one, only
        if the replay has some."""
        where = self._event_terms()
        event = self._name if self._rule is None else self._rule.event
        outputs = (each for each in self._outputs if each.chosen is None or event in each.chosen.labels)
        output = next((each for each in outputs if each.has_attributes or not where), None)
        if where is None or output is None:
            return
        found = [
            each.place
            for each in output.events(self._name)
            if each.rule == self._name and self._covers(each.time - self._delay) and output.has(each, where)
        ]
        if len(found) == 1:
            yield f"The run wrote this event: {found[0]}."
        elif found:
            yield f"The run wrote {len(found):,} such events, the first {found[0]}."
        elif is_expected:
            yield f"The run wrote no such event to {output.name}."

    def _event_terms(self) -> Sequence[tuple[Variable, Term]] | None:
        """The requested terms as attributes of the rule's events; None if `with` does not copy
        one."""
        rule, where = self._rule, self._question.where
        if rule is None:
            return where
        copies = {each.expression: each.variable for each in reversed(rule.assignments)}
        of_anchor = [(copies.get(Attribute(rule.anchor.label, name)), term) for name, term in where]
        found = [(name, term) for name, term in of_anchor if name is not None]
        return found if len(found) == len(where) else None


def _place(file: str, line: int) -> tuple[str, int]:
    """A key of a place that does not depend on the folder from which a command is started."""
    path = PurePath(file)
    return (path.name if path.suffix else file), line
