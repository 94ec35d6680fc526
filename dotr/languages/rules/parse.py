"""Pass 1: each file's text to its syntax tree.

Before: documents. After: `files`, and a draft for every query and rule of theirs that could be read.
"""

from __future__ import annotations

from dataclasses import replace

from dotr.errors.diagnostics import Diagnostic
from dotr.languages.rules.grammar import Grammar
from dotr.languages.rules.program import ProgramDraft, QueryDraft, draft
from dotr.languages.rules.syntax import DocumentSyntax


def parse(program: ProgramDraft) -> ProgramDraft:
    files: list[DocumentSyntax] = []
    problems: list[Diagnostic] = []
    for document in program.documents:
        file, found = Grammar(document).parse()
        files.append(file)
        problems += found
    return replace(
        program,
        files=tuple(files),
        queries=tuple(QueryDraft(query) for file in files for query in file.queries),
        rules=tuple(draft(rule) for file in files for rule in file.rules),
    ).reporting(problems)
