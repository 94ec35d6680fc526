"""Last pass: what the language has and the engine does not evaluate yet is refused, with its place.

Before: `and not Fire within 1 h from Smoke`. After: the same rules, and an error at `not`.
"""

from __future__ import annotations

from collections.abc import Iterator

from dotr.diagnostics import Diagnostic
from dotr.languages.dotr.codes import Code
from dotr.languages.dotr.cycles import components, needs
from dotr.languages.dotr.program import Program
from dotr.languages.dotr.syntax import AbsentSyntax, AggregateSyntax, ChooseSyntax, Ticks
from dotr.model.places import Span


def refuse_unevaluated(program: Program) -> Program:
    return program.reporting([*_clauses(program), *_recursion(program)])


def _clauses(program: Program) -> Iterator[Diagnostic]:
    for rule in program.rules:
        if isinstance(rule.syntax.anchor, Ticks):
            yield _not_yet("ticks", rule.syntax.anchor.keyword.span)
        if rule.syntax.delay is not None:
            yield _not_yet("a delayed anchor", rule.syntax.delay.keyword.span)
        for clause in rule.syntax.clauses:
            match clause:
                case ChooseSyntax(keyword, _, count) if count is not None and int(count.text) > 1:
                    yield _not_yet(f"{keyword.text.lower()} {count.text}", count.span)
                case AbsentSyntax(keyword):
                    yield _not_yet("not", keyword.span)
                case AggregateSyntax(_, function):
                    yield _not_yet("an aggregate of events", function.span)
                case _:
                    pass


def _recursion(program: Program) -> Iterator[Diagnostic]:
    if any(problem.code in (Code.SAME_INSTANT_CYCLE, Code.SAME_INSTANT_RECURSION) for problem in program.diagnostics):
        return
    edges = list(needs(program))
    of = components((need.event, need.needs) for need in edges)
    for need in edges:
        if of[need.event] == of[need.needs]:
            yield _not_yet(f"a rule that depends on its own event ({need.event})", need.role.read.span)


def _not_yet(what: str, span: Span) -> Diagnostic:
    return Diagnostic(Code.NOT_EVALUATED, f"not evaluated yet: {what}", span, "It is part of the language; a later version runs it.")
