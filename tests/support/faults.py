"""Stage functions that fail at certain values, loaded through `spark.python.daemon.module`.

The closure fails at a triple with the value 13, queries that read `:hurt` at 17, and matchers of
rules with a clause at an anchor with the value 19. The matcher of a rule with the constant 99 always
fails. Spark forks its Python workers from this module.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator
from typing import Any

from dotr.errors.fallbacks import EXPECTED
from dotr.evaluation.triples.index import TripleIndex
from dotr.instant import stage_one
from dotr.instant.datalog.background.knowledge import Knowledge
from dotr.instant.datalog.closure.closed_instant import Closure
from dotr.instant.queries import QueryPlan, plan
from dotr.model.algebra import Select
from dotr.model.terms import Term, Triple
from dotr.temporal.matching import operator
from dotr.temporal.matching.events import anchor_of
from dotr.temporal.matching.matcher import compile_matcher
from dotr.temporal.matching.matcher.compile import Matcher

_CLOSE = Knowledge.close


def holds(value: int, terms: Iterable[Term | None]) -> bool:
    return any(term is not None and f'"{value}"' in term for term in terms)


def closing(self: Knowledge, triples: Iterable[Triple]) -> Closure:
    triples = list(triples)
    if any(holds(13, triple) for triple in triples):
        raise RecursionError("too deep")
    return _CLOSE(self, triples)


def planning(select: Select, *rest: Any) -> QueryPlan:
    made = plan(select, *rest)
    if "http://e/hurt" not in repr(select):
        return made

    def answers(new: TripleIndex) -> Any:
        if any(holds(17, triple) for triple in new.triples):
            raise ArithmeticError("it hurts")
        return made.answers(new)

    return dataclasses.replace(made, answers=answers, delta_queries=None)


def compiling(*arguments: Any) -> Matcher:
    matcher = compile_matcher(*arguments)
    group = arguments[0]
    always = '"99"' in repr(group)
    sometimes = bool(group.template.clauses)

    def find(anchors: Iterable[Any], *rest: Any) -> None:
        def watched() -> Iterator[Any]:
            for anchor in anchors:
                if always:
                    raise ZeroDivisionError("hostile")
                yield anchor
                if sometimes and holds(19, anchor_of(anchor)[2]):
                    raise ZeroDivisionError("hostile")

        matcher.find(watched(), *rest)

    return dataclasses.replace(matcher, find=find)


PATCHES = [(Knowledge, "close", closing), (stage_one, "plan", planning), (operator, "compile_matcher", compiling)]

if __name__ == "__main__":
    import os

    from pyspark.daemon import manager

    os.environ[EXPECTED] = "all"
    for where, name, value in PATCHES:
        setattr(where, name, value)
    manager()
