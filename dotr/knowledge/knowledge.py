"""Background knowledge, closed once; and the closure of instants over it.

Idea: the background's schema (the triples that settle what rules mean for a predicate or a class) is closed first, over nothing; the
rest is then closed over that schema as if it were one big instant, so that the rules are specialised by the schema already.
Cost: about a microsecond a triple and rule that applies to it.
"""

from __future__ import annotations

import gc
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from dotr.diagnostics import Refused
from dotr.knowledge.closure import Closer, Closure, Contradiction, Rules
from dotr.knowledge.joins import Row, compile_join
from dotr.knowledge.ordering import JoinItem, variables
from dotr.knowledge.safety import check_safety
from dotr.knowledge.triples import TripleIndex
from dotr.model.algebra import Const, Slot, TriplePattern
from dotr.model.datalog import DatalogRule, Not
from dotr.model.terms import Term, Triple, Variable, is_iri, is_literal

__all__ = ["Knowledge", "check_safety"]


@dataclass(frozen=True, slots=True, eq=False)
class Knowledge:
    """Closed background knowledge. `contradictions` are those of the background alone; `derived` counts the triples that the closure
    added to those that were loaded.

    >>> from dotr.model.algebra import Var
    >>> inside = TriplePattern(Var("c"), Const("<in>"), Var("b"))
    >>> at = TriplePattern(Var("a"), Const("<at>"), Var("c"))
    >>> rule = DatalogRule("where", (TriplePattern(Var("a"), Const("<in>"), Var("b")),), (at, inside))
    >>> knowledge = Knowledge.load([("<c>", "<in>", "<b>"), ("<s>", "<at>", "<c>")], [rule])
    >>> knowledge.derived, ("<s>", "<in>", "<b>") in knowledge.background
    (1, True)
    >>> list(knowledge.close([("<t>", "<at>", "<c>"), ("<s>", "<at>", "<c>")]).new)
    [('<t>', '<at>', '<c>'), ('<t>', '<in>', '<b>')]
    """

    background: TripleIndex
    contradictions: tuple[Contradiction, ...]
    loaded: int
    derived: int
    _closer: Closer

    @classmethod
    def load(cls, triples: Iterable[Triple], rules: Sequence[DatalogRule]) -> Knowledge:
        """Close triples under rules; raises `Refused` with everything that is wrong with the rules."""
        problems = [problem for rule in rules for problem in check_safety(rule)]
        if problems:
            raise Refused(problems)
        collecting = gc.isenabled()
        gc.disable()  # Nothing here is garbage, and looking for some doubles the time.
        try:
            return cls._closed(dict.fromkeys(triples), rules)
        finally:
            if collecting:
                gc.enable()

    @classmethod
    def _closed(cls, given: Mapping[Triple, None], rules: Sequence[DatalogRule]) -> Knowledge:
        found: set[Contradiction] = set()
        rest = list(given)
        recurring: list[DatalogRule] = []
        for rule in rules:
            if any(isinstance(item, TriplePattern) for item in rule.body):
                recurring.append(rule)
            else:
                rows = _rows(rule)
                rest += _facts(rule, rows)
                if rows and not rule.head:
                    found.add(Contradiction(rule.name, ()))
        prepared = Rules(recurring)
        closed = TripleIndex()
        closer = Closer(prepared, closed)
        schema = [t for t in rest if (t[1], None) in closer.schema or (t[1], t[2]) in closer.schema] if closer.schema else []
        if schema:
            closure = closer.close(schema)
            closed = closure.new
            found.update(closure.contradictions)
            closer = Closer(prepared, closed)
        closure = closer.close(rest)
        found.update(closure.contradictions)
        if schema:
            for triple in closure.new:
                closed.add(triple)
        else:
            closed = closure.new
        return cls(closed, tuple(sorted(found)), len(given), len(closed) - len(given), Closer(prepared, closed))

    def close(self, triples: Iterable[Triple]) -> Closure:
        """K(t) for an instant that holds these triples; nothing of it is kept."""
        return self._closer.close(triples)


def _rows(rule: DatalogRule) -> list[Row]:
    """The matches of a rule without atoms in its body: one, or none if a condition fails."""
    body: list[JoinItem] = [item for item in rule.body if not isinstance(item, Not)]
    return compile_join(body, [], [], _names(rule))(TripleIndex(), TripleIndex())


def _names(rule: DatalogRule) -> list[Variable]:
    return list(dict.fromkeys(name for head in rule.head for name in variables(head)))


def _facts(rule: DatalogRule, rows: Iterable[Row]) -> list[Triple]:
    facts: list[Triple] = []
    for row in rows:
        terms = dict(zip(_names(rule), row, strict=True))
        for head in rule.head:
            subject, predicate, object = (_term(slot, terms) for slot in (head.subject, head.predicate, head.object))
            if subject and predicate and object and is_iri(predicate) and not is_literal(subject):
                facts.append((subject, predicate, object))
    return facts


def _term(slot: Slot, terms: Mapping[Variable, Term | None]) -> Term | None:
    return slot.term if isinstance(slot, Const) else terms[slot.name]
