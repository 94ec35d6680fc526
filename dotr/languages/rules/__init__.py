"""Compiler of the rule language: the text of rule files to the rules of `dotr.model.rules`.

Idea: an ordered tuple of passes, one a file, each `ProgramDraft -> ProgramDraft`.
Invariant: every pass runs; a pass adds its problems to `diagnostics` and skips the parts that an
earlier pass rejected.
Source: docs/language.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from dotr.errors.diagnostics import Diagnostic, Refused, Severity
from dotr.languages.rules.aggregated import resolve_aggregates
from dotr.languages.rules.attributes import check_attributes
from dotr.languages.rules.clauses import check_clauses
from dotr.languages.rules.codes import RuleCode
from dotr.languages.rules.conditions import check_conditions
from dotr.languages.rules.cycles import check_cycles
from dotr.languages.rules.emit import emit
from dotr.languages.rules.fragments import read_fragments
from dotr.languages.rules.kinds import NO_OBJECT_KINDS, ObjectKinds, TermKind, TermKinds, kinds_text, term_kind
from dotr.languages.rules.labels import check_labels
from dotr.languages.rules.names import resolve_names
from dotr.languages.rules.parse import parse
from dotr.languages.rules.pointless import check_pointless
from dotr.languages.rules.prefixes import resolve_prefixes
from dotr.languages.rules.products import check_products
from dotr.languages.rules.program import Pass, ProgramDraft
from dotr.languages.rules.scan import RESERVED
from dotr.languages.rules.untied import check_untied
from dotr.languages.rules.windows import resolve_windows
from dotr.model.places import Document
from dotr.model.rule_places import RulePlaces
from dotr.model.rules import Rule, SharedQuery
from dotr.model.terms import Prefixes
from dotr.model.units import UnitEvents

__all__ = ["PASSES", "RESERVED", "ObjectKinds", "RuleCode", "RuleSet", "TermKind", "TermKinds", "compile_rules", "kinds_text", "term_kind"]

PASSES: Final[tuple[Pass, ...]] = (
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
    check_untied,
    emit,
)


@dataclass(frozen=True, slots=True)
class RuleSet:
    """Result of compiling rule files. `rules` and `queries` are empty if there is an error.

    `diagnostics` are the errors and warnings, ordered by file and offset, those without a span
    first. `prefixes` are those that the files declare (of two files that declare one prefix, those
    of the first), then the configuration's. `places`, by rule name: places of the parts of rules.
    """

    rules: tuple[Rule, ...]
    queries: tuple[SharedQuery, ...]
    diagnostics: tuple[Diagnostic, ...]
    prefixes: Prefixes = field(default_factory=dict, repr=False)
    places: Mapping[str, RulePlaces] = field(default_factory=dict, repr=False)

    @property
    def errors(self) -> tuple[Diagnostic, ...]:
        """The diagnostics that are errors."""
        return tuple(d for d in self.diagnostics if d.severity is Severity.ERROR)

    @property
    def warnings(self) -> tuple[Diagnostic, ...]:
        """The diagnostics that are warnings."""
        return tuple(d for d in self.diagnostics if d.severity is Severity.WARNING)

    def checked(self) -> RuleSet:
        """Return this set unchanged. Raises `Refused` with all errors if there are any."""
        if self.errors:
            raise Refused(self.errors)
        return self


def compile_rules(
    documents: Sequence[Document], prefixes: Prefixes, objects: ObjectKinds = NO_OBJECT_KINDS, units: Sequence[UnitEvents] = ()
) -> RuleSet:
    """Compile rule files as one program: labels and events are shared between the files.

    `prefixes` (prefix to namespace IRI) hold in files that declare no PREFIX of their own.
    `objects` are the kinds of the objects of predicates, where the data are known; they change
    warnings alone. `units` make events in other languages. Raises nothing: problems are in
    `RuleSet.diagnostics`, and `RuleSet.checked` raises them.

    >>> compile_rules([Document("empty.dotr", "# nothing yet")], {})
    RuleSet(rules=(), queries=(), diagnostics=())
    """
    program = ProgramDraft(tuple(documents), prefixes, objects, tuple(units))
    for step in PASSES:
        program = step(program)
    declared: dict[str, str] = {}
    for own in (*(query.prefixes for query in program.queries), *(rule.prefixes for rule in program.rules)):
        declared = {**own, **declared}
    return RuleSet(program.emitted_rules, program.emitted_queries, _by_location(program), {**prefixes, **declared}, program.emitted_places)


def _by_location(program: ProgramDraft) -> tuple[Diagnostic, ...]:
    order = {id(document): i for i, document in enumerate(program.documents)}

    def location(diagnostic: Diagnostic) -> tuple[int, int]:
        span = diagnostic.span
        return (order.get(id(span.document), len(order)), span.start) if span else (-1, 0)

    return tuple(sorted(dict.fromkeys(program.diagnostics), key=location))
