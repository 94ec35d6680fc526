"""Warnings that a file allows: `# dotr: allow D501 (the links are few)` above a statement.

The comment has a line of its own; only comments and empty lines may be between it and the
statement. It silences the warnings of its code whose place is in the statement. A comment without a
reason has no effect.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from dotr.errors.diagnostics import Allowance
from dotr.languages.registry import RuleLanguage
from dotr.model.places import Document, Span
from dotr.syntax import scan

_MARK: Final = "dotr:"
_COMMENT: Final = re.compile(r"^(?P<before>[^#\"'\n]*)(?P<comment>#[ \t]*dotr:(?P<text>[^\r\n]*))", re.MULTILINE)
_ALLOW: Final = re.compile(r"\s*allow\s+(?P<codes>\w+(?:[,\s]+\w+)*)\s*(?:\((?P<reason>.*)\)[.\s]*)?")
_ABOVE: Final = re.compile(r"(?:[\s\ufeff]+|#[^\n]*)*")


def allowances(document: Document) -> tuple[Allowance, ...]:
    """The allowances of a file of rules, queries, LARS or Datalog, by the extension of its name.

    >>> text = "# dotr: allow D220 (read by the dashboard)\\nquery Temp = [ SELECT ?v WHERE { ?t :v ?v } ]\\n"
    >>> [(each.code, each.reason) for each in allowances(Document("r.dotr", text))]
    [('D220', 'read by the dashboard')]
    """
    if _MARK not in document.text:
        return ()
    language = RuleLanguage.of(document.name)
    if language in (RuleLanguage.CONTINUOUS, RuleLanguage.EP_SPARQL):
        from dotr.syntax.cursor import register_spans as spans_of
    elif language is RuleLanguage.LARS or document.name.endswith(".dlog"):
        spans_of = _datalog_spans
    else:
        spans_of = _rule_spans
    return tuple(allowances_above(document, list(spans_of(document))))


def allowances_above(document: Document, found: Sequence[Span]) -> Iterator[Allowance]:
    """The allowances of a document, given its statements in any order."""
    by_start = {span.start: span for span in found}
    for comment in _COMMENT.finditer(document.text):
        below = _ABOVE.match(document.text, comment.end())
        scope = by_start.get(below.end()) if below and not comment["before"].strip() else None
        place = Span(document, comment.start("comment"), comment.start("comment") + len(comment["comment"].rstrip()))
        allow = _ALLOW.fullmatch(comment["text"])
        for code in re.split(r"[,\s]+", allow["codes"]) if allow else [""]:
            yield Allowance(code, (allow["reason"] or "").strip() if allow else "", place, scope)


def _rule_spans(document: Document) -> Iterator[Span]:
    """The statements of a rule file: each begins at its keyword outside of brackets.

    The `define` of `rule R define …` begins no statement of its own.
    """
    starts: list[int] = []
    depth, is_after_rule = 0, False
    for token in scan.tokens(Span(document, 0, len(document.text))):
        match token.lastgroup:
            case "open":
                depth += 1
            case "close":
                depth -= 1
            case "word" if depth == 0 and (word := token[0].lower()) in ("rule", "define", "query", "prefix"):
                if not (is_after_rule and word == "define"):
                    starts.append(token.start())
                is_after_rule = word == "rule"
            case _:
                pass
    for start, end in zip(starts, [*starts[1:], len(document.text)], strict=True):
        yield Span(document, start, end)


def _datalog_spans(document: Document) -> Iterator[Span]:
    from dotr.syntax.datalog.tokens import statements  # with a parser, which few files with comments need

    for tokens in statements(document.text):
        _, text, last = tokens[-1]
        yield Span(document, tokens[0][2], last + len(text))
