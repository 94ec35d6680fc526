"""Contents of each instant: given, derived and known triples, and facts of interest.

Idea: each instant is closed as in a run (`dotr.engine.driver.close_instant`). Its derived triples
come from the closure in rounds (`dotr.explanations.evidence.proofs`), which keeps the rule of each.
The places of background triples are found by reading the sources again, once for many instants.

Cost: some milliseconds an instant; memory: that of a thousand instants.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import Final

from dotr.engine.driver import ClosedInstant, close_instant, rejection_reason
from dotr.engine.replay import ElementPlace, RejectedElement, Replay, ReplayedInstant
from dotr.errors.diagnostics import Refused
from dotr.evaluation.expressions.values.times import format_time
from dotr.evaluation.limits import LimitExceeded
from dotr.evaluation.triples.index import NO_TERMS, TripleIndex
from dotr.explanations.evidence.background_origins import BackgroundOrigins, rule_place
from dotr.explanations.evidence.proofs import InstantProofs, program_rules
from dotr.explanations.missing.fact import close_quietly, time_value
from dotr.explanations.missing.partial_joins import ClosedGraph
from dotr.instant.datalog.closure.closed_instant import Closure
from dotr.instant.datalog.closure.inconsistencies import Inconsistency
from dotr.instant.instants import merge
from dotr.instant.queries.evaluate import AlgebraCompiler
from dotr.instant.queries.operators import EMPTY, AlgebraOperator
from dotr.model import dataclass
from dotr.model.algebra import Select
from dotr.model.rules import FactSource
from dotr.model.stream import Fact, Reason
from dotr.model.terms import OWL, RDF, RDF_TYPE, RDFS, XSD, Label, Prefixes, Term, Triple, Variable, is_blank, is_iri, is_triple
from dotr.model.time import Micros
from dotr.syntax.rendering import TermWriter
from dotr.temporal.layout.retention import roles

# Triples of an instant as Turtle statements.


class StatementWriter:
    """Writer of the triples of one instant.

    If an instant has a single blank node, which is neither an object nor an attribute, it is
    written as `[]`; otherwise blank nodes have names (`TermWriter`).

    >>> writer = StatementWriter({"": "http://e/"})
    >>> graph = [("_:0", "<http://e/p>", '"1"'), ("_:0", "<http://e/q>", "<http://e/a>")]
    >>> writer.see(graph)
    >>> list(writer.statements(graph))
    ['[] :p "1" ; :q :a .']
    """

    def __init__(self, prefixes: Prefixes) -> None:
        self._terms = TermWriter(prefixes)
        self._blanks: set[Term] = set()
        self._has_names = False

    def name_after(self, attributes: Iterable[tuple[Variable, Term]]) -> None:
        """Name the blank nodes among attributes after them."""
        for name, term in attributes:
            if is_blank(term):
                self._terms.name_blank(term, name)
                self._has_names = True

    def see(self, triples: Iterable[Triple]) -> None:
        """Collect the blank nodes of triples; called before any triple is written."""
        for subject, _, value in triples:
            if is_blank(subject):
                self._blanks.add(subject)
            if is_blank(value) or (is_triple(value) and "_:" in value):
                self._has_names = True

    def statements(self, triples: Sequence[Triple]) -> Iterator[str]:
        """Triples in Turtle, one statement for consecutive triples with one subject."""
        before = verb = text = ""
        for triple in triples:
            subject, predicate, value = triple
            if subject != before:
                if text:
                    yield f"{text} ."
                text = self.triple(triple)
            elif predicate != verb:
                text += f" ; {self._terms.predicate(predicate)} {self.text(value)}"
            else:
                text += f" , {self.text(value)}"
            before, verb = subject, predicate
        if text:
            yield f"{text} ."

    def triple(self, triple: Triple) -> str:
        """A triple without a full stop."""
        subject, predicate, value = triple
        return f"{self.text(subject)} {self._terms.predicate(predicate)} {self.text(value)}"

    def text(self, term: Term) -> str:
        """A term as Turtle."""
        if len(self._blanks) == 1 and not self._has_names and term in self._blanks:
            return "[]"
        return self._terms.text(term)


SHOWN: Final = 10
"""Maximum number of derived triples, and of known ones, that are shown of an instant."""
_MAX_CHUNK: Final = 1_000
"""Maximum number of instants per reading of the background's sources."""
_TRIPLES: Final = ("given", "derived", "retracted", "known")
"""Labels that are written only on the first of their lines."""
QUERY: Final = "query"
"""The label of the rows of an ad hoc query."""


