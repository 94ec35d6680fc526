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
from dotr.engine.replay import RejectedElement, Replay, ReplayedInstant
from dotr.errors.diagnostics import Refused
from dotr.explanations.evidence.evaluations import truth_in
from dotr.explanations.text.narrative import NarrativePart, WhyNot, sentences
from dotr.explanations.why_not.rule import Question
from dotr.model.algebra import Attribute, Call, Const, Var
from dotr.model.rules import FactSource, Rule
from dotr.model.terms import Term, Triple, Variable
from dotr.model.time import LAST_MICRO, Micros
from dotr.runtimes.pipeline.config import Config
from dotr.runtimes.pipeline.inputs import read_inputs
from dotr.runtimes.pipeline.written import WrittenDeadLetter, WrittenEvent, WrittenOutput, written_dead_letters, written_outputs
from dotr.streams.formats.messages import message_decoder
from dotr.streams.records import Format, Message
from dotr.streams.times import parse_time

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
        self._unread: list[str] = []
        self._outputs: Sequence[WrittenOutput] = ()
        letters = None
        try:
            self._outputs, _ = written_outputs(config, replay.program, replay.clock)
            letters = written_dead_letters(config)
            self._letters = {_place(each.file, each.line): each for each in islice(letters or (), _MOST_LETTERS)}
        except Refused as refused:
            self._unread = [f"What a run wrote cannot be read: {refused.diagnostics[0].message}."]
            self._letters = {}
        inputs = read_inputs(replace(config, recording=""), [])
        specs = [*inputs.files, *(each.like for each in inputs.growing), *(each.like for each in inputs.topics)]
        self._decoders = {each.input: message_decoder(each) for each in specs if each.format not in (Format.PARQUET, Format.RECORDING)}
        self._is_alone = not self._outputs and letters is None and not self._unread
        self._taken: dict[tuple[str, int], bool] = {}

    def _read(self, on_reject: Callable[[RejectedElement], None]) -> Iterator[ReplayedInstant]:
        for instant in self._source.read(on_reject):
            if self._letters:
                for graph, place in zip(instant.graphs, instant.places, strict=True):
                    key = _place(*place)
                    if key in self._letters and key not in self._taken:
                        self._taken[key] = self._covers(instant.time) and self._concerns(instant.time, graph)
            yield instant

    def added_to(self, answer: WhyNot) -> WhyNot:
        """The answer of the replay, with what is told of the run."""
        if self._is_alone:
            told = ["This is what a replay does: no outputs and no dead letters of a run are there."]
        else:
            told = [*self._rejected(), *self._wrote(is_expected=answer.fired), *self._unread]
        run: dict[str, NarrativePart] = {"run": told}
        narrative = answer.told
        return replace(answer, told=replace(narrative, below=(*narrative.below, *sentences(told)), parts={**narrative.parts, **run}))

    # --- elements ---

    def _rejected(self) -> Iterator[str]:
        question = self._question
        has_times = question.first is not None or question.last is not None
        found = [
            letter
            for key, letter in self._letters.items()
            if (self._taken[key] if key in self._taken else self._is_requested_letter(letter, has_times=has_times))
        ]
        if len(found) == 1:
            yield f"The run rejected this element ({found[0]})."
        elif found:
            yield f"The run rejected {len(found):,} elements ({found[0]}; …)."

    def _is_requested_letter(self, letter: WrittenDeadLetter, *, has_times: bool) -> bool:
        """True if the element of a letter, which the replay does not have, is of the question: one
        that a recording lacks, since the run never took it."""
        try:
            if letter.time is None or not self._covers(time := parse_time(letter.time, self._source.clock.unit)):
                return False
        except ValueError:
            return False
        if not self._question.where:
            return has_times
        decode = self._decoders.get(letter.input)
        records = () if decode is None else decode(Message(letter.text.encode(errors="replace"), letter.line), True)
        return any(self._concerns(time, each.element.triples) for each in records if each.element is not None)

    def _covers(self, time: Micros) -> bool:
        """True if an element of a time is at, or an anchor of it may stand at, a requested time: with a
        delay of 7 s one of 6 is at 6 and 13, and where the data say how long it waits, from 6 to 13."""
        first, last = self._question.first, self._question.last
        first, last = -LAST_MICRO if first is None else first, LAST_MICRO if last is None else last
        anchor = None if self._rule is None else self._rule.anchor
        due = time if anchor is None else time + anchor.delay
        may_be_between = anchor is not None and anchor.delayed_by is not None
        return first <= time <= last or first <= due <= last or (may_be_between and time <= last and first <= due)

    def _concerns(self, time: Micros, graph: tuple[Triple, ...]) -> bool:
        """True if an element has the requested terms, or is a fact that has them, alone."""
        where = self._question.where
        if all(any(term in triple for triple in graph) for _, term in where):
            return True
        source = None if self._rule is None else self._rule.anchor.source
        program = self._source.program
        if not isinstance(source, FactSource) or source not in program.layout.streams:
            return False
        facts = close_instant(program, time, [graph]).facts.facts.get(program.layout.streams.index(source), ())
        return any(all(_equals(dict(zip(source.attributes, row, strict=True)).get(name), term) for name, term in where) for row in facts)

    # --- events ---

    def _wrote(self, *, is_expected: bool) -> Iterator[str]:
        """A sentence on the requested events in the first output that can tell; without one, only
        if the replay has some."""
        where = self._event_terms()
        if where is None:
            return
        for output in self._outputs:
            chosen = output.chosen
            event = self._name if self._rule is None else self._rule.event
            if (where and not output.has_attributes) or (chosen is not None and event not in chosen.labels):
                continue
            found = [each for each in output.events(self._name) if self._is_requested(each, output, where)]
            if len(found) == 1:
                yield f"The run wrote this event: {found[0].place}."
            elif found:
                yield f"The run wrote {len(found):,} such events, the first {found[0].place}."
            elif is_expected:
                yield f"The run wrote no such event to {output.name}."
            return

    def _is_requested(self, event: WrittenEvent, output: WrittenOutput, where: Sequence[tuple[Variable, Term]]) -> bool:
        anchored = event.time - (0 if self._rule is None else self._rule.anchor.delay)
        return event.rule == self._name and self._covers(anchored) and all(output.has(event, name, term) for name, term in where)

    def _event_terms(self) -> Sequence[tuple[Variable, Term]] | None:
        """The requested terms as attributes of the rule's events; None if `with` does not copy
        one."""
        rule, where = self._rule, self._question.where
        if rule is None:
            return where
        names = [_copy_of(rule, name) for name, _ in where]
        return None if None in names else [(name, term) for name, (_, term) in zip(names, where, strict=True) if name is not None]


def _place(file: str, line: int) -> tuple[str, int]:
    """A key of a place that does not depend on the folder from which a command is started."""
    path = PurePath(file)
    return (path.name if path.suffix else file), line


def _equals(value: Term | None, term: Term) -> bool:
    return value is not None and truth_in(Call("=", (Var("v"), Const(term))), lambda _: value) is True


def _copy_of(rule: Rule, name: Variable) -> Variable | None:
    """The attribute of a rule's events to which `with` copies an attribute of the anchor."""
    copied = Attribute(rule.anchor.label, name)
    return next((each.variable for each in rule.assignments if each.expression == copied), None)
