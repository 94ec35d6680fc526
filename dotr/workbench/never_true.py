"""Comparisons that the data make errors: `"25" > 20` is one, and so never true.

Idea: where everything that can bring a predicate is known (the maps of CSV inputs, the background, the streams of a test), so are the kinds
of its objects, and the pass that proves what the text alone can prove is made once more with them.
Invariant: no false alarm. A predicate that an input of Turtle graphs, a Datalog rule or an entailment could bring with other objects says
nothing; beside such inputs only what the background has speaks, where all of it is numbers in quotes.
Cost: a second reading of the rules, and one for each predicate where there is something to tell.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias, assert_never

from dotr.config import Config
from dotr.datalog.entailment import Entailment
from dotr.engine.program import CompiledProgram
from dotr.errors.diagnostics import Diagnostic, Refused, Severity
from dotr.languages.datalog import parse_datalog
from dotr.languages.rules import RuleCode, TermKind, TermKinds, compile_rules, term_kind, kinds_text
from dotr.languages.turtle import parse_template
from dotr.layout.retention import roles
from dotr.model.algebra import Const, TriplePattern, Var
from dotr.model.places import Document, Span
from dotr.model.rules import FactSource
from dotr.model.templates import Blank, Cell, CellIri, CellLiteral, Fresh, TemplateSlot, TemplateTerm
from dotr.model.terms import XSD, Term, Triple
from dotr.store.triples import NO_ENDS
from dotr.workbench.rules_touched import patterns_in

_REPORTED: Final = (RuleCode.NEVER_HOLDS, RuleCode.NEVER_COMPARABLE, RuleCode.CAN_ONLY_ERR)
_PLAIN: Final = frozenset({TermKind.STRING, TermKind.IRI, TermKind.BLANK})
_MAX_OBJECTS: Final = 100_000
"""Of a predicate with more distinct objects in the background nothing is said."""
_QUOTED_NUMBER: Final = re.compile(r'"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?"')


@dataclass(frozen=True, slots=True)
class ObjectSource:
    """Objects that a predicate has: of which kind, by what (in words), and how they could be typed there. `kind`: None where that is not
    known."""

    predicate: Term
    kind: TermKind | None
    origin: str
    remedy: str = ""


@dataclass(frozen=True, slots=True)
class StreamObjects:
    """What is known of the elements of a program: `whole` where nothing else can come."""

    sources: tuple[ObjectSource, ...]
    is_complete: bool


_KindsFound: TypeAlias = Mapping[Term, tuple[TermKinds, tuple[ObjectSource, ...]]]


def objects_of_inputs(config: Config) -> StreamObjects:
    """What the inputs of a configuration can bring: a CSV input what its map makes, any other everything."""
    brought: list[ObjectSource] = []
    whole = True
    for section in config.settings.input:
        if section.format != "csv" or section.map is None:
            whole = False
            continue
        document = Document(f"map of input {section.name}", section.map)
        try:
            template = parse_template(Span(document, 0, len(section.map)), config.settings.prefixes, cells=True)
        except Refused:  # which is told elsewhere
            whole = False
            continue
        for _, predicate, value in template.triples:
            if isinstance(predicate, Const):
                brought.append(ObjectSource(predicate.term, _kind_of_slot(value), f"by the map of input {section.name}", _remedy(value)))
            else:
                whole = False
    return StreamObjects(tuple(dict.fromkeys(brought)), whole)


def objects_of_graphs(graphs: Iterable[Sequence[Triple]]) -> StreamObjects:
    """What the graphs of a test bring."""
    found = dict.fromkeys((predicate, term_kind(value)) for graph in graphs for _, predicate, value in graph)
    return StreamObjects(tuple([ObjectSource(predicate, kind, "in the streams of the cases") for predicate, kind in found]), is_complete=True)


def _kind_of_slot(slot: TemplateSlot) -> TermKind | None:
    match slot:
        case Const(term):
            return term_kind(term)
        case CellIri():
            return TermKind.IRI
        case Blank():
            return TermKind.BLANK
        case CellLiteral(_, datatype, language):
            return TermKind.STRING if datatype == XSD + "string" and not language else None
        case TemplateTerm():
            return TermKind.TRIPLE
        case Cell() | Var() | Fresh():
            return None
        case _:
            assert_never(slot)


def _remedy(slot: TemplateSlot) -> str:
    match slot:
        case CellLiteral((Cell(column),), _, _):
            return f'write {{{column}}} or "{{{column}}}"^^xsd:decimal there'
        case _:
            return ""


def never_true(program: CompiledProgram, streamed: StreamObjects) -> Iterator[Diagnostic]:
    """A warning for each condition that can only err because of what the data are."""
    if program.spec.entailment is not Entailment.NONE:
        return  # schema, streamed or not, may give a predicate the objects of another
    known = _known_kinds(program, streamed)
    before = {(each.code, each.span) for each in program.rules.diagnostics}

    def told(predicates: Iterable[Term]) -> dict[tuple[str, Span | None], Diagnostic]:
        objects = {predicate: known[predicate][0] for predicate in predicates}
        found = compile_rules(program.spec.rules, program.spec.prefixes, objects).diagnostics
        return {(d.code, d.span): d for d in found if d.code in _REPORTED and (d.code, d.span) not in before}

    problems = told(known) if known else {}
    because: dict[tuple[str, Span | None], list[Term]] = {}
    if problems:
        for predicate in known:
            for place in told([predicate]):
                because.setdefault(place, []).append(predicate)
    for place, problem in problems.items():
        reasons = [_reason(predicate, *known[predicate], program.spec.prefixes) for predicate in because.get(place, ())]
        hint = " ".join([problem.hint, *reasons]).strip()
        yield Diagnostic(RuleCode.NEVER_AS_TYPED, f"{problem.message}, as the data are typed", problem.span, hint, Severity.WARNING)


def _reason(predicate: Term, kinds: TermKinds, brought: Sequence[ObjectSource], prefixes: Mapping[str, str]) -> str:
    by = " and ".join(dict.fromkeys(each.origin for each in brought))
    mend = "; ".join(dict.fromkeys(each.remedy for each in brought if each.remedy))
    return f"Every {_short(predicate, prefixes)} is {kinds_text(kinds)}, {by}{f': {mend}' if mend else ''}."


def _short(predicate: Term, prefixes: Mapping[str, str]) -> str:
    """A predicate as it is written with the prefixes of the configuration.

    >>> _short("<http://e/speed>", {"": "http://e/"})
    ':speed'
    """
    fitting = [(iri, prefix) for prefix, iri in prefixes.items() if predicate.startswith("<" + iri)]
    if not fitting:
        return predicate
    iri, prefix = max(fitting, key=lambda each: len(each[0]))
    return f"{prefix}:{predicate[len(iri) + 1 : -1]}"


def _known_kinds(program: CompiledProgram, streamed: StreamObjects) -> _KindsFound:
    """Of the predicates that the rules read, those whose objects are known to be no numbers, dates or the like."""
    derived = _predicates_derived(program)
    if derived is None:
        return {}
    found: dict[Term, tuple[TermKinds, tuple[ObjectSource, ...]]] = {}
    for predicate in _predicates_read(program):
        background = _objects_in_background(program, predicate, numbers=not streamed.is_complete)
        brought = (*[each for each in streamed.sources if each.predicate == predicate], *background)
        kinds = {each.kind for each in brought}
        if predicate not in derived and kinds and kinds <= _PLAIN and (streamed.is_complete or (background and kinds == {TermKind.STRING})):
            found[predicate] = frozenset(kind for kind in kinds if kind is not None), brought
    return found


def _objects_in_background(program: CompiledProgram, predicate: Term, *, numbers: bool) -> tuple[ObjectSource, ...]:
    """The kinds of a predicate's objects in the background; `numbers`: only numbers in quotes count as strings."""
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
    """The predicates that Datalog derives; None: any predicate."""
    found: set[Term] = set()
    for document in program.spec.datalog:
        for rule in parse_datalog(document, program.spec.prefixes):
            for head in rule.head:
                if not isinstance(head.predicate, Const):
                    return None
                found.add(head.predicate.term)
    return frozenset(found)


def _predicates_read(program: CompiledProgram) -> Iterator[Term]:
    """The predicates that queries read with a variable for object, each once."""
    queries = [shared.query for shared in program.rules.queries]
    queries += [role.source.query for rule in program.rules.rules for role in roles(rule) if isinstance(role.source, FactSource)]
    found: dict[Term, None] = {}
    for query in dict.fromkeys(queries):
        for pattern in patterns_in(query):
            if isinstance(pattern, TriplePattern) and isinstance(pattern.object, Var) and isinstance(pattern.predicate, Const):
                found[pattern.predicate.term] = None
    return iter(found)
