"""Reasons for which a triple does not hold: for each rule with a unifying head, the item of its
body at which most bindings stop.

Idea: the head is unified with the triple, and the body joined item by item. The order of the items
depends on the text and on shared variables, so that it is the same at every instant. A binding
stops at an item with which it has no extension; the stopped bindings are counted for each item over
all requested instants.
Cost: for each instant, its closure and a join for each rule with a unifying head.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from typing import Final

from dotr.engine.replay import Replay
from dotr.errors.diagnostics import Refused, refuse
from dotr.evaluation.expressions.values.times import format_time
from dotr.evaluation.triples.index import TripleIndex, is_hidden
from dotr.explanations.missing.conclusion import UnfulfilledRules, head_bindings, is_ready
from dotr.explanations.missing.fact import close_quietly, time_value
from dotr.explanations.missing.partial_joins import ClosedGraph
from dotr.explanations.missing.stop_text import datalog_rules, entailment_text, entailment_that_gives
from dotr.explanations.missing.vocabulary import StreamVocabulary
from dotr.explanations.text.narrative import Narrative, NarrativePart, WhyNot, sentences
from dotr.explanations.text.pattern_text import atom_text, body_item_text, item_text
from dotr.explanations.text.tree import counted, first_of
from dotr.instant.datalog.entailment import rule_set
from dotr.instant.instants import merge
from dotr.instant.queries.matching import Solution, matches
from dotr.instant.queries.operators import EMPTY
from dotr.model import dataclass
from dotr.model.algebra import Bgp, Const, Select, TriplePattern
from dotr.model.datalog import Bind, BodyItem, DatalogRule, FilterItem, GroupAggregate, Not
from dotr.model.places import Document, Span
from dotr.model.terms import WELL_KNOWN, Prefixes, Term, Variable
from dotr.model.time import Micros
from dotr.model.traverse import free_variables
from dotr.syntax.rendering import TermWriter
from dotr.syntax.sparql import parse_select

_MAX_BINDINGS: Final = 10_000
"""Maximum number of bindings of a body that are followed at an instant."""
_MAX_RULES: Final = 10
_MAX_TIMES: Final = 3
_HINT: Final = "Write a subject, a predicate and an object: ':r :in :lab'."


def read_triple(text: str, prefixes: Prefixes, option: str = "--triple") -> TriplePattern:
    """The requested triple. A variable or a blank node matches any term.

    Args:
        text: one triple in Turtle, with or without a full stop.
        prefixes: namespace IRI by prefix; well-known prefixes are added.
        option: the name of the option in messages.

    Raises:
        Refused: the text is not one triple.

    >>> read_triple(":r :in ?room", {"": "http://e/"})
    TriplePattern(subject=Const(term='<http://e/r>'), predicate=Const(term='<http://e/in>'), object=Var(name='room'))
    """
    document = Document(option, f"SELECT * WHERE {{ {text} }}")
    try:
        select = parse_select(Span(document, 0, len(document.text)), {**WELL_KNOWN, **prefixes})
    except Refused as refused:
        problem = refused.diagnostics[0]
        message = "" if problem.message == "unexpected }" else f": {problem.message}"
        raise refuse(
            "C219", f"{text or 'nothing'} is not one triple{message}", None, problem.hint if "prefix" in message else _HINT
        ) from None
    match select:
        case Select(_, Bgp((TriplePattern() as pattern,))):
            return pattern
        case _:
            raise refuse("C219", f"{text or 'nothing'} is not one triple", None, _HINT)


def explain_missing_triple(
    replay: Replay, pattern: TriplePattern, writer: TermWriter, *, first: Micros | None = None, last: Micros | None = None
) -> WhyNot:
    """The explanation of a triple that does not hold at the requested instants.

    Args:
        replay: the program and its stream.
        pattern: the triple (`read_triple`).
        writer: the writer of the explanation.
        first: the first requested time in µs since 1970, included; None: no bound.
        last: the last requested time, likewise.
    """
    program = replay.program
    datalog = datalog_rules(program)
    vocabulary = StreamVocabulary(datalog)
    rules = [rule for rule in (*datalog, *rule_set(program.spec.entailment, axiomatic=program.spec.axiomatic)) if rule.body]
    funnels = [_Funnel(rule, head) for rule in rules for head in rule.head if next(head_bindings(head, pattern, [EMPTY]), None) is not None]
    holds: list[str] = []
    elsewhere: list[str] = []
    instants = 0
    example: ClosedGraph | None = None
    for replayed in replay.instants():
        requested = (first is None or first <= replayed.time) and (last is None or replayed.time <= last)
        for triples in replayed.graphs:
            vocabulary.add(triples, replayed.time)
        if not requested and len(elsewhere) >= _MAX_TIMES:
            continue
        given = merge(replayed.time, replayed.graphs).triples
        closure = close_quietly(program, given)
        if closure is None:
            continue
        instants += requested
        closed = ClosedGraph(closure, program.spec.limits)
        at = str(format_time(replayed.time, replay.clock))
        if next(matches(closed.graph(), (pattern,), EMPTY, EMPTY), None) is not None:
            (holds if requested else elsewhere).append(at)
        elif requested and not holds:
            failures = UnfulfilledRules(rules, closed, given, vocabulary, writer)
            for funnel in funnels:
                funnel.visit(pattern, at, failures)
            example = example or closed
    text = item_text(pattern, writer)
    if holds or example is None:
        return _answer(replay, text, instants, holds, elsewhere)
    stopped = sorted((each for each in funnels if each.is_relevant), key=lambda each: -each.passed)
    remarks = []
    needed = entailment_that_gives(pattern, [EMPTY], example, datalog, program.spec.entailment)
    if needed is not None:
        remarks.append(entailment_text(program, needed, writer))
    else:
        remarks += vocabulary.near_misses_of(pattern, example.background, writer)
    shown = [each.stopped_rule(writer) for each in stopped[:_MAX_RULES]]
    return _answer(replay, text, instants, holds, elsewhere, shown, remarks)


def _answer(
    replay: Replay,
    triple: str,
    instants: int,
    holds: Sequence[str],
    elsewhere: Sequence[str],
    rules: Sequence[Narrative] = (),
    remarks: Sequence[str] = (),
) -> WhyNot:
    """The answer for a triple as Turtle and a number of requested instants.

    - `holds`, `elsewhere`: the times at which it holds, as text, of these instants and of others.
    - `rules`: the rules with a unifying head; empty if it holds.
    - `remarks`: sentences on entailment and near misses.
    """
    count = counted(instants, "instant")
    below: tuple[Narrative, ...] = ()
    if holds:
        text = f"{triple} holds at {len(holds):,} of {count}: {first_of(holds, _MAX_TIMES)}"
    else:
        text = f"{triple} does not hold at {count}" + (f"; it holds at {', '.join(elsewhere)}" if elsewhere else "")
        below = (*(rules or sentences(["no Datalog rule gives it"])), *sentences(remarks))
    parts: dict[str, NarrativePart] = {
        "triple": triple,
        "instants": instants,
        "holds": [*map(time_value, holds)],
        "elsewhere": [*map(time_value, elsewhere)],
        "rules": rules,
        "remarks": remarks,
    }
    return WhyNot(replay.case, bool(holds), Narrative(text, below, parts))


@dataclass
class _Stop:
    """The bindings that stop at an item: their number, and the details of the first."""

    count: int
    at: str
    held: tuple[str, ...]
    lacks: str


@dataclass
class _Funnel:
    """The bindings of a rule's body over instants, by the item at which they stop."""

    rule: DatalogRule
    head: TriplePattern
    started: int = 0
    stops: dict[int, _Stop] = field(default_factory=dict)
    items: list[BodyItem] = field(default_factory=list)

    def visit(self, pattern: TriplePattern, at: str, failures: UnfulfilledRules) -> None:
        """Count the bindings of an instant at which the triple does not hold."""
        for bound in head_bindings(self.head, pattern, [EMPTY]):
            self.items = self.items or list(_in_order(self.rule.body, bound, failures.background))
            rows: list[Solution] = [dict(bound)]
            for number, item in enumerate(self.items):
                further: list[Solution] = []
                for row in rows:
                    found = failures.after(item, [row])
                    if found:
                        further += found[:_MAX_BINDINGS]
                    else:
                        self._note(number, row, at, failures)
                if number == 0:
                    self.started += len(further)
                rows = further[:_MAX_BINDINGS]

    def _note(self, number: int, row: Solution, at: str, failures: UnfulfilledRules) -> None:
        stop = self.stops.get(number)
        if stop is not None:
            stop.count += 1
            return
        atoms = [item for item in self.items[:number] if isinstance(item, TriplePattern)]
        held = tuple(failures.held_text(triple) for atom in atoms if (triple := failures.named_instance(atom, row)) is not None)
        self.stops[number] = _Stop(1, at, held, failures.lacking_item(self.items[number], [row]))

    @property
    def passed(self) -> int:
        """The number of the item at which most bindings stop; the first item counts last."""
        return max(self.stops, key=lambda number: (number > 0, self.stops[number].count, number), default=0)

    @property
    def is_relevant(self) -> bool:
        """False for a row of a rule set without a binding after its first item, or that reads a
        hidden relation.
        """
        if not self.rule.of_rule_set:
            return bool(self.stops)
        atoms = [item for item in self.items if isinstance(item, TriplePattern)]
        predicates = [atom.predicate.term for atom in atoms if isinstance(atom.predicate, Const)]
        return self.passed > 0 and not any(map(is_hidden, predicates))

    def stopped_rule(self, writer: TermWriter) -> Narrative:
        """The item at which most bindings stop, with the first of them; a count of 0 if there is no
        binding after the first item."""
        number = self.passed
        stop = self.stops[number]
        count = stop.count if number else 0
        head, item = atom_text(self.head, writer), body_item_text(self.items[number], writer)
        example = f"at {stop.at}: {''.join(f'{each}; ' for each in [', '.join(stop.held)] if each)}{stop.lacks}"
        text = f"{self.rule.name} gives {head}: {example}"
        if count:
            bindings = f"{count:,} of {counted(self.started, 'binding')}"
            text = f"{self.rule.name} gives {head}: {bindings} stop{'s' * (count == 1)} at {item}; {example}"
        parts: dict[str, NarrativePart] = {
            "rule": self.rule.name,
            "head": head,
            "bindings": self.started,
            "stopped": count,
            "item": item,
            "at": time_value(stop.at),
            "held": stop.held,
            "lacks": stop.lacks,
        }
        return Narrative(text, parts=parts)