@dataclass(frozen=True, slots=True)
class ShownTriple:
    """A triple as Turtle. `origin`: the rule that derived it or the file that states it; may be
    empty."""

    text: str
    origin: str

    def __str__(self) -> str:
        return f"{self.text} ({self.origin})" if self.origin else self.text


@dataclass(frozen=True, slots=True)
class ShownFact:
    """A fact of interest, or a row of an ad hoc query.

    - `label`: the label of its query.
    - `attributes`: the bound attributes as Turtle, in the order of the SELECT.
    """

    label: Label
    attributes: tuple[tuple[Variable, str], ...]

    def __str__(self) -> str:
        return ", ".join(f"{name} {text}" for name, text in self.attributes) or "holds"


@dataclass(frozen=True, slots=True)
class InstantFactsView:
    """Contents of an instant.

    Attributes:
        time: in µs since 1970.
        at: the same as text.
        places: the file and line of each element.
        given: the statements of the elements in Turtle.
        derived, known: triples that rules derive, and background triples of the instant's IRIs.
        more_derived, more_known: the numbers of those that are left out.
        retracted: conclusions of the background that do not hold at the instant.
        facts: the facts of interest by label, or the rows of an ad hoc query.
        remarks: labels and texts about a rejected, failed or inconsistent instant.
    """

    time: Micros
    at: str
    places: tuple[ElementPlace, ...]
    given: tuple[str, ...] = ()
    derived: tuple[ShownTriple, ...] = ()
    more_derived: int = 0
    known: tuple[ShownTriple, ...] = ()
    more_known: int = 0
    retracted: tuple[str, ...] = ()
    facts: tuple[ShownFact, ...] = ()
    remarks: tuple[tuple[str, str], ...] = ()

    def lines(self, width: int = 10) -> Iterator[str]:
        """The lines of the instant; labels are padded to `width` characters."""
        yield "   ".join([self.at, places_text(self.places)])
        rows = [("given", text) for text in self.given]
        rows += [("derived", str(each)) for each in self.derived]
        rows += [("derived", f"… {self.more_derived:,} more")] * bool(self.more_derived)
        rows += [("retracted", each) for each in self.retracted]
        rows += [("known", str(each)) for each in self.known]
        rows += [("known", f"… {self.more_known:,} more")] * bool(self.more_known)
        rows += [(fact.label, str(fact)) for fact in self.facts]
        before = ""
        for label, text in (*rows, *self.remarks):
            shown = "" if label == before and label in _TRIPLES else label
            yield f"  {shown:<{width}}{text}" if len(shown) < width else f"  {shown}  {text}"
            before = label

    def to_json(self) -> dict[str, object]:
        """The instant as a JSON object."""
        shown: dict[str, object] = {"time": time_value(self.at), "elements": [str(place) for place in self.places]}
        if self.given:
            shown["given"] = list(self.given)
        for name, triples, more in (("derived", self.derived, self.more_derived), ("known", self.known, self.more_known)):
            if triples:
                shown[name] = [{"triple": each.text, "origin": each.origin} for each in triples]
            if more:
                shown[f"more_{name}"] = more
        if self.retracted:
            shown["retracted"] = list(self.retracted)
        shown["facts"] = [{"label": fact.label, "attributes": dict(fact.attributes)} for fact in self.facts]
        if self.remarks:
            shown["remarks"] = [{"label": label, "text": text} for label, text in self.remarks]
        return shown


@dataclass
class _Draft:
    """An instant before the origins of its known triples are found."""

    view: InstantFactsView
    known: Sequence[Triple]
    statements: StatementWriter


