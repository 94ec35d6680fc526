"""The tokens of a SPARQL text, with their places, and the text that rdflib's grammar is given in their stead.

Idea: rdflib's parser knows the grammar but loses places, rewrites literals (`"025"` becomes `25`) and has never heard of `M.?v`. So every
terminal (IRI, prefixed name, literal, number, variable, blank node label, `M.?v`, `time(L)`) is read here and replaced by a stand-in of
the same syntactic kind that carries the token's number: `<t12>`, `"12"`, `12`, `?t12`, `_:t12`. The tree that comes back is a tree of token
numbers: exact terms, exact places, and one tree for all queries of one shape. What SPARQL 1.2 adds is made one token first (`quoted.py`).
Source: SPARQL 1.1, section 19.8 (terminals).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum, auto
from typing import Final
from urllib.parse import urljoin

from dotr.errors.diagnostics import Diagnostic, did_you_mean
from dotr.languages.sparql.keywords import KEYWORDS, REFUSED_KEYWORDS, TRIPLE_FUNCTIONS
from dotr.model.algebra import Attribute, Const, TimeOf, Var
from dotr.model.places import Span
from dotr.model.terms import ESCAPE_HINT, WELL_KNOWN, XSD, invalid_escape, iri, literal, unescaped


class SparqlTokenKind(Enum):
    WORD = auto()
    MARK = auto()
    IRI = auto()
    INVERSE = auto()  # `^iri` inside a negated property set, where rdflib forgets the IRI
    LITERAL = auto()
    NUMBER = auto()
    BLANK = auto()
    VARIABLE = auto()
    REFERENCE = auto()
    QUOTED = auto()
    ANNOTATION = auto()


@dataclass(frozen=True, slots=True)
class Token:
    """`noun` is what the token stands for (None for words and marks); `sign` is `+` or `-` where one belongs to a number."""

    kind: SparqlTokenKind
    text: str
    span: Span
    value: Const | Var | Attribute | TimeOf | Quoted | Annotation | None = None
    sign: str = ""


@dataclass(frozen=True, slots=True)
class Quoted:
    """`<<( s p o )>>`, or (no `is_term`) `<< s p o ~ r >>`; `is_alone`: as a statement of its own."""

    parts: tuple[Token, Token, Token]
    reifier: Token | None
    is_term: bool
    is_statement: bool = False


@dataclass(frozen=True, slots=True)
class Annotation:
    """What stands behind a triple: `~ r`, with `{|` (`is_block`) or without it, or `{|` alone."""

    reifier: Token | None
    is_block: bool


_BASE: Final = (
    "A-Za-z\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u02ff\u0370-\u037d\u037f-\u1fff\u200c-\u200d\u2070-\u218f\u2c00-\u2fef\u3001-\ud7ff"
    "\uf900-\ufdcf\ufdf0-\ufffd\U00010000-\U000effff"
)
_CHARS: Final = rf"{_BASE}_0-9\-\u00b7\u0300-\u036f\u203f-\u2040"
_NAME: Final = rf"[{_BASE}_0-9][{_BASE}_0-9\u00b7\u0300-\u036f\u203f-\u2040]*"
_PREFIX: Final = rf"(?:[{_BASE}](?:[{_CHARS}.]*[{_CHARS}])?)?"
_ESCAPED: Final = r"%[0-9A-Fa-f]{2}|\\[_~.\-!$&'()*+,;=/?#@%]"
_LOCAL: Final = rf"(?:(?:[{_BASE}_:0-9]|{_ESCAPED})(?:(?:[{_CHARS}.:]|{_ESCAPED})*(?:[{_CHARS}:]|{_ESCAPED}))?)?"
_IRIREF: Final = r"<(?:[^<>\"{}|^`\\\x00-\x20]|\\u[0-9A-Fa-f]{4}|\\U[0-9A-Fa-f]{8})*>"
_ESCAPE: Final = r"\\(?:[tbnrf\\\"']|u[0-9A-Fa-f]{4}|U[0-9A-Fa-f]{8})"
_LEXER: Final = re.compile(
    rf"""(?P<skip>[\ \t\r\n]+|\#[^\r\n]*)
    |(?P<string>\"\"\"(?:\"{{0,2}}(?:[^\"\\]|{_ESCAPE}))*\"\"\"|'''(?:'{{0,2}}(?:[^'\\]|{_ESCAPE}))*'''
        |\"(?:[^\"\\\r\n]|{_ESCAPE})*\"|'(?:[^'\\\r\n]|{_ESCAPE})*')
    |(?P<quote><<\(|<(?!{_IRIREF})<|\)>>|>>|\{{\||\|\}}|~)
    |(?P<iri>{_IRIREF})
    |(?P<blank>_:[{_BASE}_0-9](?:[{_CHARS}.]*[{_CHARS}])?)
    |(?P<pname>{_PREFIX}:{_LOCAL})
    |(?P<variable>[?$]{_NAME})
    |(?P<number>(?:[0-9]+\.[0-9]*|\.[0-9]+|[0-9]+)[eE][+-]?[0-9]+|[0-9]*\.[0-9]+|[0-9]+)
    |(?P<word>[{_BASE}_][{_BASE}_0-9]*)
    |(?P<tag>@[a-zA-Z]+(?:-[a-zA-Z0-9]+)*)
    |(?P<mark>\^\^|&&|\|\||!=|<=|>=|[{{}}()\[\];,.=<>!|/^*+?\-])""",
    re.VERBOSE,
)
_ANY_STRING: Final = re.compile(
    r"\"{3}(?:\"{0,2}(?:[^\"\\]|\\.))*\"{3}|'{3}(?:'{0,2}(?:[^'\\]|\\.))*'{3}|\"(?:[^\"\\\r\n]|\\.)*\"|'(?:[^'\\\r\n]|\\.)*'", re.DOTALL
)
"""A string with any escapes."""
_LOCAL_ESCAPE: Final = re.compile(r"\\([_~.\-!$&'()*+,;=/?#@%])")
_ABSOLUTE: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.\-]*:")
_MAX_OPEN_BRACKETS: Final = 150
_CLOSING: Final = {"(": ")", "[": "]", "{": "}", "<<(": ")>>", "<<": ">>", "{|": "|}"}


@dataclass(frozen=True, slots=True)
class _Lexeme:
    group: str
    text: str
    start: int
    end: int


@dataclass(slots=True)
class TokenScan:
    """The tokens of one text after its prologue, and every problem met on the way."""

    span: Span
    prefixes: dict[str, str]
    base: str
    tokens: list[Token]
    problems: list[Diagnostic]

    def span_at(self, start: int, end: int) -> Span:
        return Span(self.span.document, start, end)

    def report(self, code: str, message: str, start: int, end: int, hint: str = "") -> None:
        self.problems.append(Diagnostic(code, message, self.span_at(start, end), hint))


def scan(span: Span, prefixes: Mapping[str, str]) -> TokenScan:
    """Read the tokens of a text; its own PREFIX and BASE declarations come first and win over `prefixes`."""
    result = TokenScan(span, dict(prefixes), "", [], [])
    raw = list(_lex(result))
    position = _read_prologue(result, raw)
    while position < len(raw):
        position = _read_token(result, raw, position)
    _check_brackets(result)
    return result


def _lex(result: TokenScan) -> Iterator[_Lexeme]:
    text, position, end = result.span.document.text, result.span.start, result.span.end
    while position < end:
        match = _LEXER.match(text, position, end)
        if match is None:
            if (closed := _ANY_STRING.match(text, position, end)) and (wrong := invalid_escape(closed[0])):
                start = position + wrong.start()
                result.report("Q101", f"{wrong[0]} is no escape", start, start + len(wrong[0]), ESCAPE_HINT)
                position = closed.end()
                continue
            if text[position] in "\"'":
                result.report("Q102", "a string that is never closed", position, min(_line_end(text, position), end), _STRING_HINT)
                return
            result.report("Q101", f"unexpected character {text[position]}", position, position + 1)
            position += 1
            continue
        if match.lastgroup in ("string", "iri") and (wrong := invalid_escape(match[0])):
            start = position + wrong.start()
            result.report("Q101", f"{wrong[0]} is no escape", start, start + len(wrong[0]), ESCAPE_HINT)
        elif match.lastgroup != "skip":
            yield _Lexeme(match.lastgroup or "", match[0], match.start(), match.end())
        position = match.end()


_STRING_HINT: Final = (
    'Close it with the quote it began with; a string over several lines needs three quotes; escapes are \\t \\n \\" \\\\ \\uXXXX.'
)


def _line_end(text: str, position: int) -> int:
    newline = text.find("\n", position)
    return len(text) if newline < 0 else newline


def _read_prologue(result: TokenScan, raw: list[_Lexeme]) -> int:
    position = 0
    while position < len(raw) and raw[position].group == "word":
        word, rest = raw[position].text.upper(), raw[position + 1 : position + 3]
        if word == "PREFIX" and [r.group for r in rest] == ["pname", "iri"] and rest[0].text.endswith(":"):
            result.prefixes[rest[0].text[:-1]] = _resolve(result, rest[1])
            position += 3
        elif word == "BASE" and rest and rest[0].group == "iri":
            result.base = _resolve(result, rest[0])
            position += 2
        else:
            break
    return position


def _read_token(result: TokenScan, raw: list[_Lexeme], position: int) -> int:
    """Read the token that begins at a raw token; the position after it."""
    this = raw[position]
    following = raw[position + 1] if position + 1 < len(raw) else _Lexeme("", "", this.end, this.end)
    third = raw[position + 2] if position + 2 < len(raw) else _Lexeme("", "", this.end, this.end)
    append = result.tokens.append
    span = result.span_at(this.start, this.end)
    match this.group:
        case "word":
            return position + _read_word(result, raw, position)
        case "string":
            width = 3 if this.text[:3] in ('"""', "'''") and len(this.text) >= 6 else 1
            lexical, datatype, language, taken = unescaped(this.text[width:-width]), XSD + "string", "", 1
            if following.group == "tag":
                language, taken = following.text[1:], 2
            elif following.text == "^^" and third.group in ("iri", "pname"):
                datatype, taken = _resolve(result, third), 3
            whole = result.span_at(this.start, raw[position + taken - 1].end)
            append(Token(SparqlTokenKind.LITERAL, whole.text, whole, Const(literal(lexical, datatype, language))))
            return position + taken
        case "number":
            append(Token(SparqlTokenKind.NUMBER, this.text, span, Const(_number(this.text))))
        case "mark" if this.text in "+-" and following.group == "number" and following.start == this.end:
            whole = result.span_at(this.start, following.end)
            append(Token(SparqlTokenKind.NUMBER, following.text, whole, Const(_number(following.text)), sign=this.text))
            return position + 2
        case "mark" if this.text == "^" and _in_negated_set(result.tokens):
            if following.group in ("iri", "pname") or following.text == "a":
                name = XSD if following.text == "a" else _resolve(result, following)
                name = _RDF_TYPE if following.text == "a" else name
                append(Token(SparqlTokenKind.INVERSE, following.text, result.span_at(this.start, following.end), Const(iri(name))))
                return position + 2
            append(Token(SparqlTokenKind.MARK, this.text, span))
        case "iri" | "pname":
            append(Token(SparqlTokenKind.IRI, this.text, span, Const(iri(_resolve(result, this)))))
        case "blank":
            append(Token(SparqlTokenKind.BLANK, this.text, span, Var(this.text)))
        case "variable":
            append(Token(SparqlTokenKind.VARIABLE, this.text, span, Var(this.text[1:])))
        case "tag":
            result.report("Q101", f"{this.text} without a string before it", this.start, this.end)
        case _:
            append(Token(SparqlTokenKind.MARK, this.text, span))
    return position + 1


_RDF_TYPE: Final = "http://www.w3.org/1999/02/22-rdf-syntax-ns#type"


def _read_word(result: TokenScan, raw: list[_Lexeme], position: int) -> int:
    """A keyword, `true`, `M.?v` or `time(L)`; how many raw tokens it took."""
    this = raw[position]
    texts = [r.text for r in raw[position + 1 : position + 4]]
    groups = [r.group for r in raw[position + 1 : position + 4]]
    lower = this.text.lower()
    if lower in ("true", "false"):
        token = Token(SparqlTokenKind.LITERAL, this.text, result.span_at(this.start, this.end), Const(literal(lower, XSD + "boolean")))
        result.tokens.append(token)
        return 1
    if texts[:1] == ["."] and groups[1:2] == ["variable"]:
        whole = result.span_at(this.start, raw[position + 2].end)
        result.tokens.append(Token(SparqlTokenKind.REFERENCE, whole.text, whole, Attribute(this.text, texts[1][1:])))
        return 3
    if lower == "time" and texts[::2] == ["(", ")"] and groups[1] == "word":
        whole = result.span_at(this.start, raw[position + 3].end)
        result.tokens.append(Token(SparqlTokenKind.REFERENCE, whole.text, whole, TimeOf(texts[1])))
        return 4
    upper = this.text.upper()
    if upper in REFUSED_KEYWORDS:
        code, reason, hint = REFUSED_KEYWORDS[upper]
        if not (upper == "NAMED" and result.tokens and result.tokens[-1].text.upper() == "FROM"):
            result.report(code, reason, this.start, this.end, hint)
    elif upper not in KEYWORDS and this.text != "a":
        third = raw[position + 2] if texts[:1] == ["."] and groups[1:2] == ["word"] else None
        if third is not None and third.start == this.end + 1:
            hint = f"An attribute of another event has a question mark: {this.text}.?{third.text}"
            result.report("Q103", f"unknown word {this.text}.{third.text}", this.start, third.end, hint)
            return 3
        result.report("Q103", f"unknown word {this.text}", this.start, this.end, _word_hint(upper))
    result.tokens.append(Token(SparqlTokenKind.WORD, this.text, result.span_at(this.start, this.end)))
    return 1


def _word_hint(upper: str) -> str:
    if upper in _SYMBOLS:
        return f"Write {_SYMBOLS[upper]}."
    around = did_you_mean(upper.lower(), _RULE_KEYWORDS)
    return (
        around
        or did_you_mean(upper, sorted(KEYWORDS))
        or "Variables begin with ?, names need a prefix (:name) or angle brackets, text needs quotes."
    )


_SYMBOLS: Final = {"AND": "&&", "OR": "||"}
_RULE_KEYWORDS: Final = ("consuming", "with", "within")
"""Words of the rule around an expression, which may have been meant to end it."""


def _number(text: str) -> str:
    name = "double" if "e" in text.lower() else "decimal" if "." in text else "integer"
    return literal(text, XSD + name)


def _in_negated_set(tokens: list[Token]) -> bool:
    """Whether what comes next is an element of `!x` or `!(x|y)`."""
    for token in reversed(tokens):
        if token.text == "!":
            return True
        if token.kind not in (SparqlTokenKind.IRI, SparqlTokenKind.INVERSE) and token.text not in ("a", "|", "("):
            return False
        if token.kind in (SparqlTokenKind.IRI, SparqlTokenKind.INVERSE) and token is tokens[-1]:
            return False
    return False


def _resolve(result: TokenScan, raw: _Lexeme) -> str:
    """The absolute IRI of an IRI reference or a prefixed name."""
    if raw.group == "iri":
        name = unescaped(raw.text[1:-1])
        if _ABSOLUTE.match(name):
            return name
        if result.base:
            if name[:1] == "#":
                return result.base.partition("#")[0] + name
            try:
                return urljoin(result.base, name)
            except ValueError as error:
                result.report("Q105", f"{raw.text} is no IRI: {error}", raw.start, raw.end)
                return "relative:" + name
        hint = "Not equal is written !=." if raw.text == "<>" else "Write it in full, or declare a BASE in the query."
        result.report("Q105", f"{raw.text} is a relative IRI", raw.start, raw.end, hint)
        return "relative:" + name
    prefix, local = raw.text.split(":", 1)
    if prefix not in result.prefixes:
        known = ", ".join(sorted(f"{p}:" for p in result.prefixes)) or "none"
        declare = f"Declare it: PREFIX {prefix}: <{WELL_KNOWN[prefix]}>" if prefix in WELL_KNOWN else "Declare it with PREFIX."
        hint = did_you_mean(prefix, sorted(result.prefixes)) or f"{declare} Declared: {known}."
        result.report("Q104", f"unknown prefix {prefix}:", raw.start, raw.start + len(prefix) + 1, hint)
        return f"unknown:{raw.text}"
    return result.prefixes[prefix] + _LOCAL_ESCAPE.sub(r"\1", local)


def _check_brackets(result: TokenScan) -> None:
    """Report the first bracket without its partner."""
    open_: list[Token] = []
    for token in result.tokens:
        if token.kind is not SparqlTokenKind.MARK:
            continue
        if token.text in _CLOSING:
            open_.append(token)
            if len(open_) > _MAX_OPEN_BRACKETS:
                hint = "Split it into several conditions or sub-queries."
                result.problems.append(Diagnostic("Q117", f"more than {_MAX_OPEN_BRACKETS} brackets are open here", token.span, hint))
                return
        elif token.text in _CLOSING.values():
            if not open_ or _CLOSING[open_[-1].text] != token.text:
                opened = f"; the {open_[-1].text} of line {open_[-1].span.line_column[0]} is open" if open_ else ""
                result.problems.append(Diagnostic("Q102", f"{token.text} closes nothing{opened}", token.span))
                return
            open_.pop()
    if open_:
        result.problems.append(
            Diagnostic("Q102", f"{open_[-1].text} is never closed", open_[-1].span, f"Add a {_CLOSING[open_[-1].text]}.")
        )


def placeholder_text(tokens: list[Token]) -> tuple[str, list[int]]:
    """The text for rdflib's grammar, and the offset in it at which each token starts.

    >>> from dotr.model.places import Document
    >>> text = 'SELECT ?x { ?x :p "025"^^:t, -4 FILTER(?x = Smoke.?y) }'
    >>> placeholder_text(scan(Span(Document("", text), 0, len(text)), {"": "http://e/"}).tokens)[0]
    ' SELECT ?t1 { ?t3 <t4> "5" , -7 FILTER ( ?t10 = ?t12 ) }'
    """
    parts: list[str] = []
    starts: list[int] = []
    length = 0
    for number, token in enumerate(tokens):
        match token.kind:
            case SparqlTokenKind.WORD if token.text.upper() in TRIPLE_FUNCTIONS:
                text = f" <t{number}>"
            case SparqlTokenKind.WORD:
                text = f" {token.text}"
            case SparqlTokenKind.QUOTED:
                alone = isinstance(token.value, Quoted) and token.value.is_statement
                text = f" <t{number}> a <t{number}>" if alone else f" <t{number}>"
            case SparqlTokenKind.ANNOTATION:
                block = isinstance(token.value, Annotation) and token.value.is_block
                text = f" , [ <t{number}> <t{number}>{' ;' if block else ' ]'}"
            case SparqlTokenKind.MARK if token.text == "|}":
                text = " ]"
            case SparqlTokenKind.MARK:
                # A path's `*`, `+` and `?` must touch what they repeat.
                text = token.text if token.text in ("*", "+", "?") else f" {token.text}"
            case SparqlTokenKind.IRI | SparqlTokenKind.INVERSE:
                text = f" <t{number}>"
            case SparqlTokenKind.LITERAL:
                text = f' "{number}"'
            case SparqlTokenKind.NUMBER:
                text = f" {token.sign}{number}"
            case SparqlTokenKind.BLANK:
                text = f" _:t{number}"
            case SparqlTokenKind.VARIABLE | SparqlTokenKind.REFERENCE:
                text = f" ?t{number}"
        starts.append(length + (text[0] == " "))
        parts.append(text)
        length += len(text)
    return "".join(parts), starts
