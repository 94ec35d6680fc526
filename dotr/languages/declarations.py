"""Declarations of prefixes in a file of any language: `PREFIX p: <…>`, `@prefix p: <…> .`."""

from __future__ import annotations

import re
from typing import Final

from dotr.errors.diagnostics import Diagnostic, Severity
from dotr.model.places import Document, Span
from dotr.model.terms import Prefixes, unescaped
from dotr.syntax import scan

_BLANK: Final = r"(?:[\s\ufeff]|#[^\r\n]*+)"
_NOTHING: Final = re.compile(
    rf"(?>(?:{_BLANK}|(?:@?prefix(?>{_BLANK}+)[^\s<>:#]*+:|@?base)(?>{_BLANK}*)<[^<>\s]*+>(?>(?:(?>{_BLANK}*)\.)?))*)", re.IGNORECASE
)


def declared_prefixes(document: Document) -> Prefixes:
    """The prefixes that a file declares.

    >>> declared_prefixes(Document("r.lars", "PREFIX : # ours\\n <http://e/> @prefix x: <http://x/> ."))
    {'': 'http://e/', 'x': 'http://x/'}
    """
    found = list(scan.tokens(Span(document, 0, len(document.text))))
    return {
        name[0][:-1]: unescaped(iri[0][1:-1])
        for word, name, iri in zip(found, found[1:], found[2:], strict=False)
        if word[0].lower().lstrip("@") == "prefix" and name.lastgroup == "prefixed" and iri.lastgroup == "iri"
    }


def declares_nothing_else(document: Document) -> bool:
    """True of a file that holds nothing but blanks, comments and declarations of prefixes.

    >>> declares_nothing_else(Document("r.dotr", "# later\\nPREFIX : <http://e/>")), declares_nothing_else(Document("r.dotr", "rule"))
    (True, False)
    """
    return _NOTHING.fullmatch(document.text) is not None


def nothing_said(document: Document) -> Diagnostic | None:
    """The warning (C209) of a file that holds nothing but comments and declarations of prefixes."""
    if not declares_nothing_else(document):
        return None
    span = Span(document, 0, min(1, len(document.text)))
    return Diagnostic("C209", "this file holds no statement", span, "Is it the file meant?", Severity.WARNING)
