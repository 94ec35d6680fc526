"""Output of a comparison of two programs: text, JSON, and the reasons of single events.

`Jam: 247 -> 96 events, 0 new, 151 gone. Wave: 3 -> 0 (it reads Jam). Quiet: the same 137.`
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Final

from dotr.commands.replay.comparison import Audit, ProgramPair, RuleDifference
from dotr.engine.replay import RejectedElement, Replay, ReplayedInstant
from dotr.evaluation.expressions.values.times import format_time
from dotr.explanations.text.narrative import WhyNot
from dotr.explanations.unit import is_answered, why_no_event
from dotr.explanations.why import EventQuestion, WhyExplainer
from dotr.explanations.why_not.rule import copied_terms, why_not
from dotr.explanations.why_not.survey import AnchorTimes, Question
from dotr.model.rules import Rule
from dotr.model.stream import Firing
from dotr.model.time import Micros
from dotr.runtimes.pipeline.written import WrittenEvent
from dotr.streams.formats.writing import ntriples
from dotr.syntax.rendering import TermWriter

_LINE: Final = 140
"""The number of characters up to which all sentences are on one line."""


def summary(found: Sequence[RuleDifference], *, hint: bool) -> str:
    """The differences of all rules, a sentence each: those with a difference of their own, those
    that read them, those without a difference.

    Args:
        found: the differences.
        hint: add the option that shows the events.

    >>> jam = RuleDifference("Jam", "Jam", "Jam", before=247, after=96, new=0, gone=151)
    >>> wave = RuleDifference("Wave", "Wave", "Wave", before=3, after=0, new=0, gone=3, read=("Jam",))
    >>> print(summary([jam, wave, RuleDifference("Quiet", "Quiet", "Quiet", before=137, after=137)], hint=False))
    Jam: 247 -> 96 events, 0 new, 151 gone. Wave: 3 -> 0 (it reads Jam). Quiet: the same 137.
    """
    own = [each for each in found if each.differs and not each.read]
    sentences = [_own_sentence(each, hint=hint) for each in own]
    for read in dict.fromkeys(each.read for each in found if each.read):
        readers = [each for each in found if each.read == read]
        verb = "it reads" if len(readers) == 1 else "they read"
        sentences.append(f"{', '.join(map(_short, readers))} ({verb} {_listed(read)}).")
    sentences += [_same_sentence(each) for each in found if not each.differs]
    text = " ".join(sentences)
    return text if len(text) <= _LINE else "\n".join(sentences)


def _own_sentence(each: RuleDifference, *, hint: bool) -> str:
    remarks = []
    if each.older is None:
        remarks.append("a new rule")
    elif each.newer is None:
        remarks.append("the rule is removed")
    if hint:
        reasons = [*(["why"] if each.new and each.newer else []), *(["why not"] if each.gone and each.newer else [])]
        remarks.append(f"--show 5: which{', and ' if reasons else ''}{' or '.join(reasons)}")
    noun = "event" if each.after == 1 else "events"
    remark = f" ({'; '.join(remarks)})" if remarks else ""
    return f"{_name(each)}: {each.before:,} -> {each.after:,} {noun}, {each.new:,} new, {each.gone:,} gone{remark}."


def _short(each: RuleDifference) -> str:
    both = f" with {each.new:,} new and {each.gone:,} gone" if each.new and each.gone else ""
    return f"{each.rule}: {each.before:,} -> {each.after:,}{both}"


def _same_sentence(each: RuleDifference) -> str:
    if each.before == each.after:
        return f"{_name(each)}: the same {each.after:,}."
    return f"{_name(each)}: {each.before:,} -> {each.after:,}, the others by other rules."


def _name(each: RuleDifference) -> str:
    renamed = each.older is not None and each.newer is not None and each.older != each.newer
    remarks = [*([f"{each.older} before"] if renamed else []), *(["internal"] if each.internal else [])]
    return f"{each.rule} ({', '.join(remarks)})" if remarks else each.rule


def _listed(names: Sequence[str]) -> str:
    """
    >>> _listed(["Jam"]), _listed(["Jam", "Rush", "Dirt"])
    ('Jam', 'Jam, Rush and Dirt')
    """
    return " and ".join(filter(None, [", ".join(names[:-1]), names[-1]]))


# --- single events ---


class DifferenceExplainer:
    """Reasons of single events: why the changed program makes a new event, or no longer makes one.

    Args:
        pair: the two programs with their inputs.
    """

    def __init__(self, pair: ProgramPair) -> None:
        self._pair = pair
        self._why: WhyExplainer | None = None
        self._before = {rule.name: rule for rule in pair.before.program.rules.rules}
        self._after = {rule.name: rule for rule in pair.after.program.rules.rules}

    def lines(self, found: Iterable[RuleDifference]) -> Iterator[str]:
        """The events to be shown of all rules, each with its reason."""
        for each in found:
            for firing in each.first_gone:
                yield f"gone: {self._event(firing, self._before.get(firing.rule), self._pair.before)}"
                if (reason := self.why_not(each, firing)) is not None:
                    yield from (f"  {line}" for line in reason.lines())
            for firing in each.first_new:
                yield f"new: {self._event(firing, self._after.get(firing.rule), self._pair.after)}"
                yield from (f"  {line}" for line in self.why(firing))

    def why_not(self, each: RuleDifference, firing: Firing) -> WhyNot | None:
        """The reason why the changed program does not make an event; None where its rule is
        removed.

        The question is restricted to anchors at the event's time whose attributes equal those that
        the rule copied from its anchor.
        """
        if each.newer is None or not is_answered(self._pair.after.program, each.newer):
            return None
        rule, older = self._after.get(each.newer), self._before.get(firing.rule)
        if rule is None or older is None:
            return why_no_event(_until(self._pair.after, firing.time), each.newer, Question(firing.time, firing.time))
        # the event's own anchor: at its time without the delay; of a delay from the data, the one that was due then,
        # and where this delay has changed, those that may have been
        of_data = older.anchor.delayed_by
        is_due = of_data is not None and of_data == rule.anchor.delayed_by
        first = firing.time if is_due else firing.time - older.anchor.delay
        last = first if of_data is None else firing.time
        where = tuple(
            (name, term)
            for name, term in copied_terms(older, firing.attributes).get(older.anchor.label, ())
            if name in rule.anchor.source.attributes and not term.startswith("_:")
        )
        times = AnchorTimes.DUE if is_due else AnchorTimes.OWN
        return why_not(_until(self._pair.after, last + rule.anchor.delay), rule.name, Question(first, last, where, times=times))

    def why(self, firing: Firing) -> Sequence[str]:
        """The reason of a new event, in lines of text."""
        if self._why is None:
            self._why = WhyExplainer(self._pair.after)
        if not is_answered(self._pair.after.program, firing.rule):
            return ()
        named = tuple((name, term) for name, term in firing.attributes if not term.startswith("_:"))
        tree = self._why.answer(EventQuestion(None, firing.rule, firing.time, named)).tree
        return () if tree is None else tree.lines(1)

    def to_json(self, each: RuleDifference) -> dict[str, object]:
        """The events of a rule to be shown, with their reasons."""
        gone = []
        for firing in each.first_gone:
            reason = self.why_not(each, firing)
            gone.append({**_event_json(firing, self._pair.before), "why_not": None if reason is None else reason.to_json()})
        new = [{**_event_json(firing, self._pair.after), "why": list(self.why(firing))} for firing in each.first_new]
        return {"gone": gone, "new": new}

    def _event(self, firing: Firing, rule: Rule | None, replay: Replay) -> str:
        terms, values = TermWriter(replay.prefixes), dict(firing.attributes)
        order = [] if rule is None else [assignment.variable for assignment in rule.assignments]
        attributes = [f"{name} {terms.text(values[name])}" for name in dict.fromkeys([*order, *values]) if name in values]
        at = f"{firing.rule} at {format_time(firing.time, replay.clock)}"
        return f"{at}: {', '.join(attributes)}" if attributes else at


def _until(replay: Replay, time: Micros) -> Replay:
    """A replay up to the first instant after a time, which fires the timers due before it."""

    def read(on_reject: Callable[[RejectedElement], None]) -> Iterator[ReplayedInstant]:
        for instant in replay.read(on_reject):
            yield instant
            if instant.time > time:
                return

    return replace(replay, read=read)


def _event_json(firing: Firing, replay: Replay) -> dict[str, object]:
    return {
        "time": format_time(firing.time, replay.clock),
        "rule": firing.rule,
        "event": firing.event,
        "attributes": dict(firing.attributes),
        "graph": ntriples(firing.graph),
    }


def comparison_json(found: Sequence[RuleDifference], explainer: DifferenceExplainer | None) -> dict[str, object]:
    """The differences of all rules as a JSON object; with an `explainer`, also the events to be
    shown."""
    rules = [
        {
            "rule": each.rule,
            **({"internal": True} if each.internal else {}),
            "older_name": each.older,
            "newer_name": each.newer,
            "before": each.before,
            "after": each.after,
            "new": each.new,
            "gone": each.gone,
            "reads": list(each.read),
            **({} if explainer is None else {"events": explainer.to_json(each)}),
        }
        for each in found
    ]
    return {"differs": any(each.differs for each in found), "rules": rules}


# --- events that a run has written ---


def audit_lines(audit: Audit, replay: Replay, path: str) -> Iterator[str]:
    """The comparison of one output with the replay; `path`: the configuration and its options, for
    the commands."""
    width, program = max(map(len, audit.rules), default=0), replay.program
    names = {*(each.name for each in program.rules.rules), *program.attributes}
    for rule, counts in sorted(audit.rules.items()):
        yield f"  {rule:{width}}  {counts['same']:,} the same, {counts['missing']:,} missing, {counts['more']:,} more"
    if not audit.rules:
        yield "  no event, neither written nor in the replay"
    for kind, events in audit.first.items():
        for event in events:
            at, text = format_time(event.time, replay.clock), _written_text(event, replay)
            yield f"  {kind}: {event.rule} at {at}{event.place and ' '}{event.place}{text and f': {text}'}"
            if event.rule in names:
                yield f"    dotr {'why' if kind == 'missing' else 'why-not'} {path} --rule {event.rule} --at {at}"
    if any(audit.beyond.values()):
        yield f"  beyond that time: {audit.beyond['written']:,} written, {audit.beyond['replayed']:,} in the replay"


def audit_json(audit: Audit, replay: Replay) -> dict[str, object]:
    """The same as a JSON object."""

    def shown(event: WrittenEvent) -> dict[str, object]:
        at, text = format_time(event.time, replay.clock), _written_text(event, replay)
        return {"time": at, "rule": event.rule, "text": text, "place": event.place or None}

    return {
        "output": audit.output,
        "differs": audit.differs,
        "rules": [{"rule": rule, **counts} for rule, counts in sorted(audit.rules.items())],
        **{kind: [*map(shown, events)] for kind, events in audit.first.items()},
        "beyond": {kind: audit.beyond[kind] for kind in ("written", "replayed")},
    }


def _written_text(event: WrittenEvent, replay: Replay) -> str:
    """The attributes of an event, or its graph where the output has no others."""
    try:
        _, attributes, _ = json.loads(event.content)
    except ValueError:
        return event.content.replace("\n", " ")
    terms = TermWriter(replay.prefixes)
    texts = {name: terms.text(value) if value.startswith(("<", '"')) else value for name, value in attributes.items()}
    return ", ".join(f"{name} {text}" for name, text in texts.items())
