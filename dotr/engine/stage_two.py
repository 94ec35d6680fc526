"""Stage two: one layer's step, from events that arrive at an instant to output graphs.

`step` is a function of the partition's state, the time and the arrivals; the state is data that `encode` and `restore` move between
processes. A firing's fresh names are a function of its match, so a replay writes the same graph.
Cost: about 3 µs a firing where many rules fire on the same events: what of a firing the events decide is written once for all of them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence, Set
from typing import NamedTuple, TypeAlias

from dotr.expressions.bounds import BOUNDS, LONGEST_TEXT
from dotr.fallbacks import Kind, answered, caught, described
from dotr.model.stream import DeadLetter, Firing, Reason
from dotr.model.terms import Label, Term, Variable
from dotr.model.time import Clock, Micros
from dotr.outputs import compile_template, digest_of, match_text
from dotr.outputs.templates import Make
from dotr.patterns.failing import Failure
from dotr.patterns.happened import Happened, Matched
from dotr.patterns.layout import Layer
from dotr.patterns.operator import Arrival, Arrivals, Operator
from dotr.patterns.reach import positive_roles
from dotr.patterns.state import State
from dotr.patterns.ties import Values


class Step(NamedTuple):
    """What a layer's partition did at an instant: its firings, the composite events it made that the layers above read, and a dead letter
    for each anchor that a rule has failed at twice: it names the rule and its place."""

    firings: list[Firing]
    events: list[tuple[Label, Arrival]]
    failed: Sequence[DeadLetter] = ()


class _Writer(NamedTuple):
    """What writes the firings of a rule; `labels` are those of its positive roles. Rules alike in labels or attributes hold one object."""

    rule: str
    encoded: bytes
    event: Label
    above: bool
    labels: tuple[Label, ...]
    attributes: tuple[Variable, ...]
    named: bool
    make: Make


class _Writers(dict[int, _Writer]):
    """What writes the firings of each rule of a layer, by the rule's number; made when it first fires, as most of many rules hardly do."""

    def __init__(self, layer: Layer, attributes: Mapping[Label, tuple[Variable, ...]], above: Set[Label]) -> None:
        self._layer = layer
        self._attributes = attributes
        self._above = above
        self._one: dict[tuple[str, ...], tuple[str, ...]] = {}

    def __missing__(self, number: int) -> _Writer:
        rule = self._layer.rules[number].rule
        labels, names = tuple(role.label for role in positive_roles(rule)), self._attributes[rule.event]
        labels, names = self._one.setdefault(labels, labels), self._one.setdefault(names, names)
        made = compile_template(rule.template, names)
        writer = self[number] = _Writer(
            rule.name, rule.name.encode(), rule.event, rule.event in self._above, labels, names, made.named, made.instance
        )
        return writer


class StageTwo:
    """A compiled layer and the templates of its rules. `above` are the composite events that higher layers read, `literal` are the
    characters that a computed literal may have."""

    def __init__(
        self, layer: Layer, attributes: Mapping[Label, tuple[Variable, ...]], clock: Clock, above: Set[Label], literal: int = LONGEST_TEXT
    ) -> None:
        self._literal = literal
        self._layer = layer
        self._operator = Operator(layer, attributes, clock)
        self._writers = _Writers(layer, attributes, above)

    def start(self) -> State:
        """The state of a partition before the first instant."""
        return self._operator.start()

    def restore(self, written: bytes) -> State:
        """The state that `State.encode` wrote; raises `StateError`."""
        return self._operator.restore(written)

    def due(self, state: State) -> Micros | None:
        """When the next delayed anchor stands."""
        return self._operator.due(state)

    def step(self, state: State, time: Micros, arrivals: Arrivals, partition: int = 0, *, ended: bool = False) -> Step:
        """Run the layer at a moment later than all before, and not later than one that is `due`; changes the state in place. `ended`: the
        last instant is over, so that nothing more is waited for."""
        BOUNDS.characters = self._literal
        matched = self._operator.step(state, time, arrivals, partition, ended=ended)
        if self._operator.failures:
            failed = [self._letter(time, each) for each in self._operator.failures]
            self._operator.failures.clear()
            return self._written(time, matched)._replace(failed=failed)
        if not matched:
            return _NOTHING
        try:
            return self._written(time, matched)
        except Exception as error:
            return self._apart(time, matched, error)

    def _apart(self, time: Micros, matched: Sequence[Matched], first: Exception) -> Step:
        """The firings of those matches whose graphs can be made, after an error has come first."""
        caught(first, Kind.GRAPHS)
        left: list[Matched] = []
        failed: list[DeadLetter] = []
        for each in matched:
            try:
                self._written(time, [each])
            except Exception as error:
                failed.append(self._letter(time, Failure(each.rule, each.bound[0], described(error))))
            else:
                left.append(each)
        if not failed:
            answered(first, Kind.GRAPHS)
        return self._written(time, left)._replace(failed=failed)

    def _letter(self, time: Micros, failure: Failure) -> DeadLetter:
        placed = self._layer.rules[failure.rule]
        rule, names = placed.rule, self._layer.ports[placed.ports[0]].attributes
        attributes = {name: term for name, term in zip(names, failure.anchor.values, strict=True) if term is not None}
        text = json.dumps({"event": rule.anchor.label, "attributes": attributes}, ensure_ascii=False)
        line, _ = rule.span.line_column
        why = f"rule {rule.name} fails at it: {failure.error}"
        return DeadLetter(Reason.FAILED, f"rule {rule.name}", rule.span.document.name, line, time, text, why)

    def _written(self, time: Micros, matched: Sequence[Matched]) -> Step:
        """The firings of matches; those of rules that fire on the same events come one after the other and hold the same objects."""
        writers, new = self._writers, tuple.__new__
        firings: list[Firing] = []
        events: list[tuple[Label, Arrival]] = []
        seen: dict[bytes, int] = {}
        text, digest = b"", b""
        last_bound: object = None
        last_labels: object = None
        last_values: object = None
        last_names: object = None
        pairs: _Pairs = ()
        for number, ordinal, bound, values in matched:
            rule, encoded, event, above, labels, names, named, make = writers[number]
            if named:
                if bound is not last_bound or labels is not last_labels:
                    text = match_text(time, _named(labels, bound), 0)
                    last_bound, last_labels = bound, labels
                digest = digest_of(encoded, text)
                if digest in seen:
                    again = seen[digest] = seen[digest] + 1
                    digest = digest_of(encoded, match_text(time, _named(labels, bound), again))
                else:
                    seen[digest] = 0
            if values is not last_values or names is not last_names:
                pairs = tuple([(name, value) for name, value in zip(names, values, strict=True) if value is not None])
                last_values, last_names = values, names
            graph, dropped = make(values, digest)
            firings.append(new(Firing, (time, rule, event, pairs, graph, dropped)))
            if above:
                events.append((event, (ordinal, values)))
        return Step(firings, events)


def _named(labels: Sequence[Label], bound: Sequence[Happened]) -> list[tuple[Label, Micros, Values]]:
    return [(label, event.time, event.values) for label, event in zip(labels, bound, strict=True)]


_NOTHING = Step([], [])

_Pairs: TypeAlias = tuple[tuple[Variable, Term], ...]
