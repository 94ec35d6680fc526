"""Pass 3: resolves the labels of queries and events over all files.

Before: `from Smoke = […] and last Fire as Old …`.
After: Smoke's origin is the rule's own query, Old's is the event Fire.

A label that a statement with a syntax error seems to define keeps the origin UNKNOWN, so that only
the syntax error is reported.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Final

from dotr.errors.diagnostics import Diagnostic, did_you_mean
from dotr.languages.codes import RuleCode, UnitCode
from dotr.languages.rules.program import ProgramDraft, RoleDraft, RoleOrigin, warning
from dotr.languages.rules.syntax import ByLabel, DocumentSyntax, Word
from dotr.model.places import Document, Span
from dotr.model.terms import Label, Prefixes, unescaped


def resolve_names(program: ProgramDraft) -> ProgramDraft:
    """Give every role its origin; reports D201, D202, D205, D206, D218, D222 and D240."""
    queries: dict[Label, Word] = {q.syntax.label.text: q.syntax.label for q in reversed(program.queries)}
    events: dict[Label, Word] = {r.syntax.event.text: r.syntax.event for r in reversed(program.rules)}
    units: dict[Label, Span] = {unit.label: unit.span for unit in reversed(program.units)}
    broken = frozenset(label for file in program.files for label in file.broken)
    problems: list[Diagnostic] = [*_duplicate_names(program), *_ambiguous_labels(queries, events), *_labels_of_units(program, units)]
    problems += _partly_internal(program)

    def resolve_role(role: RoleDraft) -> RoleDraft:
        label = role.source_label
        if not isinstance(role.syntax, ByLabel):
            if (hidden := queries.get(label.text) or events.get(label.text)) or label.text in units:
                owner = "shared query" if label.text in queries else "event"
                at = location_text(hidden.span if hidden else units[label.text])
                hint = f"The {owner} {label.text} is at {at}; here the label means this rule's own query. Rename one."
                problems.append(warning(RuleCode.HIDDEN_SHARED_LABEL, f"{label.text} hides the {owner} of that label", label.span, hint))
            return replace(role, origin=RoleOrigin.OWN)
        if label.text in broken:
            return role
        if label.text in queries:
            return replace(role, origin=RoleOrigin.SHARED)
        if label.text in events or label.text in units:
            return replace(role, origin=RoleOrigin.EVENT)
        known = sorted({*queries, *events, *units})
        hint = did_you_mean(label.text, known) or f"Write {label.text} = [ SELECT … ], or define it: query {label.text} = [ SELECT … ]."
        problems.append(Diagnostic(RuleCode.UNKNOWN_EVENT, f"no query and no event is called {label.text}", label.span, hint))
        return role

    rules = tuple(replace(rule, roles=tuple(map(resolve_role, rule.roles))) for rule in program.rules)
    return replace(program, rules=rules).with_problems(problems)


def location_text(span: Span) -> str:
    """The start of a span as `file:line:column`."""
    line, column = span.line_column
    return f"{span.document.name}:{line}:{column}"


def _duplicate_names(program: ProgramDraft) -> Iterator[Diagnostic]:
    names: dict[str, Word] = {}
    for rule in program.rules:
        first = names.setdefault(rule.name.text, rule.name)
        if first is not rule.name:
            unnamed = f" Give this one a name: rule {rule.name.text}2 define {rule.syntax.event.text} = …"
            hint = f"The first is at {location_text(first.span)}.{unnamed if rule.syntax.name is None else ''}"
            yield Diagnostic(RuleCode.RULE_NAME_TWICE, f"two rules are called {rule.name.text}", rule.name.span, hint)
    labels: dict[Label, Word] = {}
    for query in program.queries:
        label = query.syntax.label
        first = labels.setdefault(label.text, label)
        if first is not label:
            hint = f"The first is at {location_text(first.span)}."
            yield Diagnostic(RuleCode.QUERY_LABEL_TWICE, f"two shared queries are called {label.text}", label.span, hint)


def _partly_internal(program: ProgramDraft) -> Iterator[Diagnostic]:
    """Definitions without `internal` of an event that another rule defines as internal."""
    for label, rules in program.rules_by_event.items():
        internal = [rule.syntax.internal for rule in rules if rule.syntax.internal is not None]
        for rule in rules if internal else ():
            if rule.syntax.internal is None:
                hint = f"Write define internal {label} here too, or nowhere: an event is internal in all its definitions, or in none."
                message = f"{label} is internal at {location_text(internal[0].span)}, and not here"
                yield Diagnostic(RuleCode.NOT_ALL_INTERNAL, message, rule.syntax.event.span, hint)


def _labels_of_units(program: ProgramDraft, units: Mapping[Label, Span]) -> Iterator[Diagnostic]:
    """Labels of units that are also a rule's name, an event or a shared query."""
    taken = [(query.syntax.label, "a shared query") for query in program.queries]
    for rule in program.rules:
        taken.append((rule.syntax.event, "the event of a rule"))
        if rule.syntax.name is not None and rule.syntax.name.text != rule.syntax.event.text:
            taken.append((rule.syntax.name, "the name of a rule"))
    for word, owner in taken:
        if word.text in units:
            hint = f"A unit has that label at {location_text(units[word.text])}. Labels are one space: rename one."
            yield Diagnostic(UnitCode.LABEL_OF_UNIT, f"{word.text} is {owner} and the label of a unit", word.span, hint)


def _ambiguous_labels(queries: dict[Label, Word], events: dict[Label, Word]) -> Iterator[Diagnostic]:
    for label, query in queries.items():
        if label in events:
            hint = f"A rule defines the event {label} at {location_text(events[label].span)}. Rename the query or the event."
            yield Diagnostic(RuleCode.QUERY_AND_EVENT, f"{label} is a shared query and an event", query.span, hint)


# Pass 2: resolves the prefixes of each file: its own, or the configuration's if it declares none.
#
# Before: `PREFIX : <http://e/>  query A = […]`.
# After: the draft of A has the prefixes {"": "http://e/"}.

_ABSOLUTE: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.\-]*:")


def resolve_prefixes(program: ProgramDraft) -> ProgramDraft:
    """Give every query and rule its file's prefixes; reports D215 and D216."""
    problems: list[Diagnostic] = []
    by_file: dict[int, Prefixes] = {id(file.document): _declared(file, problems) or program.default_prefixes for file in program.files}

    def prefixes_of(document: Document) -> Prefixes:
        return by_file[id(document)]

    return replace(
        program,
        queries=tuple(replace(q, prefixes=prefixes_of(q.syntax.text.document)) for q in program.queries),
        rules=tuple(replace(r, prefixes=prefixes_of(r.syntax.span.document)) for r in program.rules),
    ).with_problems(problems)


def _declared(file: DocumentSyntax, problems: list[Diagnostic]) -> Prefixes:
    declared: dict[str, str] = {}
    for declaration in file.prefixes:
        name, iri = declaration.name.text, unescaped(declaration.iri.text)
        if not _ABSOLUTE.match(iri):
            hint = "Write the IRI in full: <http://…>."
            problems.append(Diagnostic(RuleCode.RELATIVE_PREFIX, f"the prefix {name}: has a relative IRI", declaration.iri.span, hint))
        if declared.setdefault(name, iri) != iri:
            hint = f"It is <{declared[name]}> before. Declare a prefix once in a file."
            problems.append(Diagnostic(RuleCode.PREFIX_TWICE, f"the prefix {name}: is declared twice", declaration.name.span, hint))
    return declared
