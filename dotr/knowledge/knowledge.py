"""Background knowledge, closed once; and the closure of instants over it.

Idea: the background's schema (the triples that settle what rules mean for a predicate or a class) is closed first, over nothing; the
rest is then closed over that schema as if it were one big instant, so that the rules are specialised by the schema already.
Cost: about a microsecond a triple and rule that applies to it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from dotr.diagnostics import Refused
from dotr.knowledge.closure import Closer, Closure, Contradiction
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
        given = dict.fromkeys(triples)
        closed = TripleIndex()
        found: set[Contradiction] = set()
        facts = [rule for rule in rules if not any(isinstance(item, TriplePattern) for item in rule.body)]
        rules = [rule for rule in rules if any(isinstance(item, TriplePattern) for item in rule.body)]
        rest: list[Triple] = list(given)
        for rule in facts:
            rows = _rows(rule)
            rest += _facts(rule, rows)
            if rows and not rule.head:
                found.add(Contradiction(rule.name, ()))
        first = Closer(rules, closed)
        if first.schema:
            schema = [t for t in rest if (t[1], None) in first.schema or (t[1], t[2]) in first.schema]
            if schema:
                closure = first.close(schema)
                closed = closure.new
                found.update(closure.contradictions)
                first = Closer(rules, closed)
        closure = first.close(rest)
        found.update(closure.contradictions)
        if len(closed):
            for triple in closure.new:
                closed.add(triple)
        else:
            closed = closure.new
        return cls(closed, tuple(sorted(found)), len(given), len(closed) - len(given), Closer(rules, closed))

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