class FactsReader:
    """Reader of the contents of the instants of a replay.

    Args:
        replay: the program and its stream.
        query: an ad hoc query, whose rows are shown alone; None: everything is shown.
        everything: show all derived and known triples, not at most `SHOWN` of each.

    Attributes:
        width: the width of the column of labels, the same for all instants.
        instants: the number of instants read by `views`.
        passed: the time of the last of them in µs since 1970; None if there is none.
        rejected: the number of elements that inputs rejected, by reason.
    """

    def __init__(self, replay: Replay, query: Select | None = None, everything: bool = False) -> None:
        self.replay = replay
        self.query = query
        self.everything = everything
        self.instants = 0
        self.passed: Micros | None = None
        self.rejected: Counter[Reason] = Counter()
        self._rules = program_rules(replay.program)
        self._origins = BackgroundOrigins(replay.program, self._rules)
        self._names = written_attributes(replay)
        self._operator = None if query is None else AlgebraCompiler().compile(query)
        self.width = max(map(len, [QUERY] if query is not None else ["derived", *self._names])) + 3

    def views(self, at: Micros | None = None, head: int | None = None) -> Iterator[InstantFactsView]:
        """The instants in the order of time. With an ad hoc query, instants without a row are left
        out.

        Args:
            at: the only time to show, in µs since 1970.
            head: the number of instants to read, from the first one on; None: all.
        """
        self.instants = 0
        self.rejected.clear()
        chunk: list[_Draft] = []
        size = 1
        instants = (each for each in self.replay.instants(self._count_rejected) if each.graphs)  # time alone has no facts
        for replayed in islice(instants, head):
            if at is not None and replayed.time > at:
                break
            if at is not None and replayed.time != at:
                continue
            self.instants += 1
            self.passed = replayed.time
            if self.query is None or self._operator is None:
                draft: _Draft | None = self._draft(replayed)
            else:
                draft = self._query_draft(replayed, self.query, self._operator)
            if draft is not None:
                chunk.append(draft)
            if len(chunk) >= size:
                yield from self._finished(chunk)
                chunk, size = [], min(2 * size, _MAX_CHUNK)
        yield from self._finished(chunk)

    def _count_rejected(self, rejected: RejectedElement) -> None:
        self.rejected[rejected.dead_letter.reason] += 1

    # --- one instant ---

    def _view(self, replayed: ReplayedInstant) -> InstantFactsView:
        return InstantFactsView(replayed.time, str(format_time(replayed.time, self.replay.clock)), tuple(replayed.places))

    def _query_draft(self, replayed: ReplayedInstant, query: Select, operator: AlgebraOperator) -> _Draft | None:
        program = self.replay.program
        triples = merge(replayed.time, replayed.graphs).triples
        statements = StatementWriter(self.replay.prefixes)
        closure = close_quietly(program, triples)
        if closure is None:
            return None
        try:
            rows = operator.solutions(ClosedGraph(closure, program.spec.limits).graph(), EMPTY, EMPTY)
        except LimitExceeded as error:
            return _Draft(replace(self._view(replayed), remarks=((QUERY, f"goes over a limit: {error}"),)), (), statements)
        facts = tuple(self._fact(QUERY, query.projection, row, statements) for row in rows)
        return _Draft(replace(self._view(replayed), facts=facts), (), statements) if facts else None

    def _draft(self, replayed: ReplayedInstant) -> _Draft:
        program = self.replay.program
        view, statements = self._view(replayed), StatementWriter(self.replay.prefixes)
        closed = close_instant(program, replayed.time, replayed.graphs)
        left_out = {each.element for each in closed.rejected}
        kept = [number for number in range(len(replayed.graphs)) if number not in left_out]
        used = ReplayedInstant(replayed.time, [replayed.graphs[n] for n in kept], [replayed.places[n] for n in kept])
        graphs = _graphs_of(replayed)
        if closed.facts.rejected:
            statements.see(triple for graph in graphs for triple in graph)
            given = self._given(graphs, replayed, statements)
            return _Draft(replace(view, given=given, remarks=self._remarks(closed, replayed, statements)), (), statements)
        instant = merge(used.time, used.graphs)
        facts = program.facts_of_interest(instant)
        statements.name_after((name, fact.attributes[name]) for fact in facts for name in self._names[fact.type] if name in fact.attributes)
        closure = program.knowledge.close(instant.triples)
        derived = self._derived(used, closure, instant.triples)
        statements.see(triple for graph in graphs for triple in graph)
        statements.see(triple for triple, _ in derived)
        known = _background_about(instant.triples, closure.background)
        shown = None if self.everything else SHOWN
        ordered = _by_label(facts, self._names)
        shown_facts = tuple(self._fact(fact.type, self._names[fact.type], fact.attributes, statements) for fact in ordered)
        view = replace(
            view,
            given=self._given(graphs, replayed, statements),
            derived=tuple(ShownTriple(statements.triple(triple), rule) for triple, rule in derived[:shown]),
            more_derived=len(derived) - len(derived[:shown]),
            more_known=len(known) - len(known[:shown]),
            retracted=tuple(statements.triple(triple) for triple in closure.removed.visible()) if closure.removed else (),
            facts=shown_facts,
            remarks=self._remarks(closed, replayed, statements),
        )
        return _Draft(view, known[:shown], statements)

    def _remarks(self, closed: ClosedInstant, replayed: ReplayedInstant, statements: StatementWriter) -> tuple[tuple[str, str], ...]:
        facts = closed.facts
        label = "rejected" if facts.rejected else "inconsistent"
        remarks = [(label, _inconsistency_text(each, statements)) for each in facts.inconsistencies]
        if facts.rejected and facts.exceeded:
            remarks.append((label, rejection_reason(facts, self.replay.program)[1]))
        elif not facts.inconsistencies:
            remarks += [("rejected", f"{each.why} ({replayed.places[each.element]})") for each in closed.rejected]
        remarks += [("failed", f"{each.why} ({replayed.places[each.element]})") for each in closed.failing]
        return tuple(dict.fromkeys(remarks))

    def _given(self, graphs: Sequence[Sequence[Triple]], replayed: ReplayedInstant, statements: StatementWriter) -> tuple[str, ...]:
        lines: list[str] = []
        for graph, place in zip(graphs, replayed.places, strict=True):
            written = list(statements.statements(graph)) or ["nothing"]
            if len(graphs) > 1:
                written[0] += f" ({place})"
            lines += written
        return tuple(lines)

    def _derived(self, used: ReplayedInstant, closure: Closure, given: Sequence[Triple]) -> list[tuple[Triple, str]]:
        """The triples that rules derive at the instant, with the rule of the last step."""
        stated = set(given)
        if all(triple in stated for triple in closure.delta.visible()):
            return []
        try:
            proofs = InstantProofs(self.replay.program, used, self._rules)
            return [(each.triple, str(rule_place(each.rule))) for each in proofs.derived()]
        except LimitExceeded:
            return [(triple, "") for triple in closure.delta.visible() if triple not in stated]

    def _fact(self, label: Label, names: Sequence[Variable], row: Mapping[Variable, Term], statements: StatementWriter) -> ShownFact:
        statements.name_after((name, row[name]) for name in names if name in row)
        return ShownFact(label, tuple((name, statements.text(row[name])) for name in names if name in row))

    def _finished(self, drafts: Sequence[_Draft]) -> Iterator[InstantFactsView]:
        """The views of some drafts, with the origins of their known triples."""
        known_triples = dict.fromkeys(triple for draft in drafts for triple in draft.known)
        try:
            origins = self._origins.of(known_triples) if known_triples else {}
        except Refused:  # a source that has changed since
            origins = {}
        for draft in drafts:
            known = []
            for triple in draft.known:
                origin = origins.get(triple)
                place = None if origin is None else origin.place or (None if origin.rule is None else rule_place(origin.rule))
                known.append(ShownTriple(draft.statements.triple(triple), "" if place is None else str(place)))
            yield replace(draft.view, known=tuple(known))


