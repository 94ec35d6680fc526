"""Page of all errors and warnings: `python -m tools.errors_page > docs/errors.md`, run in
the repository.

The message of an example is produced by the program, except where it needs a certain state of the
machine.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import chdir
from pathlib import Path
from typing import assert_never

from dotr.commands.check.problems import check
from dotr.errors.catalogue.entries import RULE, ErrorCode, Example, GoldenFile, InCondition, InFiles, InQuery, InTemplate, ShownMessage
from dotr.errors.diagnostics import Refused
from dotr.languages.registry import chapters
from dotr.model.places import Document, Span
from dotr.model.terms import XSD
from dotr.syntax.sparql import parse_expression, parse_select
from dotr.syntax.turtle.parser import parse_template

_PREFIXES = {"": "http://example.org/", "xsd": XSD}
_SYNTAX = {
    ".dotr": "sparql",
    ".rspql": "sparql",
    ".epsparql": "sparql",
    ".dlog": "prolog",
    ".lars": "prolog",
    ".yaml": "yaml",
    ".ttl": "turtle",
    ".n3": "turtle",
    ".jsonld": "json",
}
_HEAD = """\
# Errors and warnings

Made by `python -m tools.errors_page > docs/errors.md`; do not edit it by hand.

Every problem of a file is reported with its code, its place, what is wrong, and what to write instead. Errors end `dotr check`
and `dotr run` with exit code 2; warnings do not (`dotr check --strict`: they do). A code is never given a second meaning.
"""


def page(goldens: Path) -> str:
    """Text of the page; `goldens` is the folder of the examples' files."""
    parts = [_HEAD]
    for chapter in chapters():
        letter = chapter[0].lower()
        parts.append(f"- [{chapter}](#{letter}-{chapter[3:].replace(',', '').replace(' ', '-').lower()})")
    for chapter, codes in chapters().items():
        parts.append(f"\n## {chapter}\n")
        parts += [entry(explained, goldens) for explained in codes]
    return "\n".join(parts)


def entry(explained: ErrorCode, goldens: Path) -> str:
    """Section of one code."""
    lines = [f"### {explained.code} {explained.title}", "", explained.meaning, "", f"*Way out:* {explained.remedy}", ""]
    for syntax, text in _blocks(explained.example, goldens):
        fence = "~~~" if "```" in text else "```"
        lines += [f"{fence}{syntax}", text.rstrip("\n"), fence]
    return "\n".join([*lines, ""])


def message_of(example: Example, goldens: Path) -> str:
    """Message that the program prints for an example."""
    match example:
        case GoldenFile(name):
            return (goldens / name).with_suffix(".txt").read_text(encoding="utf-8")
        case InQuery(text):
            return _refusal(lambda span: parse_select(span, _PREFIXES), "rules.dotr", text)
        case InCondition(text):
            return _refusal(lambda span: parse_expression(span, _PREFIXES), "rules.dotr", text)
        case InTemplate(text, cells):
            return _refusal(lambda span: parse_template(span, _PREFIXES, cells=cells), "example.yaml" if cells else "rules.dotr", text)
        case InFiles(files):
            with tempfile.TemporaryDirectory() as folder, chdir(folder):
                for name, text in files:
                    Path(name).write_text(text, encoding="utf-8")
                messages = "\n\n".join(map(str, check([files[0][0]]).diagnostics))
                return messages.replace(f"{os.path.realpath(folder)}{os.sep}", "")
        case ShownMessage(text):
            return text
        case _:
            assert_never(example)


def _refusal(parse: Callable[[Span], object], name: str, text: str) -> str:
    try:
        parse(Span(Document(name, text), 0, len(text)))
    except Refused as refused:
        return "\n\n".join(map(str, refused.diagnostics))
    return ""


def _blocks(example: Example, goldens: Path) -> Iterator[tuple[str, str]]:
    """Text of an example, then its message, each with the name of its syntax."""
    match example:
        case GoldenFile(name):
            yield _SYNTAX[Path(name).suffix], (goldens / name).read_text(encoding="utf-8")
        case InQuery(text) | InCondition(text):
            yield "sparql", text
        case InTemplate(text, _):
            yield "turtle", text
        case InFiles(files):
            for name, text in files:
                if text and text != RULE:
                    yield (
                        _SYNTAX.get(Path(name).suffix, "text"),
                        f"# {name}\n{text}" if Path(name).suffix in (".yaml", ".dotr", ".ttl", ".dlog") else text,
                    )
        case ShownMessage():
            pass
    yield "text", message_of(example, goldens)


if __name__ == "__main__":
    sys.stdout.write(page(Path("tests/errors")))
