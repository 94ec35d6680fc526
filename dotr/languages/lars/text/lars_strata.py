"""Strata of a LARS file: its rules in the order in which the perfect model is computed.

Idea: strata are the strongly connected components of the dependency graph of predicates. A head
depends on the predicates of its rule's body, whatever their windows. Invariant: a predicate under
NOT is in a lower stratum. The heads of one rule may be in several strata.
Source: lars.md, sections 2 and 3; Apt, Blair, Walker 1988.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

from dotr.languages.lars.model import (
    ClassName,
    LarsFile,
    LarsHead,
    LarsLiteral,
    LarsPredicate,
    LarsRule,
    PropertyName,
    may_share,
    predicate_of,
)
from dotr.model.graphs import components, shortest_path


class LarsDependency(NamedTuple):
    """An edge of the dependency graph: a rule with `head` reads the derived `read` in `literal`."""

    head: LarsPredicate
    read: LarsPredicate
    literal: LarsLiteral
    negated: bool


def dependencies(file: LarsFile) -> Iterator[LarsDependency]:
    """The dependencies between derived predicates; a variable predicate or class reads all.

    Cost: linear in the atoms, but for those with a variable predicate or class.
    """
    derived = sorted(file.derived, key=str)
    known = set(derived)
    open_ended = [each for each in derived if _is_variable(each)]
    for rule in file.rules:
        heads = sorted({predicate_of(head.atom) for head in rule.heads}, key=str)
        for negated, literals in ((False, rule.literals), (True, rule.negated)):
            for literal in literals:
                for atom in literal.atoms:
                    if file.is_background(atom):
                        continue
                    predicate = predicate_of(atom)
                    if _is_variable(predicate):
                        possible = derived
                    else:
                        possible = sorted({*open_ended, predicate} & known, key=str) if open_ended else [predicate][: predicate in known]
                    for read in possible:
                        if may_share(predicate, read):
                            for head in heads:
                                yield LarsDependency(head, read, literal, negated)


def _is_variable(predicate: LarsPredicate) -> bool:
    return predicate in (PropertyName(None), ClassName(None))


def negative_cycles(file: LarsFile) -> list[tuple[LarsDependency, tuple[LarsPredicate, ...]]]:
    """The dependencies under NOT that are part of a cycle, in the order of the file, each with the
    shortest cycle: the head, the negated predicate, …, the head.
    """
    edges = list(dependencies(file))
    component = _components(file, edges)
    reads: dict[LarsPredicate, list[LarsPredicate]] = {}
    for edge in edges:
        reads.setdefault(edge.head, []).append(edge.read)
    for others in reads.values():
        others.sort(key=str)
    found = []
    for edge in edges:
        if edge.negated and component[edge.head] == component[edge.read]:
            path = shortest_path(edge.read, edge.head, lambda predicate: reads.get(predicate, ()))
            found.append((edge, (edge.head, *path)))
    return found


def strata(file: LarsFile) -> tuple[tuple[LarsRule, ...], ...]:
    """The rules by stratum, lowest first. Within a stratum they are in the order of the file.

    A rule with heads of several strata is in each of them, with its heads of that stratum. Each
    group of mutually dependent predicates is a stratum.
    """
    component = _components(file, list(dependencies(file)))
    by_stratum: dict[int, list[LarsRule]] = {}
    for rule in file.rules:
        heads: dict[int, list[LarsHead]] = {}
        for head in rule.heads:
            heads.setdefault(component[predicate_of(head.atom)], []).append(head)
        for number, own in heads.items():
            by_stratum.setdefault(number, []).append(replace(rule, heads=tuple(own)))
    return tuple(tuple(by_stratum[number]) for number in sorted(by_stratum))


def _components(file: LarsFile, edges: list[LarsDependency]) -> dict[LarsPredicate, int]:
    """The component of each derived predicate: equal in a cycle, lower for a predicate read."""
    pairs = [(edge.head, edge.read) for edge in edges]
    return components([*pairs, *((predicate, predicate) for predicate in sorted(file.derived, key=str))])