def _in_order(body: Sequence[BodyItem], bound: Mapping[Variable, Term], background: TripleIndex) -> Iterator[BodyItem]:
    """The items of a body in the order of the join.

    1. The first atom whose predicate the background lacks: only an instant can match it.
    2. The other atoms in the order of the text, first those that share a variable with earlier
       ones.
    3. AGGREGATE, BIND in the order of their variables, FILTER, NOT.
    """
    known = set(bound)
    atoms = [item for item in body if isinstance(item, TriplePattern)]
    leading = next((each for each in atoms if isinstance(each.predicate, Const) and each.predicate.term not in background.by_subject), None)
    while atoms:
        connected = next((each for each in atoms if known.intersection(free_variables(each)) or not free_variables(each)), atoms[0])
        atom = connected if leading is None else leading
        leading = None
        atoms.remove(atom)
        known.update(free_variables(atom))
        yield atom
    yield from (item for item in body if isinstance(item, GroupAggregate))
    binds = [item for item in body if isinstance(item, Bind)]
    produced = {bind.variable for bind in binds}
    row = dict.fromkeys([*known, *(name for item in body if isinstance(item, GroupAggregate) for name, _ in item.results)], "")
    while binds:
        bind = next((each for each in binds if is_ready(each, [row], produced)), binds[0])
        binds.remove(bind)
        row[bind.variable] = ""
        yield bind
    yield from (item for item in body if isinstance(item, FilterItem))
    yield from (item for item in body if isinstance(item, Not))
