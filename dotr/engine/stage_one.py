"""Stage one: the facts of interest of an instant. No state.

The instant is closed over the background, then only those queries are asked whose answers can differ from the background's own: they
are found by the predicates that the instant brought. Cost: the instant's triples and what they derive, whatever the background holds
and however many queries wait for something else.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from dotr.knowledge.closure import Contradiction
from dotr.knowledge.knowledge import Knowledge
from dotr.knowledge.triples import TripleIndex
from dotr.model.algebra import Select
from dotr.model.rules import FactSource
from dotr.model.stream import Instant
from dotr.model.terms import Term
from dotr.patterns.ties import Values, in_tie_order
from dotr.queries import Plan, plan


class Asked(NamedTuple):
    """What an instant holds: its facts by stream, and the contradictions found in it."""

    facts: Mapping[int, Sequence[Values]]
    contradictions: Sequence[Contradiction]


class StageOne:
    """The compiled queries of a program over its knowledge."""

    def __init__(self, knowledge: Knowledge, streams: Sequence[FactSource]) -> None:
        self.knowledge = knowledge
        self.plans: list[Plan] = []
        numbers: dict[Select, int] = {}
        self._streams: list[list[tuple[int, tuple[str, ...]]]] = []
        for stream, source in enumerate(streams):
            number = numbers.setdefault(source.query, len(self.plans))
            if number == len(self.plans):
                self.plans.append(plan(source.query, knowledge.background))
                self._streams.append([])
            self._streams[number].append((stream, source.attributes))
        self._always: list[int] = []
        self._by_predicate: dict[Term, list[int]] = {}
        for number, each in enumerate(self.plans):
            if each.triggers is None or each.static:
                self._always.append(number)
            else:
                for predicate in each.triggers:
                    self._by_predicate.setdefault(predicate, []).append(number)

    def facts(self, instant: Instant) -> Asked:
        """The facts of interest at an instant, each stream's in the tie order."""
        closure = self.knowledge.close(instant.triples)
        new = closure.new
        facts: dict[int, Sequence[Values]] = {}
        for number in self._due(new):
            rows = self.plans[number].answers(new)
            if rows:
                for stream, names in self._streams[number]:
                    facts[stream] = in_tie_order(names, rows)
        return Asked(facts, closure.contradictions)

    def _due(self, new: TripleIndex) -> Sequence[int]:
        by_predicate = self._by_predicate
        due = dict.fromkeys(self._always)
        for predicate in new.by_subject:
            waiting = by_predicate.get(predicate)
            if waiting is not None:
                due.update(dict.fromkeys(waiting))
        return list(due)
