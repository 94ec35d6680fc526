"""Stratification of a program with NOT and AGGREGATE (Apt, Blair, Walker 1988).

Idea: an atom depends on the rules whose heads unify with it by predicate and object (so by class);
a variable unifies with any term. NOT and AGGREGATE read the strata below their rule. Rules of an
entailment regime are left out: they are closed in every stratum (semantics.md, section 2).

Invariant: a rule's stratum is the least that is not below the rules that derive its atoms, above
the rules that derive what it negates or aggregates, and above 0 where it does either.

Cost: about linear in the rules; nothing without NOT and AGGREGATE.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import field
from typing import Final, NamedTuple, TypeAlias

from dotr.errors.diagnostics import Diagnostic, Refused
from dotr.model import dataclass
from dotr.model.algebra import Const, Slot, TriplePattern
from dotr.model.datalog import DatalogRule, GroupAggregate, Not
from dotr.model.graphs import shortest_path, strong_components
from dotr.model.terms import RDF_TYPE, Term, is_iri

AtomKey: TypeAlias = tuple[Term | None, Term | None]
"""Predicate and object of an atom; None: any."""


class Dependency(NamedTuple):
    """A key that a body reads; `via` is "NOT " or "AGGREGATE of ", empty for an atom of the body
    itself.
    """

    key: AtomKey
    via: str


class CycleLink(NamedTuple):
    """A step of a cycle: a rule, the head that leads to it, and the dependency of its body."""

    rule: DatalogRule
    head: AtomKey
    dependency: Dependency


def is_nonmonotonic(rule: DatalogRule) -> bool:
    """True for a rule with NOT or AGGREGATE."""
    return any(isinstance(item, Not | GroupAggregate) for item in rule.body)


def key_of(pattern: TriplePattern) -> AtomKey:
    """The key of a triple pattern."""
    return _term(pattern.predicate), _term(pattern.object)


def _term(slot: Slot) -> Term | None:
    return slot.term if isinstance(slot, Const) else None


def dependencies(rule: DatalogRule) -> Iterator[Dependency]:
    """The dependencies of a rule's body, in its order."""
    for item in rule.body:
        match item:
            case TriplePattern():
                yield Dependency(key_of(item), "")
            case Not(body):
                yield from (Dependency(key_of(atom), "NOT ") for atom in body)
            case GroupAggregate(body):
                yield from (Dependency(key_of(atom), "AGGREGATE of ") for atom in body if isinstance(atom, TriplePattern))
            case _:
                pass


def strata(rules: Sequence[DatalogRule]) -> list[int]:
    """The stratum of each rule; raises `Refused` with one cycle for each recursion through NOT or
    AGGREGATE.

    >>> from dotr.model.algebra import Var
    >>> p, q = (TriplePattern(Var("x"), Const(name), Var("y")) for name in ("<p>", "<q>"))
    >>> strata([DatalogRule("a", (q,), (p, Not((q,)))), DatalogRule("b", (p,), ())])
    Traceback (most recent call last):
    dotr.errors.diagnostics.Refused: K307 recursion through NOT: <q> needs NOT <q> (a)
    Derive what is negated by rules that do not depend on what they conclude.
    >>> strata([DatalogRule("a", (q,), (p, Not((p,)))), DatalogRule("b", (p,), ())])
    [1, 0]
    """
    if not any(map(is_nonmonotonic, rules)):
        return [0] * len(rules)
    graph = _DependencyGraph(rules)
    result = graph.strata()
    if graph.problems:
        raise Refused(graph.problems)
    return result


@dataclass
class _HeadIndex:
    """The head keys of a program, indexed for unification with a key."""

    rules: dict[AtomKey, list[int]] = field(default_factory=dict)
    by_predicate: dict[Term | None, list[AtomKey]] = field(default_factory=dict)
    by_object: dict[Term | None, list[AtomKey]] = field(default_factory=dict)

    def add(self, key: AtomKey, rule: int) -> None:
        """Adds a head key of a rule."""
        known = self.rules.get(key)
        if known is None:
            self.rules[key] = [rule]
            self.by_predicate.setdefault(key[0], []).append(key)
            self.by_object.setdefault(key[1], []).append(key)
        elif known[-1] != rule:
            known.append(rule)

    def unifying(self, key: AtomKey) -> list[AtomKey]:
        """The head keys that unify with a key."""
        predicate, object = key
        if predicate is None and object is None:
            return list(self.rules)
        if predicate is None:
            return self.by_object.get(object, []) + self.by_object.get(None, [])
        if object is None:
            return self.by_predicate.get(predicate, []) + self.by_predicate.get(None, [])
        return [each for each in ((predicate, object), (predicate, None), (None, object), (None, None)) if each in self.rules]


DependencyNode: TypeAlias = int | tuple[str, AtomKey]
"""A rule by its number; ("body", key), which depends on ("head", key), which depends on rules."""