def places_text(places: Sequence[ElementPlace]) -> str:
    """The text of the places of elements; consecutive lines of one file are a range.

    >>> places_text([ElementPlace("a.csv", 2), ElementPlace("a.csv", 3), ElementPlace("a.csv", 4), ElementPlace("b.csv", 7)])
    'a.csv:2-4, b.csv:7'
    """
    ranges: list[tuple[str, int, int]] = []
    for file, line in dict.fromkeys(places):
        if ranges and line and ranges[-1][0] == file and ranges[-1][2] + 1 == line:
            ranges[-1] = (file, ranges[-1][1], line)
        else:
            ranges.append((file, line, line))
    return ", ".join(f"{ElementPlace(file, first)}{f'-{last}' if last > first else ''}" for file, first, last in ranges)


def _inconsistency_text(inconsistency: Inconsistency, statements: StatementWriter) -> str:
    """`cax-dw: :A owl:disjointWith :B (background), :x a :A (instant), …`."""
    premises = ", ".join(f"{statements.triple(triple)} ({origin.value})" for triple, origin in inconsistency.premises)
    return f"{inconsistency.rule}: {premises or 'a rule without a body'}"


def written_attributes(replay: Replay) -> dict[Label, tuple[Variable, ...]]:
    """The labels of facts of interest in the order of the rule files, each with the possible
    attributes of its facts, in the order of the SELECT.
    """
    program = replay.program
    names: dict[Label, dict[Variable, None]] = {}
    for shared in program.rules.queries:
        names.setdefault(shared.label, {}).update(dict.fromkeys(shared.query.projection))
    for rule in program.rules.rules:
        for role, places in zip(roles(rule), program.rules.places[rule.name].roles, strict=True):
            if isinstance(role.source, FactSource) and role.source.period is None:
                names.setdefault(role.origin, {}).update(dict.fromkeys(places.attributes))
    return {label: tuple(name for name in written if name in program.projected[label]) for label, written in names.items()}


