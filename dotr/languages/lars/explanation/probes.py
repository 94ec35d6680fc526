"""Probe rules for LARS files, whose rows count the solutions of each prefix of a body.

Idea: the engine itself evaluates the prefixes, with windows, NOT and recursion. For the rule
`Q(?x) :- A(?x) IN [5 s], B(?x), NOT C(?x)` the file gets three probe rules:

    part 1 (?x) :- A(?x) IN [5 s]
    part 2 (?x) :- A(?x) IN [5 s], B(?x)
    part 3 (?x) :- A(?x) IN [5 s], B(?x), NOT C(?x)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from dotr.languages.lars.model import Always, At, LarsFile, LarsHead, LarsItem, LarsLiteral, LarsNot, LarsRule, Sometime
from dotr.model.algebra import Var
from dotr.model.datalog import Bind, FilterItem, RelationAtom
from dotr.model.terms import Term, Variable
from dotr.model.traverse import free_variables
from dotr.temporal.horizons.rules import FactRow


class BodyPart(NamedTuple):
    """A prefix of a body as a relation.

    - `relation`: its name in a closure.
    - `names`: its columns.
    - `item`: its last item.
    """

    relation: str
    names: tuple[Variable, ...]
    item: LarsItem

    def bindings(self, row: FactRow) -> dict[Variable, Term]:
        """The bindings of a row."""
        return dict(zip(self.names, row, strict=True))

    def agrees(self, row: FactRow, bound: Mapping[Variable, Term]) -> bool:
        """True unless a row has another term for a bound variable."""
        return all(bound.get(name, term) == term for name, term in self.bindings(row).items())


def with_parts(file: LarsFile, rule: LarsRule) -> tuple[LarsFile, list[BodyPart]]:
    """A file with a probe rule for each prefix of a body, and these prefixes, the shortest first.

    Conditions are moved behind the items that bind their variables.
    """
    items = in_order(rule.body)
    parts, rules = [], []
    for number in range(1, len(items) + 1):
        here = items[:number]
        part, probe = _probe(rule, f"part {number}", here, _bound_by(here))
        parts.append(part)
        rules.append(probe)
    return replace(file, rules=(*file.rules, *rules)), parts


def with_negated(file: LarsFile, rule: LarsRule, item: LarsNot) -> tuple[LarsFile, BodyPart]:
    """A file with a probe rule for the literals under a NOT, and that rule's body."""
    part, probe = _probe(rule, "under NOT", item.literals, _bound_by(item.literals))
    return replace(file, rules=(*file.rules, probe)), part


def with_times(file: LarsFile, rule: LarsRule, literals: Sequence[LarsLiteral]) -> tuple[LarsFile, BodyPart]:
    """A file with a probe rule for some literals and the times of their atoms, and that rule's body:
    `A(?x) ALWAYS IN [5 s]` is probed as `A(?x) AT ?0 IN [5 s]`. A literal without a window, or with
    SINCE, keeps its form."""
    timed = [
        replace(literal, reach=At(Var(str(number)), literal.reach.window)) if isinstance(literal.reach, Sometime | Always) else literal
        for number, literal in enumerate(literals)
    ]
    part, probe = _probe(rule, "times", timed, _bound_by(timed))
    return replace(file, rules=(*file.rules, probe)), part


def _probe(rule: LarsRule, name: str, items: Sequence[LarsItem], names: tuple[Variable, ...]) -> tuple[BodyPart, LarsRule]:
    head = LarsHead(RelationAtom(name, tuple(map(Var, names))), None, rule.span)
    return BodyPart(f"own {name}", names, items[-1]), LarsRule(name, (head,), tuple(items), rule.span)


def in_order(body: Sequence[LarsItem]) -> list[LarsItem]:
    """The items of a body, with each condition after the items that bind its variables."""
    everything = set(_bound_by(body))
    ordered: list[LarsItem] = []
    waiting = list(body)
    while waiting:
        bound = set(_bound_by(ordered))
        chosen = next((item for item in waiting if isinstance(item, LarsLiteral) or _needed(item) & everything <= bound), waiting[0])
        ordered.append(chosen)
        waiting.remove(chosen)
    return ordered


def _needed(item: LarsItem) -> set[Variable]:
    """The variables that an item reads before it can be evaluated."""
    match item:
        case FilterItem(condition):
            return set(free_variables(condition))
        case Bind(expression, _):
            return set(free_variables(expression))
        case LarsNot(literals):
            return set(_bound_by(literals))
        case LarsLiteral():
            return set()


def _bound_by(items: Sequence[LarsItem]) -> tuple[Variable, ...]:
    """The variables that items bind, each once."""
    found: dict[Variable, None] = {}
    for item in items:
        if isinstance(item, LarsLiteral):
            found.update(dict.fromkeys(item.variables))
        elif isinstance(item, Bind):
            found[item.variable] = None
    return tuple(found)
