"""Pass 2: resolves the prefixes of each file: its own, or the configuration's if it declares none.

Before: `PREFIX : <http://e/>  query A = […]`.
After: the draft of A has the prefixes {"": "http://e/"}.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Final

from dotr.errors.diagnostics import Diagnostic
from dotr.languages.rules.codes import RuleCode
from dotr.languages.rules.program import ProgramDraft
from dotr.languages.rules.syntax import DocumentSyntax
from dotr.model.places import Document
from dotr.model.terms import Prefixes, unescaped

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
