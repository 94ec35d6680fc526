"""Pass 1: parses the text of each file to its syntax tree.

Before: documents. After: `files`, and a draft of every valid query and rule in them.
"""

from __future__ import annotations

from dataclasses import replace

from dotr.errors.diagnostics import Diagnostic
from dotr.languages.rules.grammar import parse_document
from dotr.languages.rules.program import ProgramDraft, QueryDraft, rule_draft
from dotr.languages.rules.syntax import DocumentSyntax


def parse(program: ProgramDraft) -> ProgramDraft:
    """Parse every document; reports D101 to D103."""
    files: list[DocumentSyntax] = []
    problems: list[Diagnostic] = []
    for document in program.documents:
        file, errors = parse_document(document)
        files.append(file)
        problems += errors
    return replace(
        program,
        files=tuple(files),
        queries=tuple(QueryDraft(query) for file in files for query in file.queries),
        rules=tuple(rule_draft(rule) for file in files for rule in file.rules),
    ).with_problems(problems)