def _graphs_of(replayed: ReplayedInstant) -> list[tuple[Triple, ...]]:
    """The triples of each element, with blank nodes as the instant names them."""
    triples = iter(merge(replayed.time, replayed.graphs).triples)
    return [tuple(islice(triples, len(graph))) for graph in replayed.graphs]


def _by_label(facts: Sequence[Fact], names: Mapping[Label, Sequence[Variable]]) -> list[Fact]:
    """Facts by label in the order of the rule files, then by their attributes."""
    number = {label: place for place, label in enumerate(names)}
    return sorted(facts, key=lambda fact: (number[fact.type], [fact.attributes.get(name, "") for name in names[fact.type]]))


def _background_about(given: Sequence[Triple], background: TripleIndex) -> list[Triple]:
    """Background triples about the IRIs of an instant: first those with one of its nodes as
    subject, then as object, then those about its classes and predicates.
    """
    ends = dict.fromkeys(term for s, p, o in given for term in ((s,) if p == RDF_TYPE else (s, o)) if _is_named(term))
    schema = dict.fromkeys(term for _, p, o in given for term in ((p, o) if p == RDF_TYPE else (p,)) if _is_named(term))
    stated = set(given)
    found: dict[Triple, None] = {}
    predicates = list(background.predicates())
    for terms, outward in ((ends, True), (ends, False), (schema, True)):
        for term in terms:
            for predicate in predicates:
                if outward:
                    triples = [(term, predicate, end) for end in background.by_subject[predicate].get(term, NO_TERMS)]
                else:
                    triples = [(end, predicate, term) for end in background.by_object[predicate].get(term, NO_TERMS)]
                found.update(dict.fromkeys(triple for triple in triples if triple not in stated))
    return list(found)


def _is_named(term: Term) -> bool:
    """True for an IRI outside the namespaces of RDF, RDFS, OWL and XSD."""
    return is_iri(term) and not term.startswith(tuple(f"<{namespace}" for namespace in (RDF, RDFS, OWL, XSD)))
