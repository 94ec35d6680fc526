"""Compiler of LARS files: the text of `.lars` files to `dotr.languages.lars.model`.

All statements of a file are parsed, also after one with an error.
Source: lars.md, sections 1 and 3.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import field, replace
from pathlib import PurePath

from dotr.errors.diagnostics import Diagnostic, Severity
from dotr.languages.lars.codes import LarsCode
from dotr.languages.lars.keys import atoms_read
from dotr.languages.lars.model import DEFAULT_RESOLUTION, EventAtom, LarsFile
from dotr.languages.lars.text.checks import argument_forms, file_problems, file_warnings, forms_of, length_warnings
from dotr.languages.lars.text.safety import rule_problems
from dotr.languages.lars.text.statements import LarsReader
from dotr.languages.lars.unit import LarsUnit, event_spans, made_by
from dotr.languages.linking import ProgramNames, ResolvedUnits, UnitFiles
from dotr.model import dataclass
from dotr.model.places import Document, Span
from dotr.model.rules import EventSource, FactSource
from dotr.model.terms import Label, Prefixes
from dotr.model.units import UnitEvents
from dotr.syntax.datalog import tokens as datalog_tokens
from dotr.temporal.layout.units import StreamUnit

__all__ = ["LarsCode", "LarsSet", "compile_lars"]


@dataclass(frozen=True, slots=True)
class LarsSet(UnitFiles):
    """Result of compiling `.lars` files.

    - `files`: those without an error, in order.
    - `diagnostics`: by file and offset.
    - `prefixes`: those of files (of two declarations the first), then the configuration's.
    """

    files: tuple[LarsFile, ...]
    diagnostics: tuple[Diagnostic, ...]
    prefixes: Prefixes = field(default_factory=dict, repr=False)

    @property
    def events(self) -> tuple[UnitEvents, ...]:
        """The events of all REPORTs."""
        return tuple(
            replace(events, forms=tuple(argument_forms(report.atom, places).items()))
            for file in self.files
            for places in [forms_of(file, {})]
            for events, report in zip(made_by(file), file.reports, strict=True)
        )

    def resolve(self, names: ProgramNames) -> ResolvedUnits:
        """The files with the sources of the labels that they read; reports D205 and D207."""
        problems: list[Diagnostic] = []
        units: list[StreamUnit] = []
        for file in self.files:
            found = len(problems)
            sources: dict[Label, EventSource | FactSource] = {}
            for label, first in event_spans(file).items():
                source = names.source_of(label, (), first, problems)
                if source is not None:
                    sources[label] = source
            for atom, span in atoms_read(file):
                if isinstance(atom, EventAtom) and atom.label in sources:
                    names.source_of(atom.label, [name for name, _ in atom.attributes], span, problems)
            if len(problems) == found:
                units.append(LarsUnit(file, tuple(sorted(sources.items(), key=lambda each: each[0]))))
                problems += [each for each in length_warnings(file, names.forms) if each not in self.diagnostics]
        return ResolvedUnits(units, problems)


def compile_lars(documents: Sequence[Document], prefixes: Prefixes) -> LarsSet:
    """Compile `.lars` files.

    `prefixes` (prefix to namespace IRI) are for files that declare none of their own. Problems are
    in `LarsSet.diagnostics`; none is raised. Labels and attributes of EVENT are checked later, with
    the whole program.

    >>> text = "Q(?x) :- :p(?x, ?v) IN [3 s] . REPORT Q(?x) ."
    >>> (file,) = compile_lars([Document("a/q.lars", text)], {"": "http://e/"}).checked().files
    >>> file.name, file.resolution, [report.label for report in file.reports]
    ('q.lars', 1000000, ['Q'])
    """
    files: list[LarsFile] = []
    diagnostics: list[Diagnostic] = []
    declared: dict[str, str] = {}
    for document, name in zip(documents, _names(documents), strict=True):
        reader = LarsReader(document, prefixes)
        file, problems = _file(reader, name)
        files += [file] if not any(each.severity is Severity.ERROR for each in problems) else []
        diagnostics += sorted(dict.fromkeys(problems), key=lambda each: each.span.start if each.span else -1)
        declared = {**reader.prefixes, **declared}
    return LarsSet(tuple(files), tuple(diagnostics), {**prefixes, **declared})


def _file(reader: LarsReader, name: str) -> tuple[LarsFile, list[Diagnostic]]:
    document = reader.draft.document
    line, counted_to = 1, 0
    for tokens in datalog_tokens.statements(document.text):
        start = tokens[0][2]
        line, counted_to = line + document.text.count("\n", counted_to, start), start
        reader.statement(tokens, line)
    draft = reader.draft
    file = LarsFile(
        name,
        draft.resolution or DEFAULT_RESOLUTION,
        bool(draft.asserted),
        frozenset(draft.background),
        tuple(draft.facts),
        tuple(syntax.rule for syntax in draft.rules if syntax.is_whole),
        tuple(draft.reports),
        draft.first or Span(document, 0, min(1, len(document.text))),
    )
    problems, derived = list(reader.problems), file.derived
    for syntax in draft.rules:
        problems += rule_problems(syntax, file, derived)
    problems += file_problems(file, draft)
    return file, problems or list(file_warnings(file))


def _names(documents: Sequence[Document]) -> Iterator[str]:
    """The names of files: the shortest end of each path that no other path has.

    >>> list(_names([Document("a/x/q.lars", ""), Document("b/x/q.lars", ""), Document("r.lars", "")]))
    ['a/x/q.lars', 'b/x/q.lars', 'r.lars']
    """
    paths = [PurePath(document.name).parts for document in documents]
    for number, path in enumerate(paths):
        others = paths[:number] + paths[number + 1 :]
        length = next((n for n in range(1, len(path)) if all(other[-n:] != path[-n:] for other in others)), len(path))
        yield "/".join(path[-length:])
