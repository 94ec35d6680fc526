"""Programs of all languages: texts, read through the registry, to units, which the engine compiles.

Idea: the files of each language are read, then the rules, which read events of units by label; then
all names are resolved (`dotr.languages.linking`). Parsers are loaded where a text is compiled.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from hashlib import blake2b
from itertools import islice
from typing import Final

from dotr.engine.multi_query import share_queries
from dotr.engine.program import CompiledProgram, compile_units
from dotr.engine.spec import ProgramSpec, RuleSet
from dotr.engine.static_answers import StaticAnswers
from dotr.engine.stream_terms import StreamObjects
from dotr.errors.diagnostics import Diagnostic, Refused, Severity, without_allowed
from dotr.evaluation.expressions.identity import has_type, is_datatype
from dotr.evaluation.expressions.kinds import with_form_of_times
from dotr.evaluation.files.caches import default_folder
from dotr.evaluation.files.stores import Location
from dotr.evaluation.limits import BOUNDS, LONGEST_TEXT, MOST_TEXT_OF_BACKGROUND
from dotr.evaluation.triples.index import NO_ENDS, NO_TERMS, TripleIndex
from dotr.instant.datalog.background.compiled_cache import CachePolicy, StoreFile, open_background
from dotr.instant.datalog.background.knowledge import Knowledge
from dotr.instant.datalog.background.loading import IMPORTS, load_graphs
from dotr.instant.datalog.closure.inconsistencies import visible_premises
from dotr.instant.datalog.entailment import Entailment, rule_set
from dotr.instant.stage_one import StaticLimitExceeded, plan_source
from dotr.languages.codes import RuleCode
from dotr.languages.kept_programs import CheckedProgram, keep, kept_program
from dotr.languages.registry import RuleLanguage, has_units, of_language, read_unit_files
from dotr.model.algebra import Const, Filter, PathPattern, TermPattern, TriplePattern, Values, Var
from dotr.model.calendars import default_zone
from dotr.model.datalog import DatalogRule
from dotr.model.places import Document, Span
from dotr.model.rules import EventSource, FactSource, Role, Rule, facts_of
from dotr.model.terms import OWL, RDF_TYPE, RDFS, Prefixes, Term, iri, is_literal
from dotr.model.traverse import AlgebraNode, parameters_of, walk
from dotr.temporal.layout.keys import SinglePartition
from dotr.temporal.layout.layers import Layout, lay_out
from dotr.temporal.layout.retention import roles
from dotr.temporal.layout.units import StreamUnit

_MAX_CONTRADICTIONS: Final = 10
"""Contradictions of the background that are reported, at most."""
_ONTOLOGY, _VERSION = iri(OWL + "Ontology"), iri(OWL + "versionIRI")
_RANGE: Final = iri(RDFS + "range")
_FUNCTIONAL, _OF_DATA = (iri(OWL + name) for name in ("FunctionalProperty", "DatatypeProperty"))
_MAX_LITERALS: Final = 10_000
"""Literals of a property that are compared with its range, at most."""
_TIED: Final = "It spreads where one attribute of its anchor is equated with one of every label that it consumes."
_TICKS: Final = "It spreads where the tick has attributes: `every 1 h for [ SELECT … ]` ticks for each answer of the background."
_RECURSIVE: Final = "It spreads where the events that depend on themselves are chosen, and made, under one key of the anchor."


def compile_program(spec: ProgramSpec, keeping: CachePolicy | StoreFile | None = None) -> CompiledProgram:
    """Compile a specification.

    Args:
        keeping: the caches of compiled backgrounds and of parsed programs (None: the user's cache
            folder, without programs), or the store to use.

    Raises:
        Refused: with every problem of every file.
    """
    with default_zone(spec.time_zone):
        return _compile_program(spec, keeping or CachePolicy(default_folder()))


def _compile_program(spec: ProgramSpec, keeping: CachePolicy | StoreFile) -> CompiledProgram:
    BOUNDS.start(LONGEST_TEXT, MOST_TEXT_OF_BACKGROUND)
    keeps = isinstance(keeping, CachePolicy) and keeping.programs
    checked = (kept_program(spec) if keeps else None) or _checked_program(spec)
    ruleset, units, closing_rules, problems = checked.rules, checked.units, checked.closing_rules, checked.warnings
    try:
        closed = open_background(spec.sources, closing_rules, keeping)
    except Refused as refused:
        raise Refused([*problems, *refused.diagnostics]) from None
    static = StaticAnswers(spec, closed.store)
    try:
        program = compile_units(spec, ruleset, units, closing_rules, closed, static)
        static_queries = _static_queries(program, static)
    except StaticLimitExceeded as over:
        raise Refused([*problems, _over_background(spec, ruleset, units, over)]) from None
    if checked.spread is None:
        checked = replace(checked, spread=tuple(_spread_warnings(program)))
        if keeps:
            keep(spec, checked)
    further = [*static_queries, *_idle_ticks(program), *(checked.spread or ()), *_unit_warnings(program), *_literal_warnings(program)]
    shared = {query.label: query.span for query in ruleset.queries}
    queries = {role.span: shared[role.origin] for rule in ruleset.rules for role in roles(rule) if role.origin in shared}
    told, silenced = without_allowed(further, checked.allowed, queries)
    static.write()
    warnings = (*problems, *_contradictions(closed.knowledge), *_unresolved_imports(spec, closed.knowledge), *told)
    return replace(program, warnings=warnings, silenced=(*checked.silenced, *silenced))


def _checked_program(spec: ProgramSpec) -> CheckedProgram:
    """The program of the texts; raises `Refused` with the problems of all files."""
    from dotr.languages.allowances import allowances
    from dotr.languages.declarations import nothing_said
    from dotr.syntax.datalog import parse_datalog
    from dotr.syntax.sparql import unit_of_times

    with unit_of_times(spec.unit):
        ruleset, units, found = _read_rules_and_units(spec)
        allowed = [each for document in (*spec.rules, *spec.datalog) for each in allowances(document)]
        found += [warning for document in (*spec.rules, *spec.datalog) if (warning := nothing_said(document))]
        problems, silenced = without_allowed(found, allowed)
        datalog: list[DatalogRule] = []
        for document in spec.datalog:
            try:
                datalog += parse_datalog(document, spec.prefixes)
            except Refused as refused:
                problems += refused.diagnostics
        if any(problem.severity is Severity.ERROR for problem in problems):
            try:
                load_graphs(spec.graphs, spec.reading)
            except Refused as refused:
                problems += refused.diagnostics
            raise Refused(problems)
        closing_rules = (*rule_set(spec.entailment, axiomatic=spec.axiomatic), *datalog)
    return CheckedProgram(ruleset, units, closing_rules, tuple(problems), tuple(silenced), tuple(allowed))


def warnings_with_form(spec: ProgramSpec, warnings: Iterable[Diagnostic], dated: bool | None) -> list[Diagnostic]:
    """The warnings of a program for times that are date-times (`dated`) or not (None: unknown).

    A unit of integer times in the configuration leaves out those about date-times. Where the times
    are date-times nevertheless, the rules are read again, and say them.
    """
    hidden: list[Diagnostic] = []
    if dated and spec.unit_given:
        with default_zone(spec.time_zone):
            dating = replace(spec, unit_given=False)
            found = kept_program(dating)
            if found is None:
                found = _checked_program(dating)
                keep(dating, found)
        hidden += [each for each in found.warnings if each.dated]
    return with_form_of_times([*warnings, *hidden], dated)


def fingerprint(spec: ProgramSpec) -> str:
    """A digest of 32 hexadecimal digits over the texts of the program and the bytes of its
    graphs, not over their paths.
    """
    digest = blake2b(digest_size=16)
    for documents in (spec.rules, spec.datalog):
        for text in sorted(document.text for document in documents):
            digest.update(text.encode() + b"\0")
        digest.update(b"\1")
    for path in spec.sources.files:
        with Location(path).open() as file:
            for block in iter(lambda: file.read(1 << 20), b""):
                digest.update(block)
        digest.update(b"\0")
    settings: list[object] = [
        spec.entailment.value,
        spec.axiomatic,
        sorted(spec.prefixes.items()),
        spec.unit.written,
        spec.inconsistent.value,
    ]
    settings += [spec.time_zone] if spec.time_zone else []
    imports = tuple((iri, "") for iri, _ in spec.reading.imports)
    settings += [spec.limits.fingerprint, *replace(spec.reading, imports=imports).to_list()]
    if has_units(spec.rules):
        settings.append([spec.origin, [[each.name, each.stream] for each in spec.inputs]])
    digest.update(json.dumps(settings).encode())
    return digest.hexdigest()


def _read_rules_and_units(spec: ProgramSpec) -> tuple[RuleSet, tuple[StreamUnit, ...], list[Diagnostic]]:
    """The rules and the other units of a specification, with the problems of their files."""
    from dotr.languages.rules import compile_rules

    documents = of_language(spec.rules, RuleLanguage.RULES)
    if not has_units(spec.rules):
        ruleset = compile_rules(documents, spec.prefixes, integer_times=spec.unit_given)
        return ruleset, (), [*ruleset.diagnostics]
    from dotr.languages.linking import label_problems, resolve_units

    files = read_unit_files(spec)
    made = [events for each in files for events in each.events]
    ruleset = compile_rules(documents, spec.prefixes, units=made, integer_times=spec.unit_given)
    prefixes = {name: iri for each in reversed(files) for name, iri in each.prefixes.items()}
    ruleset = replace(ruleset, prefixes={**prefixes, **ruleset.prefixes})
    own = [problem for each in files for problem in with_form_of_times(each.diagnostics, False if spec.unit_given else None)]
    found = [*own, *label_problems(made), *ruleset.diagnostics]
    if any(problem.severity is Severity.ERROR for problem in [*own, *ruleset.diagnostics]):
        return ruleset, (), found
    resolved = resolve_units(files, ruleset, spec.inputs)
    read = {read.stream for unit in resolved.units for read in unit.reads}
    used = {query.span for query in ruleset.queries if facts_of(query) in read}
    found = [problem for problem in found if problem.code != RuleCode.UNUSED_QUERY or problem.span not in used]
    events = {stream.event for stream in read if isinstance(stream, EventSource)}
    known = [rule.span for rule in ruleset.rules if rule.event in events]
    found = [problem for problem in found if problem.code != RuleCode.UNUSED_ASSIGNMENT or not _is_within(problem.span, known)]
    return ruleset, tuple(resolved.units), [*found, *with_form_of_times(resolved.problems, False if spec.unit_given else None)]


def _is_within(span: Span | None, rules: Iterable[Span]) -> bool:
    return span is not None and any(each.document is span.document and each.start <= span.start < each.end for each in rules)


def _contradictions(knowledge: Knowledge) -> list[Diagnostic]:
    """A warning for each contradiction of the background alone, with its premises; of many, for the
    first few.
    """
    warnings = []
    for number, contradiction in enumerate(knowledge.contradictions[:_MAX_CONTRADICTIONS], 1):
        described = f"({contradiction.rule}): {', '.join(map(' '.join, visible_premises(contradiction))) or 'by a rule without a body'}"
        if number == _MAX_CONTRADICTIONS < len(knowledge.contradictions):
            described += f"; and {len(knowledge.contradictions) - _MAX_CONTRADICTIONS} more like these"
        hint = "Mend the graphs, or choose another entailment; what was derived is used all the same."
        warnings.append(Diagnostic("K401", f"the background contradicts itself {described}", None, hint, Severity.WARNING))
    return warnings


def _unresolved_imports(spec: ProgramSpec, knowledge: Knowledge) -> Iterator[Diagnostic]:
    """A warning for each ontology that the background imports, of which it has nothing."""
    ends = knowledge.background
    imported = ends.by_object.get(IMPORTS, NO_ENDS)
    versions = ends.by_object.get(_VERSION, NO_ENDS)
    resolved = {f"<{name}>" for name, _ in spec.reading.imports}
    for name in sorted(imported):
        if name in resolved or name in versions or (name, RDF_TYPE, _ONTOLOGY) in ends:
            continue
        similar = next((each for each in sorted(resolved) if each.rstrip("#/>") == name.rstrip("#/>")), "")
        hint = (
            f'Name the file that holds it: knowledge: {{ imports: {{ "{name[1:-1]}": FILE }} }}; or accept it: report: {{ accept: [K139] }}'
        )
        if similar:
            hint = f"Did you mean {name[1:-1]} in knowledge.imports, where {similar[1:-1]} is?"
        message = f"{min(imported[name])} imports {name}, which no graph holds; nothing is fetched, so it is left out"
        yield Diagnostic("K139", message, None, hint, Severity.WARNING)


def _static_queries(program: CompiledProgram, static: StaticAnswers) -> list[Diagnostic]:
    """A warning for each label whose query has answers of the background alone."""
    stage_one = program.stage_one
    plans = {each.select: each for each in stage_one.plans}
    warnings: dict[Span, Diagnostic] = {}
    for rule in program.rules.rules:
        for role in roles(rule):
            if not isinstance(role.source, FactSource) or role.source.period is not None:
                continue
            query = role.source.query
            query_plan = plans.get(query)
            if query_plan is None:
                query_plan = plans[query] = plan_source(role.source, program.knowledge.background, static.answers, stage_one.limits)
            if query_plan.static:
                warnings[role.span] = Diagnostic(
                    "D501",
                    f"the query of {role.label} has answers that hold of the background alone: they are facts at every instant",
                    role.span,
                    "Add a pattern that only the stream can match.",
                    Severity.WARNING,
                )
    return list(warnings.values())


def _over_background(spec: ProgramSpec, rules: RuleSet, units: Sequence[StreamUnit], over: StaticLimitExceeded) -> Diagnostic:
    """The diagnostic (D504) of a query whose answers over the background alone exceed a limit."""
    layout = lay_out(share_queries(rules.rules), spec.since, units, cut=spec.cut, groups=spec.groups)
    of_rules = [placed.rule for layer in layout.layers for placed in layer.rules] + list(rules.rules)
    role = next((role for rule in of_rules for role in roles(rule) if role.source == over.source), None)
    return Diagnostic(
        "D504",
        f"the query of {role.label if role else 'a label'} has too many answers over the background alone: {over}",
        role.span if role else None,
        "Add a pattern that only the stream can match, or join what is listed side by side; else raise `limits`.",
    )


def _idle_ticks(program: CompiledProgram) -> list[Diagnostic]:
    """A warning for each `every … for` to which the background has no answer."""
    layout = program.layout
    ticking = {layout.streams[ticks.stream] for ticks in program.stage_one.ticks}
    return [
        Diagnostic(
            "D503",
            f"{placed.rule.anchor.label} never ticks: the background has no answer to its query",
            placed.rule.anchor.span,
            "Its query reads the background alone, not the stream. Is a graph missing in `knowledge`?",
            Severity.WARNING,
        )
        for layer in layout.layers
        for placed in layer.rules
        if isinstance(source := placed.rule.anchor.source, FactSource) and source.period is not None and source not in ticking
    ]


def _spread_warnings(program: CompiledProgram) -> Iterator[Diagnostic]:
    """Warnings for rules that run on one core, in a layout that is cut where that is possible."""
    layout, spec = program.layout, program.spec
    if layout.may_be_cut:
        layout = lay_out(share_queries(program.rules.rules), spec.since, program.units, cut=True)
    yield from _warnings_of_layout(layout, program.rules.diagnostics)


def _warnings_of_layout(layout: Layout, found: Iterable[Diagnostic]) -> list[Diagnostic]:
    """The warnings for a layout that is cut: rules that run on one core (D502), and replicated
    clauses that every event satisfies (D510).

    None for a layout without state, whose instants are spread over the cores, and none for clauses
    with a warning of `found` (`RuleCode.UNTIED`).
    """
    if not layout.stateful_operators:
        return []
    untied = [warning.span for warning in found if warning.code == RuleCode.UNTIED and warning.span is not None]
    warnings = []
    for placed in (placed for layer in layout.layers for placed in layer.rules):
        rule, stage = placed.rule, placed.stage
        if stage.is_whole and isinstance(stage.split, SinglePartition):
            if not any(rule.span.contains(span) for span in untied):
                warnings.append(
                    Diagnostic(
                        "D502",
                        f"rule {rule.name} cannot be partitioned and runs on one core: {stage.split.reason}",
                        rule.anchor.span,
                        _way_out(rule),
                        Severity.WARNING,
                    )
                )
            continue
        warnings += [
            Diagnostic(
                "D510",
                f"every core takes in every event of {role.label}: no equality ties it to rule {rule.name}, and its query has no condition",
                role.span,
                "Select the events that may count (FILTER, VALUES, a constant subject or object), or equate one of their attributes.",
                Severity.WARNING,
            )
            for role, _ in placed.roles
            if role.label in stage.replicated and _takes_in_all(role) and not any(role.span.contains(span) for span in untied)
        ]
    return warnings


def _way_out(rule: Rule) -> str:
    if set(rule.consuming) - {rule.anchor.label}:
        return _TIED
    source = rule.anchor.source
    return _TICKS if isinstance(source, FactSource) and source.period is not None and not source.attributes else _RECURSIVE


def _takes_in_all(role: Role) -> bool:
    """True if the query of a role, and its constraints on its own event, select nothing."""
    if not isinstance(role.source, FactSource):
        return False
    if any(all(isinstance(part, Var) for part in parameters_of([constraint])) for constraint in role.constraints):
        return False
    return not any(map(_selects, walk(role.source.query.pattern)))


def _selects(node: AlgebraNode) -> bool:
    """True for a part of a query that restricts its answers: a condition, or a constant subject or
    object."""
    match node:
        case Filter() | Values():
            return True
        case TriplePattern(subject, _, value) | PathPattern(subject, _, value) | TermPattern(_, subject, _, value):
            return isinstance(subject, Const) or isinstance(value, Const)
        case _:
            return False


def _unit_warnings(program: CompiledProgram) -> Iterator[Diagnostic]:
    """Warnings of other units that need the compiled background."""
    if not program.units:
        return
    from dotr.engine.unit_runs import engine_unit

    answered = {plan.select for plan in program.stage_one.plans if plan.static}
    for unit in program.units:
        yield from engine_unit(unit).warnings(program.knowledge, program.spec.limits, answered)


# Rule files without a configuration, and warnings of each language on the streams that a program
# reads, for `dotr check`.


def rules_alone(documents: Sequence[Document]) -> RuleSet:
    """The rules of rule files as one program without a configuration. Without errors, diagnostics
    include the warnings on the layout."""
    from dotr.languages.rules import compile_rules

    rules = compile_rules(documents, {})
    if rules.errors:
        return rules
    layout = lay_out(share_queries(rules.rules), cut=True)
    return replace(rules, diagnostics=(*rules.diagnostics, *_warnings_of_layout(layout, rules.diagnostics)))


def warnings_on_conditions(program: CompiledProgram, objects: StreamObjects) -> Iterator[Diagnostic]:
    """Warnings on conditions of rules that are never true for the known objects of the streams."""
    from dotr.languages.rules.never_true import never_true

    return never_true(program, objects)


def _literal_warnings(program: CompiledProgram) -> Iterator[Diagnostic]:
    """Warnings about literals in the axioms of a background with OWL 2 RL: functional properties of
    data that windows merge (K403), and literals outside the range of their property (K404).
    """
    if program.spec.entailment is not Entailment.OWL2RL:
        return
    background = program.knowledge.background
    ranges = background.by_subject.get(_RANGE, NO_ENDS)
    merging = next((unit for unit in program.units if unit.merges_instants), None)
    if merging is not None:
        types = background.by_object.get(RDF_TYPE, NO_ENDS)
        of_data = set(types.get(_OF_DATA, NO_TERMS))
        for name in sorted(types.get(_FUNCTIONAL, NO_TERMS)):
            if name in of_data or any(map(is_datatype, ranges.get(name, NO_TERMS))):
                yield Diagnostic(
                    "K403",
                    f"{name} is functional, and the windows of {merging.noun} {merging.name} merge its values of several instants",
                    None,
                    "Two different values of one subject in a window are a contradiction (dt-diff): take the axiom out of the background, "
                    "or give each reading a subject of its own.",
                    Severity.WARNING,
                )
    for name, datatypes in sorted(ranges.items()):
        found = _outside(background, name, [each for each in datatypes if is_datatype(each)])
        if found is not None:
            yield Diagnostic(
                "K404",
                f"{name} has the value {found[0]}, which is not in its range {found[1]}",
                None,
                "dt-not-type does not count: nothing contradicts. Mend the value, or the range; further values are not told.",
                Severity.WARNING,
            )


def _outside(background: TripleIndex, name: Term, datatypes: list[Term]) -> tuple[Term, Term] | None:
    """A literal of a property, and a datatype of its range that the literal does not have."""
    if not datatypes:
        return None
    for value in islice(background.by_object.get(name, NO_ENDS), _MAX_LITERALS):
        for datatype in datatypes:
            if is_literal(value) and not has_type(value, datatype):
                return value, datatype
    return None


def warnings_on_windows(program: CompiledProgram, objects: StreamObjects) -> Iterator[Diagnostic]:
    """Warnings on predicates that windows ask for, and that only the background has, given the known
    objects of the streams."""
    if program.units:
        from dotr.languages.continuous.stream_check import of_the_background

        yield from of_the_background(program, objects)


def warnings_on_streams(
    program: CompiledProgram,
    streamed: Mapping[str, frozenset[Term]],
    nearest: Callable[[Term, Iterable[Term], Prefixes], str],
    *,
    complete: bool,
) -> Iterator[Diagnostic]:
    """Warnings on predicates and classes that the windows of a program ask for.

    Args:
        program: the program.
        streamed: the predicates and classes of each input that was read, by the input's name.
        nearest: finds a known term with a similar spelling.
        complete: all records were read.
    """
    if program.units:
        from dotr.languages.continuous.stream_check import missing_in_windows

        yield from missing_in_windows(program, streamed, nearest, complete=complete)