class _DependencyGraph:
    """Dependency graph of rules, body keys and head keys."""

    def __init__(self, rules: Sequence[DatalogRule]) -> None:
        self._rules = rules
        self._heads = _HeadIndex()
        for number, rule in enumerate(rules):
            for head in rule.head:
                self._heads.add(key_of(head), number)
        self._edge_cache: dict[DependencyNode, list[tuple[DependencyNode, int]]] = {}
        self.problems: list[Diagnostic] = []

    def _edges(self, node: DependencyNode) -> list[tuple[DependencyNode, int]]:
        """Targets of a node, each with the least difference of strata (0 or 1)."""
        edges = self._edge_cache.get(node)
        if edges is None:
            if isinstance(node, int):
                edges = [(("body", need.key), int(bool(need.via))) for need in dict.fromkeys(dependencies(self._rules[node]))]
            elif node[0] == "body":
                edges = [(("head", key), 0) for key in self._heads.unifying(node[1])]
            else:
                edges = [(rule, 0) for rule in self._heads.rules[node[1]]]
            self._edge_cache[node] = edges
        return edges

    def strata(self) -> list[int]:
        """The stratum of each rule; adds a diagnostic for each cycle through NOT or AGGREGATE."""
        stratum: dict[DependencyNode, int] = {}
        rules: Sequence[DependencyNode] = range(len(self._rules))
        for component in strong_components(rules, self._targets):
            members = set(component)
            if len(members) > 1 and any(above and target in members for node in component for target, above in self._edges(node)):
                self.problems.append(self._refusal(component, members))
            least = max(
                [stratum.get(target, 0) + above for node in component for target, above in self._edges(node) if target not in members],
                default=0,
            )
            stratum.update(dict.fromkeys(component, least))
        return [stratum[number] for number in range(len(self._rules))]

    def _targets(self, node: DependencyNode) -> Iterator[DependencyNode]:
        return (target for target, _ in self._edges(node))

    def _refusal(self, component: list[DependencyNode], members: set[DependencyNode]) -> Diagnostic:
        numbers = sorted(node for node in component if isinstance(node, int))
        start, target = next((number, target) for number in numbers for target, above in self._edges(number) if above and target in members)
        return refusal(self._cycle(start, target, members))

    def _cycle(self, start: int, target: DependencyNode, members: set[DependencyNode]) -> list[CycleLink]:
        """The shortest cycle from a rule through its nonmonotonic dependency."""
        path: list[DependencyNode] = [start, *shortest_path(target, start, self._targets, members)]  # rule, body, head, rule, …, rule
        links = []
        for at in range(0, len(path) - 1, 3):
            number, body, reached = path[at], path[at + 1], path[at - 1 if at else -2]
            assert isinstance(number, int)
            assert not isinstance(body, int)
            assert not isinstance(reached, int)
            rule = self._rules[number]
            need = max((need for need in dependencies(rule) if need.key == body[1]), key=lambda need: bool(need.via) and not at)
            links.append(CycleLink(rule, reached[1], need))
        return links


def refusal(links: Sequence[CycleLink]) -> Diagnostic:
    """Diagnostic K307 for a cycle, with each of its rules."""
    documents = {link.rule.span.document.name for link in links if link.rule.span is not None}

    def line_of(rule: DatalogRule) -> str:
        line = rule.name.rpartition(":")[2]
        return f"line {line}" if len(documents) == 1 and line.isdigit() else rule.name

    steps = []
    for rule, head, (key, via) in links:
        steps.append(f"{display_name(head, rule)} needs {via}{display_name(key, rule)} ({line_of(rule)})")
    via = links[0].dependency.via.split()[0]
    hint = f"Derive what is {'negated' if via == 'NOT' else 'aggregated'} by rules that do not depend on what they conclude."
    return Diagnostic("K307", f"recursion through {via}: {', '.join(steps)}", links[0].rule.span, hint)


_NAME: Final = re.compile(r"[\w.-]*:[\w.-]*[\w-]")


def display_name(key: AtomKey, rule: DatalogRule) -> str:
    """A key in the notation of the rule's text, with its prefixes."""
    predicate, object = key
    if predicate is None:
        return "any triple" if object is None else f"any triple of {_prefixed(object, rule)}"
    if predicate == RDF_TYPE:
        return "any class" if object is None else _prefixed(object, rule)
    return _prefixed(predicate, rule) if object is None else f"{_prefixed(predicate, rule)} {_prefixed(object, rule)}"


def _prefixed(term: Term, rule: DatalogRule) -> str:
    if rule.span is not None and is_iri(term):
        from dotr.syntax.scan import one_line  # loaded for messages alone

        for found in _NAME.finditer(one_line(rule.span)):
            local = found[0].partition(":")[2]
            if local and re.search(rf"[/#:]{re.escape(local)}>$", term):
                return found[0]
    return term
