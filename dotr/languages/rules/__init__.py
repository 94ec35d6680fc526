"""Compiler of the rule language: the text of rule files to the rules of `dotr.model.rules`.

Idea: an ordered tuple of passes, one a file, each `ProgramDraft -> ProgramDraft`.
Invariant: every pass runs; a pass adds its problems to `diagnostics` and skips the parts that an
earlier pass rejected.
Source: docs/language.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING

from dotr.engine.spec import RuleSet
from dotr.errors.diagnostics import Diagnostic
from dotr.evaluation.expressions.kinds import NO_OBJECT_KINDS, ObjectKinds
from dotr.model.places import Document
from dotr.model.terms import Prefixes
from dotr.model.units import UnitEvents

if TYPE_CHECKING:
    from dotr.languages.rules.program import Pass, ProgramDraft


@cache
def _passes() -> tuple[Pass, ...]:
    """The passes in their order; their modules are loaded where a text is compiled."""
    from dotr.languages.rules.grammar import parse
    from dotr.languages.rules.lints.conditions import check_conditions
    from dotr.languages.rules.lints.ineffective import check_pointless
    from dotr.languages.rules.lints.time_differences import check_time_differences
    from dotr.languages.rules.lints.uncorrelated import check_products, check_uncorrelated
    from dotr.languages.rules.resolution.clauses import check_attributes, check_clauses, resolve_aggregates, resolve_windows
    from dotr.languages.rules.resolution.emit import emit
    from dotr.languages.rules.resolution.labels import check_cycles, check_labels, read_fragments
    from dotr.languages.rules.resolution.names import resolve_names, resolve_prefixes

    return (
        parse,
        resolve_prefixes,
        resolve_names,
        check_labels,
        read_fragments,
        resolve_aggregates,
        check_attributes,
        resolve_windows,
        check_clauses,
        check_conditions,
        check_cycles,
        check_pointless,
        check_products,
        check_uncorrelated,
        check_time_differences,
        emit,
    )


def compile_rules(
    documents: Sequence[Document],
    prefixes: Prefixes,
    objects: ObjectKinds = NO_OBJECT_KINDS,
    units: Sequence[UnitEvents] = (),
    integer_times: bool = False,
) -> RuleSet:
    """Compile rule files as one program: labels and events are shared between the files.

    - `prefixes`: prefix to namespace IRI, for files that declare no PREFIX of their own.
    - `objects`: kinds of the objects of predicates in known data; only warnings depend on them.
    - `units`: events of units of other languages.
    - `integer_times`: times are known to be integers.

    Problems are in `RuleSet.diagnostics`; none is raised before `RuleSet.checked`.

    >>> compile_rules([Document("empty.dotr", "# nothing yet")], {})
    RuleSet(rules=(), queries=(), diagnostics=())
    """
    from dotr.languages.rules.program import ProgramDraft

    program = ProgramDraft(tuple(documents), prefixes, objects, tuple(units), integer_times)
    for step in _passes():
        program = step(program)
    declared: dict[str, str] = {}
    for own in (*(query.prefixes for query in program.queries), *(rule.prefixes for rule in program.rules)):
        declared = {**own, **declared}
    names, places = {**prefixes, **declared}, program.emitted_places
    return RuleSet(program.emitted_rules, program.emitted_queries, _by_location(program), names, places, program.forms, program.kinds)


def _by_location(program: ProgramDraft) -> tuple[Diagnostic, ...]:
    order = {id(document): i for i, document in enumerate(program.documents)}

    def location(diagnostic: Diagnostic) -> tuple[int, int]:
        span = diagnostic.span
        return (order.get(id(span.document), len(order)), span.start) if span else (-1, 0)

    return tuple(sorted(dict.fromkeys(program.diagnostics), key=location))
