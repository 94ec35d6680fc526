r"""Scanner of embedded texts: finds the end of a query, template or expression without parsing it.

Invariant: a token of SPARQL or Turtle that may hold a bracket, a `#` or a keyword (string, IRI,
comment, prefixed name, variable) is one token here; brackets outside these nest. As in SPARQL,
`<…>` without a space in it is an IRI.
Cost: one regex match a token.

>>> text = "[ ?x :p 'a ] in a string' # and ] in a comment\n ] within"
>>> text[end_of_bracket(Document("", text), 0, ScanCodes("D102", "D103")):]
' within'
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

from dotr.errors.diagnostics import Diagnostic, Refused
from dotr.model.places import Document, Span
from dotr.syntax.lexemes import LANGUAGE, LONG_STRING, STRING

RESERVED: Final = frozenset(
    "rule define query prefix from every and within between if with consuming of as not each last first".split()  # noqa: SIM905
)
"""Keywords, which cannot be labels in any case of letters."""

SKIP: Final = re.compile(r"(?:[\s\ufeff]+|#[^\n]*)*")

STATEMENT_START: Final = r"(?i:rule)\s+[\w-]+\s*(?:[\"']|(?i:define)\s)|(?i:query|define)\s+(?:(?i:internal)\s+)?\w+\s*=\s*\["
"""Start of a statement, which cannot occur inside an embedded text."""

TOKEN: Final = re.compile(
    r"""
      (?P<blank>  \s+ | \#[^\n]* )
    | (?P<string> """
    + f"{LONG_STRING}|{STRING}"
    + r""" )
    | (?P<iri>    < (?: [^<>"{}|^`\\\x00-\x20] | \\u[0-9A-Fa-f]{4} | \\U[0-9A-Fa-f]{8} )* > )
    | (?P<variable> [?$]\w+ )
    | (?P<prefixed> (?: [^\W\d][\w.-]* )? : (?: [\w:%-] | \\. | \.+(?=[\w:%\\-]) )* )
    | (?P<language> @"""
    + LANGUAGE
    + r""" )
    | (?P<word>   [^\W\d]\w* )
    | (?P<number> \d+(?:\.\d+)?(?:[eE][+-]?\d+)? )
    | (?P<open>   [\[({] )
    | (?P<close>  [\])}] )
    | (?P<quote>  ["'] )
    | (?P<mark>   \\. | . )
    """,
    re.VERBOSE | re.DOTALL,
)

ONCE: Final = r"(?i:once)(?!\w)(?=(?:[\s\ufeff]+|#[^\n]*)*(?:(?i:in|per|rule|define|query|prefix)(?!\w)|;|\Z))"
"""The word `once` behind a rule's clauses: what follows it makes it a keyword."""

AT_MOST: Final = r"(?i:at)(?!\w)(?=(?:[\s\ufeff]+|#[^\n]*)+(?i:most)(?!\w))"
"""The word `at` of `at most`, behind the expression of a delay."""

_STATEMENT_START: Final = re.compile(STATEMENT_START)
_AT_MOST: Final = re.compile(AT_MOST)
_ONCE: Final = re.compile(ONCE)
_CLOSING: Final = {"[": "]", "(": ")", "{": "}"}
_EXPRESSION_ENDS: Final = frozenset({"rule", "define", "query", "prefix", "from", "and", "within", "between", "of", "with", "consuming"})


class ScanCodes(NamedTuple):
    """The codes of a language for the errors of a scan.

    - `bracket`: a bracket is not closed, or by another one.
    - `string`: a string is not closed.
    """

    bracket: str
    string: str


def tokens(span: Span) -> Iterator[re.Match[str]]:
    """The tokens of a span, without blanks and comments."""
    for token in TOKEN.finditer(span.document.text, span.start, span.end):
        if token.lastgroup != "blank":
            yield token


def one_line(span: Span) -> str:
    """The text of a span in one line, without comments; blanks inside strings stay as they are.

    >>> text = "{ ?c :price ?p . # in euros\\n  ?c :name 'a  #b' }"
    >>> one_line(Span(Document("", text), 0, len(text)))
    "{ ?c :price ?p . ?c :name 'a  #b' }"
    """
    pieces: list[str] = []
    for token in TOKEN.finditer(span.document.text, span.start, span.end):
        if token.lastgroup != "blank":
            pieces.append(token[0])
        elif pieces and pieces[-1] != " ":
            pieces.append(" ")
    return "".join(pieces).rstrip()


def end_of_bracket(document: Document, start: int, codes: ScanCodes) -> int:
    """The offset behind the bracket that closes the one at `start`; raises `Refused`."""
    text, open_ = document.text, [start]
    position = start + 1
    while token := TOKEN.match(text, position):
        match token.lastgroup:
            case "open":
                open_.append(position)
            case "close":
                _check_pair(document, open_[-1], position, codes.bracket)
                open_.pop()
                if not open_:
                    return token.end()
            case "quote":
                raise _unclosed_string(document, position, codes.string)
            case "word" if _STATEMENT_START.match(text, position):
                break
            case _:
                pass
        position = token.end()
    raise _unclosed_bracket(document, open_[-1], codes.bracket)


def end_of_expression(document: Document, start: int, codes: ScanCodes) -> int:
    """The offset behind the expression at `start`: before a `,`, a `;` or a keyword of the rule.

    Raises `Refused` for an unclosed bracket or string.

    >>> text = "Smoke.?room1, Fire.?n = IF(?n > 2, 1, 0) consuming Smoke"
    >>> text[:end_of_expression(Document("", text), 0, ScanCodes("D102", "D103"))]
    'Smoke.?room1'
    """
    text, position, end = document.text, start, start
    while token := TOKEN.match(text, position):
        kind = token.lastgroup
        position = token.end()
        if kind == "blank":
            continue
        if kind == "open":
            position = end_of_bracket(document, token.start(), codes)
        elif kind == "quote":
            raise _unclosed_string(document, token.start(), codes.string)
        elif kind == "close" or token[0] in ",;" or (kind == "word" and _ends_expression(token)):
            break
        end = position
    return end


def _ends_expression(word: re.Match[str]) -> bool:
    return word[0].lower() in _EXPRESSION_ENDS or any(each.match(word.string, word.start()) for each in (_ONCE, _AT_MOST))


def plain_variable(span: Span, name: str) -> Span:
    """The first occurrence of a variable in a text, except in `M.?v`; without one, the whole text.

    >>> text = "Smoke.?room = ?room"
    >>> plain_variable(Span(Document("", text), 0, len(text)), "room").start
    14
    """
    before = ("", 0)
    for token in tokens(span):
        if token.lastgroup == "variable" and token[0][1:] == name and before != (".", token.start()):
            return Span(span.document, token.start(), token.end())
        before = (token[0], token.end())
    return span


def compared_variable(span: Span, name: str, marks: str = "=<>!") -> Span:
    """The first occurrence of a variable beside an operator that begins with one of `marks`.

    Without one, the first occurrence at all.

    >>> text = "SELECT ?v WHERE { ?s :value ?v FILTER(?v > 60) }"
    >>> compared_variable(Span(Document("", text), 0, len(text)), "v").start
    38
    """
    all_tokens = list(tokens(span))
    for before, token, after in zip([None, *all_tokens], all_tokens, [*all_tokens[1:], None], strict=False):
        if _is_plain_variable(token, name, before) and any(beside is not None and beside[0] in marks for beside in (before, after)):
            return Span(span.document, token.start(), token.end())
    return plain_variable(span, name)


def argument_variable(span: Span, name: str, function: str) -> Span:
    """The first occurrence of a variable in a function's arguments; without one, the first at all.

    >>> text = "SELECT ?v WHERE { ?s :value ?v FILTER(STRLEN(STR(?v)) > strlen(?v)) }"
    >>> argument_variable(Span(Document("", text), 0, len(text)), "v", "STRLEN").start
    49
    """
    depth = 0
    before: re.Match[str] | None = None
    for token in tokens(span):
        if token[0] == "(" and (depth or (before is not None and before[0].upper() == function)):
            depth += 1
        elif token[0] == ")" and depth:
            depth -= 1
        elif depth and _is_plain_variable(token, name, before):
            return Span(span.document, token.start(), token.end())
        before = token
    return plain_variable(span, name)


def _is_plain_variable(token: re.Match[str], name: str, before: re.Match[str] | None) -> bool:
    """True of a token that is the variable itself, false of the one in `M.?v`."""
    attribute = before is not None and before[0] == "." and before.end() == token.start()
    return token.lastgroup == "variable" and token[0][1:] == name and not attribute


def _check_pair(document: Document, opened: int, closed: int, code: str) -> None:
    text = document.text
    expected = _CLOSING[text[opened]]
    if text[closed] != expected:
        line, column = Span(document, opened, opened).line_column
        hint = f"The {text[opened]!r} of line {line}, column {column} is not closed yet."
        span = Span(document, closed, closed + 1)
        raise Refused([Diagnostic(code, f"expected {expected!r}, found {text[closed]!r}", span, hint)])


def _unclosed_bracket(document: Document, opened: int, code: str) -> Refused:
    bracket = document.text[opened]
    hint = f"Add the {_CLOSING[bracket]!r} that belongs to it."
    return Refused([Diagnostic(code, f"{bracket!r} is never closed", Span(document, opened, opened + 1), hint)])


def _unclosed_string(document: Document, opened: int, code: str) -> Refused:
    quote = document.text[opened]
    hint = f"End the string with {quote} on the same line, or write it between {quote * 3} and {quote * 3}."
    return Refused([Diagnostic(code, "the string is never closed", Span(document, opened, opened + 1), hint)])
