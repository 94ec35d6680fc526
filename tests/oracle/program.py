"""A whole program, by brute force: elements to instants, closure, facts of interest, firings."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from dotr.evaluation.limits import LIMITS, Limits
from dotr.model.algebra import Attribute, Expression, Filter, Select, TimeOf
from dotr.model.datalog import DatalogRule
from dotr.model.rules import FactSource, Rule, SharedQuery
from dotr.model.stream import Element
from dotr.model.terms import Label, Term, Triple, Variable, blank
from dotr.model.time import Clock, Micros
from tests.oracle.algebra import NamesDecide, select
from tests.oracle.calendars import ticks as ticks_of
from tests.oracle.closure import close
from tests.oracle.temporal import Counts, History, Output, Over, fire, in_order
from tests.oracle.triple_terms import with_names


@dataclass(frozen=True)
class World:
    """A parsed program."""

    rules: tuple[Rule, ...] = ()
    shared: tuple[SharedQuery, ...] = ()
    datalog: tuple[DatalogRule, ...] = ()
    background: frozenset[Triple] = frozenset()
    entailment: str = "none"
    clock: Clock = field(default_factory=Clock)
    limits: Limits = LIMITS


@dataclass(frozen=True)
class ReportedFact:
    time: Micros
    label: Label
    attributes: Mapping[Variable, Term]


@dataclass(frozen=True)
class Change:
    """Other rules from the time after `at` on. `starting` has the roles, as rule and label, that see no event up to then;
    a rule without a label there forgets its firings."""

    at: Micros
    rules: tuple[Rule, ...]
    starting: frozenset[tuple[str, Label]]


@dataclass(frozen=True)
class Result:
    """`decided_by_names`: a tie was broken only by the names of blank nodes, which this oracle chooses in its own way.
    `too_much`: it gave up."""

    facts: tuple[ReportedFact, ...]
    outputs: tuple[Output, ...]
    decided_by_names: bool
    too_much: bool = False
    over: frozenset[Over] = frozenset()
    counts: Mapping[str, Counts] = field(default_factory=dict, compare=False)


def run(world: World, elements: Iterable[Element], most: int | None = None, change: Change | None = None) -> Result:
    """The output of a program for a stream; with `most`, it gives up beyond that number of outputs."""
    try:
        return say(world, elements, most, change)
    except NamesDecide:
        return Result((), (), decided_by_names=True)


def say(world: World, elements: Iterable[Element], most: int | None, change: Change | None = None) -> Result:
    held = dict(instants(elements))
    first, last = min(held, default=0), max(held, default=0)
    history = History(world.clock, last, matches=world.limits.matches, probes=world.limits.probes)
    facts: list[ReportedFact] = []
    outputs: list[Output] = []
    ordered = in_order(world.rules)
    sources = {source for rule in (*world.rules, *(change.rules if change else ())) for source in fact_sources(rule)}
    background = close(world.background, world.datalog, world.entailment)
    ticks = {source: ticks_of(source.period, first, last) if held else [] for source in sources if source.period is not None}
    waiting = {*held, *(tick for times in ticks.values() for tick in times)}
    while waiting:
        now = min(waiting)
        if change is not None and now > change.at:
            ordered = in_order(change.rules)
            history.starts = dict.fromkeys(change.starting, change.at)
            history.firings = {key: time for key, time in history.firings.items() if (key[0], "") not in change.starting}
            change = None
        if now in held:
            known = close(world.background | held[now], world.datalog, world.entailment)
            facts += reported(world, now, known)
            for source in sources:
                if source.period is None:
                    for solution in select(source.query, known):
                        history.record(source, now, solution)
        for source, times in ticks.items():
            if now in times:
                for solution in select(source.query, background):
                    history.record(source, now, solution)
        for rule in ordered:
            fired = fire(rule, now, history)
            outputs += fired
            if most is not None and len(outputs) > most:
                return Result((), (), decided_by_names=False, too_much=True)
            for output in fired:
                history.record(rule.event, now, output.attributes)
        waiting |= {anchor.stands for rule in ordered for anchor in history.anchors(rule)}
        waiting = {time for time in waiting if time > now}
    outputs.sort(key=lambda o: (o.time, o.rule, sorted(o.attributes.items())))
    return Result(tuple(facts), tuple(outputs), history.decided_by_names, over=frozenset(history.over), counts=history.counts)


def fact_sources(rule: Rule) -> list[FactSource]:
    sources = [rule.anchor.source, *(clause.role.source for clause in rule.clauses)]
    return [source for source in sources if isinstance(source, FactSource)]


def instants(elements: Iterable[Element]) -> list[tuple[Micros, frozenset[Triple]]]:
    """The merge of all elements of one time, in order of time. Blank nodes are local to an element."""
    merged: dict[Micros, frozenset[Triple]] = {}
    copies: Counter[Element] = Counter()
    for element in elements:
        numbered = Element(element.time, by_appearance(element.triples))
        copies[numbered] += 1
        text = "\n".join(" ".join(t) for t in numbered.triples)
        name = hashlib.sha256(f"{element.time}\n{copies[numbered]}\n{text}".encode()).hexdigest()
        named = {(renamed(s, name), p, renamed(o, name)) for s, p, o in numbered.triples}
        merged[element.time] = merged.get(element.time, frozenset()) | named
    return sorted(merged.items())


def by_appearance(triples: Iterable[Triple]) -> tuple[Triple, ...]:
    numbers: dict[Term, Term] = {}
    result = []
    for s, p, o in triples:
        a, c = (with_names(t, lambda b: numbers.setdefault(b, blank(str(len(numbers))))) for t in (s, o))
        result.append((a, p, c))
    return tuple(result)


def renamed(term: Term, element: str) -> Term:
    return with_names(term, lambda b: blank(f"{element}-{b[2:]}"))


def reported(world: World, now: Micros, known: frozenset[Triple]) -> list[ReportedFact]:
    """The facts of all labels: those of shared queries, and of labels that a rule defines itself; before temporal constraints."""
    queries = [(shared.label, untimed(shared.query)) for shared in world.shared]
    for rule in world.rules:
        for role in (rule.anchor, *(clause.role for clause in rule.clauses)):
            if isinstance(role.source, FactSource) and role.source.period is None:
                queries += [(role.origin, replace(role.source.query, projection=role.source.projected))]
    # One label and query is one set of facts, however many rules define or read it; an inline label that hides a shared one is another.
    facts = [
        ReportedFact(now, label, solution)
        for label, query in dict.fromkeys((label, replace(query, projection=tuple(sorted(query.projection)))) for label, query in queries)
        for solution in select(query, known)
    ]
    return sorted(facts, key=lambda f: (f.label, sorted(f.attributes.items())))


def untimed(query: Select) -> Select:
    """A shared query without its temporal constraints."""
    pattern = query.pattern
    if isinstance(pattern, Filter):
        kept = tuple(c for c in pattern.conditions if not temporal(c))
        pattern = Filter(pattern.pattern, kept) if kept else pattern.pattern
    return replace(query, pattern=pattern)


def temporal(expression: Expression) -> bool:
    if isinstance(expression, Attribute | TimeOf):
        return True
    return any(temporal(a) for a in getattr(expression, "arguments", ()))
