"""Conditions that are never true for the types of the data, such as `"25" > 20`, which is an error.

Idea: where all sources of a predicate are known (maps of CSV inputs, background, streams of a
test), the kinds of its objects are known, and the static check of conditions is repeated with them.
Invariant: no false alarm. Predicates that a Datalog rule or an entailment can derive are skipped.
If an input has RDF graphs, only predicates are checked whose objects in the background are all
numbers in quotes.
Cost: a second compilation of the rules, and one more for each predicate where there is a warning;
none where the warnings for these kinds are kept (`dotr.languages.kept_programs`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, TypeAlias

from dotr.engine.program import CompiledProgram
from dotr.engine.stream_terms import ObjectSource, StreamObjects
from dotr.errors.diagnostics import Diagnostic, Severity
from dotr.evaluation.expressions.kinds import TermKind, TermKinds, kinds_text, term_kind
from dotr.evaluation.triples.index import NO_ENDS
from dotr.instant.datalog.dependencies import patterns_in
from dotr.instant.datalog.entailment import Entailment
from dotr.languages.codes import RuleCode
from dotr.languages.kept_programs import keep, kept
from dotr.languages.registry import RuleLanguage, of_language
from dotr.languages.rules import compile_rules
from dotr.model.algebra import Const, TriplePattern, Var
from dotr.model.places import Span
from dotr.model.rules import FactSource
from dotr.model.terms import Term
from dotr.syntax.rendering import term_text
from dotr.temporal.layout.retention import roles

_REPORTED: Final = (RuleCode.NEVER_HOLDS, RuleCode.NEVER_COMPARABLE, RuleCode.CAN_ONLY_ERR)
_PLAIN: Final = frozenset({TermKind.STRING, TermKind.IRI, TermKind.BLANK})
_MAX_OBJECTS: Final = 100_000
"""Predicates with more distinct objects in the background are skipped."""
_QUOTED_NUMBER: Final = re.compile(r'"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?"')

_KindsFound: TypeAlias = Mapping[Term, tuple[TermKinds, tuple[ObjectSource, ...]]]


def never_true(program: CompiledProgram, stream_objects: StreamObjects) -> Iterator[Diagnostic]:
    """Warning for each condition that is always an error for the types of the data."""
    if program.spec.entailment is not Entailment.NONE:
        return  # under an entailment, a predicate may also have the objects of another
    known = _known_kinds(program, stream_objects)
    if not known:
        return
    given = f"never_true {[(predicate, sorted(map(str, kinds)), sources) for predicate, (kinds, sources) in known.items()]}"
    found = kept(program.spec, given)
    if not isinstance(found, tuple):
        found = tuple(_warnings(program, known))
        keep(program.spec, found, given)
    yield from found


def _warnings(program: CompiledProgram, known: _KindsFound) -> Iterator[Diagnostic]:
    before = {(each.code, each.span) for each in program.rules.diagnostics}

    def warnings(predicates: Iterable[Term]) -> dict[tuple[str, Span | None], Diagnostic]:
        objects = {predicate: known[predicate][0] for predicate in predicates}
        found = compile_rules(of_language(program.spec.rules, RuleLanguage.RULES), program.spec.prefixes, objects).diagnostics
        return {(d.code, d.span): d for d in found if d.code in _REPORTED and (d.code, d.span) not in before}

    problems = warnings(known)
    because: dict[tuple[str, Span | None], list[Term]] = {}
    if problems:
        for predicate in known:
            for place in warnings([predicate]):
                because.setdefault(place, []).append(predicate)
    for place, problem in problems.items():
        reasons = [_reason(predicate, *known[predicate], program.spec.prefixes) for predicate in because.get(place, ())]
        hint = " ".join([problem.hint, *reasons]).strip()
        yield Diagnostic(RuleCode.NEVER_AS_TYPED, f"{problem.message}, as the data are typed", problem.span, hint, Severity.WARNING)


def _reason(predicate: Term, kinds: TermKinds, sources: Sequence[ObjectSource], prefixes: Mapping[str, str]) -> str:
    by = " and ".join(dict.fromkeys(each.origin for each in sources))
    mend = "; ".join(dict.fromkeys(each.remedy for each in sources if each.remedy))
    return f"Every {term_text(predicate, prefixes)} is {kinds_text(kinds)}, {by}{f': {mend}' if mend else ''}."


def _known_kinds(program: CompiledProgram, stream_objects: StreamObjects) -> _KindsFound:
    """Kinds of objects by predicate, for predicates that rules read and whose objects have no
    ordered values."""
    derived = _predicates_derived(program)
    if derived is None:
        return {}
    kinds_of: dict[Term, tuple[TermKinds, tuple[ObjectSource, ...]]] = {}
    for predicate in _predicates_read(program):
        background = _objects_in_background(program, predicate, numbers=not stream_objects.is_complete)
        sources = (*[each for each in stream_objects.sources if each.predicate == predicate], *background)
        kinds = {each.kind for each in sources}
        if (
            predicate not in derived
            and kinds
            and kinds <= _PLAIN
            and (stream_objects.is_complete or (background and kinds == {TermKind.STRING}))
        ):
            kinds_of[predicate] = frozenset(kind for kind in kinds if kind is not None), sources
    return kinds_of


def _objects_in_background(program: CompiledProgram, predicate: Term, *, numbers: bool) -> tuple[ObjectSource, ...]:
    """Kinds of a predicate's objects in the background; `numbers`: only numbers in quotes count as
    strings."""
    ends = program.knowledge.background.by_object.get(predicate, NO_ENDS)
    kinds: dict[TermKind | None, None] = {}
    if len(ends) > _MAX_OBJECTS:
        kinds[None] = None
    else:
        for term in ends:
            kind = term_kind(term)
            known = kind in _PLAIN and not (numbers and _QUOTED_NUMBER.fullmatch(term) is None)
            kinds[kind if known else None] = None
            if not known:
                break
    return tuple([ObjectSource(predicate, kind, "in the background") for kind in kinds])


def _predicates_derived(program: CompiledProgram) -> frozenset[Term] | None:
    """Predicates that Datalog derives; None: any predicate."""
    predicates: set[Term] = set()
    for rule in program.own_datalog:
        for head in rule.head:
            if not isinstance(head.predicate, Const):
                return None
            predicates.add(head.predicate.term)
    return frozenset(predicates)


def _predicates_read(program: CompiledProgram) -> Iterator[Term]:
    """Predicates that queries read with a variable as object, each once."""
    queries = [shared.query for shared in program.rules.queries]
    queries += [role.source.query for rule in program.rules.rules for role in roles(rule) if isinstance(role.source, FactSource)]
    predicates: dict[Term, None] = {}
    for query in dict.fromkeys(queries):
        for pattern in patterns_in(query):
            if isinstance(pattern, TriplePattern) and isinstance(pattern.object, Var) and isinstance(pattern.predicate, Const):
                predicates[pattern.predicate.term] = None
    return iter(predicates)
