"""Tokens of a SPARQL text with their spans, and the placeholder text for rdflib's grammar.

Idea: rdflib's parser has the grammar but drops positions, rewrites literals (`"025"` becomes `25`)
and does not accept `M.?v`. So every terminal (IRI, prefixed name, literal, number, variable, blank
node label, `M.?v`, `time(L)`) is tokenized here and replaced by a placeholder of the same syntactic
kind with the number of its token: `<t12>`, `"12"`, `12`, `?t12`, `_:t12`. The leaves of the
resulting tree are token numbers, from which terms and spans are exact, and all queries of one shape
have one tree. Constructs of SPARQL 1.2 are merged into one token first (`quoted_triples.py`).
Source: SPARQL 1.1, section 19.8 (terminals).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from enum import Enum, auto
from functools import cache
from itertools import accumulate
from typing import Final
from urllib.parse import urljoin

from dotr.errors.diagnostics import Diagnostic, did_you_mean
from dotr.evaluation.expressions.functions import ELAPSED
from dotr.model import dataclass
from dotr.model.algebra import Attribute, Const, TimeOf, Var
from dotr.model.places import Span
from dotr.model.terms import ESCAPE_HINT, WELL_KNOWN, XSD, invalid_escape, iri, literal, unescaped
from dotr.syntax.lexemes import DIRECTION_HINT, LANGUAGE, LONG_STRING, STRING, TYPOGRAPHIC, quotes_hint, wrong_direction
from dotr.syntax.names import NameCharacters, name_characters
from dotr.syntax.sparql.keywords import SELECT_QUERIES, SPARQL_12_FUNCTIONS, Dialect


class SparqlTokenKind(Enum):
    """Kind of a token."""

    WORD = auto()
    MARK = auto()
    IRI = auto()
    INVERSE = auto()  # `^iri` inside a negated property set, whose IRI rdflib drops
    LITERAL = auto()
    NUMBER = auto()
    BLANK = auto()
    VARIABLE = auto()
    REFERENCE = auto()
    QUOTED = auto()
    ANNOTATION = auto()
    MATCH = auto()


@dataclass(frozen=True, slots=True)
class Token:
    """A token of a SPARQL text.

    - `value`: the denoted term, reference or construct; None for words and marks.
    - `sign`: `+` or `-` of a number, or empty.
    """

    kind: SparqlTokenKind
    text: str
    span: Span
    value: Const | Var | Attribute | TimeOf | Quoted | Annotation | MatchTokens | None = None
    sign: str = ""


@dataclass(frozen=True, slots=True)
class Quoted:
    """A triple term `<<( s p o )>>` (`is_term`), or a reified triple `<< s p o ~ r >>`.

    `is_statement`: the reified triple forms a whole statement.
    """

    parts: tuple[Token, Token, Token]
    reifier: Token | None
    is_term: bool
    is_statement: bool = False


@dataclass(frozen=True, slots=True)
class Annotation:
    """The mark of an annotation after a triple: `~ r`, `~ r {|` or `{|`.

    `is_block`: the mark ends with `{|`.
    """

    reifier: Token | None
    is_block: bool


@dataclass(frozen=True, slots=True)
class MatchTokens:
    """`MATCH { … }` of a continuous query, with the tokens between its braces."""

    is_consuming: bool
    tokens: tuple[Token, ...]


_ESCAPED: Final = r"%[0-9A-Fa-f]{2}|\\[_~.\-!$&'()*+,;=/?#@%]"
_IRIREF: Final = r"<(?:[^<>\"{}|^`\\\x00-\x20]|\\u[0-9A-Fa-f]{4}|\\U[0-9A-Fa-f]{8})*>"
_ESCAPE: Final = r"\\(?:[tbnrf\\\"']|u[0-9A-Fa-f]{4}|U[0-9A-Fa-f]{8})"


@cache
def _lexer(characters: NameCharacters) -> re.Pattern[str]:
    """The pattern of a lexeme; `characters`: those of names in the text.

    `<<:a :b :c>>` begins with the quote `<<`, but `?x <<http://e/a>` has the mark `<` before an
    IRI.
    """
    letters, marks = characters
    chars = rf"{letters}_0-9\-{marks}"
    name = rf"[{letters}_0-9][{letters}_0-9{marks}]*"
    prefix = rf"(?:[{letters}](?:[{chars}.]*[{chars}])?)?"
    local = rf"(?:(?:[{letters}_:0-9]|{_ESCAPED})(?:(?:[{chars}.:]|{_ESCAPED})*(?:[{chars}:]|{_ESCAPED}))?)?"
    return re.compile(
        rf"""(?P<skip>[\ \t\r\n]+|\#[^\r\n]*)
    |(?P<string>\"\"\"(?:\"{{0,2}}(?:[^\"\\]|{_ESCAPE}))*\"\"\"|'''(?:'{{0,2}}(?:[^'\\]|{_ESCAPE}))*'''
        |\"(?:[^\"\\\r\n]|{_ESCAPE})*\"|'(?:[^'\\\r\n]|{_ESCAPE})*')
    |(?P<quote><<\(|<(?!{_IRIREF})<|\)>>|>>|\{{\||\|\}}|~)
    |(?P<iri>{_IRIREF})
    |(?P<blank>_:[{letters}_0-9](?:[{chars}.]*[{chars}])?)
    |(?P<pname>{prefix}:{local})
    |(?P<variable>[?$]{name})
    |(?P<number>(?:[0-9]+\.[0-9]*|\.[0-9]+|[0-9]+)[eE][+-]?[0-9]+|[0-9]*\.[0-9]+|[0-9]+)
    |(?P<word>[{letters}_][{letters}_0-9]*)
    |(?P<tag>@{LANGUAGE})
    |(?P<mark>\^\^|&&|\|\||!=|<=|>=|[{{}}()\[\];,.=<>!|/^*+?\-])""",
        re.VERBOSE,
    )


_ANY_STRING: Final = re.compile(f"{LONG_STRING}|{STRING}", re.DOTALL)
"""A string with valid or invalid escapes."""
_LOCAL_ESCAPE: Final = re.compile(r"\\([_~.\-!$&'()*+,;=/?#@%])")
_ABSOLUTE: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.\-]*:")
MAX_OPEN_BRACKETS: Final = 150
"""Maximal number of brackets that are open at once."""
_CLOSING: Final = {"(": ")", "[": "]", "{": "}", "<<(": ")>>", "<<": ">>", "{|": "|}"}


@dataclass(frozen=True, slots=True)
class Lexeme:
    """A match of the lexer: its group, text and offsets."""

    group: str
    text: str
    start: int
    end: int


@dataclass(slots=True)
class TokenScan:
    """The tokens of one text after its prologue, and the problems of scanning."""

    span: Span
    prefixes: dict[str, str]
    base: str
    tokens: list[Token]
    problems: list[Diagnostic]
    dialect: Dialect = SELECT_QUERIES

    def span_at(self, start: int, end: int) -> Span:
        """Return a span of the scanned document."""
        return Span(self.span.document, start, end)

    def report(self, code: str, message: str, start: int, end: int, hint: str = "") -> None:
        """Report an error."""
        self.problems.append(Diagnostic(code, message, self.span_at(start, end), hint))


def scan(span: Span, prefixes: Mapping[str, str], dialect: Dialect = SELECT_QUERIES, base: str = "") -> TokenScan:
    """Return the tokens of a span.

    Its PREFIX and BASE declarations override `prefixes` and `base`.
    """
    result = TokenScan(span, dict(prefixes), base, [], [], dialect)
    lexemes = list(lex(result))
    position = read_prologue(result, lexemes)
    while position < len(lexemes):
        position = _read_token(result, lexemes, position)
    _check_brackets(result)
    return result


def lex(result: TokenScan) -> Iterator[Lexeme]:
    """Yield the lexemes of a text, without white space and comments; report invalid ones."""
    text, position, end = result.span.document.text, result.span.start, result.span.end
    lexer = _lexer(name_characters(text))
    while position < end:
        match = lexer.match(text, position, end)
        if match is None:
            if (closed := _ANY_STRING.match(text, position, end)) and (wrong := invalid_escape(closed[0])):
                start = position + wrong.start()
                result.report("Q101", f"{wrong[0]} is no escape", start, start + len(wrong[0]), ESCAPE_HINT)
                position = closed.end()
                continue
            if text[position] in "\"'":
                result.report("Q102", "a string that is never closed", position, min(_line_end(text, position), end), _STRING_HINT)
                return
            quoted = TYPOGRAPHIC.match(text, position, end)  # “warm” is reported at once, and not as a name between two characters
            after = quoted.end() if quoted else position + 1
            result.report("Q101", f"unexpected character {text[position]}", position, after, quotes_hint(text[position:after]))
            position = after
            continue
        if match.lastgroup in ("string", "iri") and (wrong := invalid_escape(match[0])):
            start = position + wrong.start()
            result.report("Q101", f"{wrong[0]} is no escape", start, start + len(wrong[0]), ESCAPE_HINT)
        elif match.lastgroup != "skip":
            yield Lexeme(match.lastgroup or "", match[0], match.start(), match.end())
        position = match.end()


_STRING_HINT: Final = (
    'Close it with the quote it began with; a string over several lines needs three quotes; escapes are \\t \\n \\" \\\\ \\uXXXX.'
)


def _line_end(text: str, position: int) -> int:
    newline = text.find("\n", position)
    return len(text) if newline < 0 else newline


def read_prologue(result: TokenScan, lexemes: list[Lexeme]) -> int:
    """Read PREFIX and BASE declarations into the scan; return the position of the next lexeme."""
    position = 0
    while position < len(lexemes) and lexemes[position].group == "word":
        word, rest = lexemes[position].text.upper(), lexemes[position + 1 : position + 3]
        if word == "PREFIX" and [r.group for r in rest] == ["pname", "iri"] and rest[0].text.endswith(":"):
            result.prefixes[rest[0].text[:-1]] = resolve_name(result, rest[1])
            position += 3
        elif word == "BASE" and rest and rest[0].group == "iri":
            result.base = resolve_name(result, rest[0])
            position += 2
        else:
            break
    return position


def _read_token(result: TokenScan, lexemes: list[Lexeme], position: int) -> int:
    """Append the token that begins at a lexeme; return the position of the next lexeme."""
    lexeme = lexemes[position]
    following = lexemes[position + 1] if position + 1 < len(lexemes) else Lexeme("", "", lexeme.end, lexeme.end)
    third = lexemes[position + 2] if position + 2 < len(lexemes) else Lexeme("", "", lexeme.end, lexeme.end)
    append = result.tokens.append
    span = result.span_at(lexeme.start, lexeme.end)
    match lexeme.group:
        case "word":
            return position + _read_word(result, lexemes, position)
        case "string":
            width = 3 if lexeme.text[:3] in ('"""', "'''") and len(lexeme.text) >= 6 else 1
            lexical, datatype, language, length = unescaped(lexeme.text[width:-width]), XSD + "string", "", 1
            if following.group == "tag":
                language, length = following.text[1:], 2
                if wrong := wrong_direction(following.text):
                    result.report("Q101", f"{wrong} is no base direction", following.start, following.end, DIRECTION_HINT)
            elif following.text == "^^" and third.group in ("iri", "pname"):
                datatype, length = resolve_name(result, third), 3
            full_span = result.span_at(lexeme.start, lexemes[position + length - 1].end)
            append(Token(SparqlTokenKind.LITERAL, full_span.text, full_span, Const(literal(lexical, datatype, language))))
            return position + length
        case "number":
            append(Token(SparqlTokenKind.NUMBER, lexeme.text, span, Const(_number(lexeme.text))))
        case "mark" if lexeme.text in "+-" and following.group == "number" and following.start == lexeme.end:
            full_span = result.span_at(lexeme.start, following.end)
            append(Token(SparqlTokenKind.NUMBER, following.text, full_span, Const(_number(following.text)), sign=lexeme.text))
            return position + 2
        case "mark" if lexeme.text == "^" and _in_negated_set(result.tokens):
            if following.group in ("iri", "pname") or following.text == "a":
                name = XSD if following.text == "a" else resolve_name(result, following)
                name = _RDF_TYPE if following.text == "a" else name
                append(Token(SparqlTokenKind.INVERSE, following.text, result.span_at(lexeme.start, following.end), Const(iri(name))))
                return position + 2
            append(Token(SparqlTokenKind.MARK, lexeme.text, span))
        case "iri" | "pname":
            is_name = bool(result.tokens) and result.tokens[-1].text.upper() in result.dialect.names_after
            append(Token(SparqlTokenKind.IRI, lexeme.text, span, Const(iri(resolve_name(result, lexeme, is_name=is_name)))))
        case "blank":
            append(Token(SparqlTokenKind.BLANK, lexeme.text, span, Var(lexeme.text)))
        case "variable":
            append(Token(SparqlTokenKind.VARIABLE, lexeme.text, span, Var(lexeme.text[1:])))
        case "tag":
            result.report("Q101", f"{lexeme.text} without a string before it", lexeme.start, lexeme.end)
        case _:
            append(Token(SparqlTokenKind.MARK, lexeme.text, span))
    return position + 1


_RDF_TYPE: Final = "http://www.w3.org/1999/02/22-rdf-syntax-ns#type"


def _read_word(result: TokenScan, lexemes: list[Lexeme], position: int) -> int:
    """Append the token of a keyword, `true`, `M.?v` or `time(L)`; return its number of lexemes."""
    lexeme = lexemes[position]
    texts = [r.text for r in lexemes[position + 1 : position + 4]]
    groups = [r.group for r in lexemes[position + 1 : position + 4]]
    lower = lexeme.text.lower()
    if lower in ("true", "false"):
        token = Token(
            SparqlTokenKind.LITERAL, lexeme.text, result.span_at(lexeme.start, lexeme.end), Const(literal(lower, XSD + "boolean"))
        )
        result.tokens.append(token)
        return 1
    has_references = result.dialect.has_references
    if has_references and texts[:1] == ["."] and groups[1:2] == ["variable"]:
        full_span = result.span_at(lexeme.start, lexemes[position + 2].end)
        result.tokens.append(Token(SparqlTokenKind.REFERENCE, full_span.text, full_span, Attribute(lexeme.text, texts[1][1:])))
        return 3
    if has_references and lower == "time" and texts[::2] == ["(", ")"] and groups[1] == "word":
        full_span = result.span_at(lexeme.start, lexemes[position + 3].end)
        result.tokens.append(Token(SparqlTokenKind.REFERENCE, full_span.text, full_span, TimeOf(texts[1])))
        return 4
    if has_references and lower == "elapsed" and texts[:1] == ["("]:
        return _read_elapsed(result, lexemes[position:])
    upper = lexeme.text.upper()
    if upper in result.dialect.refused:
        code, reason, hint = result.dialect.refused[upper]
        if not (upper == "NAMED" and result.tokens and result.tokens[-1].text.upper() == "FROM"):
            result.report(code, reason, lexeme.start, lexeme.end, hint)
    elif upper not in result.dialect.keywords and lexeme.text != "a":
        third = lexemes[position + 2] if has_references and texts[:1] == ["."] and groups[1:2] == ["word"] else None
        if third is not None and third.start == lexeme.end + 1:
            hint = f"An attribute of another event has a question mark: {lexeme.text}.?{third.text}"
            result.report("Q103", f"unknown word {lexeme.text}.{third.text}", lexeme.start, third.end, hint)
            return 3
        result.report("Q103", f"unknown word {lexeme.text}", lexeme.start, lexeme.end, _word_hint(upper, result.dialect))
    result.tokens.append(Token(SparqlTokenKind.WORD, lexeme.text, result.span_at(lexeme.start, lexeme.end)))
    return 1


def _read_elapsed(result: TokenScan, lexemes: Sequence[Lexeme]) -> int:
    """Append the tokens of `elapsed(A, B)`, those of the function of `time(A)` and `time(B)`, or
    report other arguments (D235); return the number of lexemes."""
    marks, labels = [each.text for each in lexemes[1:6:2]], [each.group for each in lexemes[2:6:2]]
    if marks != ["(", ",", ")"] or labels != ["word", "word"]:
        depths = accumulate((each.text == "(") - (each.text == ")") for each in lexemes[1:])
        length = next((number for number, depth in enumerate(depths, 2) if not depth), len(lexemes))
        start, end = lexemes[0].start, lexemes[length - 1].end
        hint = "elapsed(A, B) is the number of seconds from the event A to the event B; of values, subtract one from the other."
        result.report("D235", "elapsed takes two labels of the rule", start, end, hint)
        result.tokens.append(Token(SparqlTokenKind.LITERAL, "elapsed", result.span_at(start, end), Const(literal("0", XSD + "decimal"))))
        return length
    for each in lexemes[:6]:
        span = result.span_at(each.start, each.end)
        if each is lexemes[0]:
            result.tokens.append(Token(SparqlTokenKind.IRI, each.text, span, Const(ELAPSED)))
        elif each.group == "word":
            result.tokens.append(Token(SparqlTokenKind.REFERENCE, each.text, span, TimeOf(each.text)))
        else:
            result.tokens.append(Token(SparqlTokenKind.MARK, each.text, span))
    return 6


def _word_hint(upper: str, dialect: Dialect) -> str:
    if upper in _SYMBOLS:
        return f"Write {_SYMBOLS[upper]}."
    rule_hint = did_you_mean(upper.lower(), _RULE_KEYWORDS) if dialect.has_references else ""
    return (
        rule_hint
        or did_you_mean(upper, sorted(dialect.keywords))
        or "Variables begin with ?, names need a prefix (:name) or angle brackets, text needs quotes."
    )


_SYMBOLS: Final = {"AND": "&&", "OR": "||"}
_RULE_KEYWORDS: Final = ("consuming", "with", "within")
"""Keywords of the rule language that may follow an expression."""


def _number(text: str) -> str:
    name = "double" if "e" in text.lower() else "decimal" if "." in text else "integer"
    return literal(text, XSD + name)


def _in_negated_set(tokens: list[Token]) -> bool:
    """Return whether the next token is an element of `!x` or `!(x|y)`."""
    for token in reversed(tokens):
        if token.text == "!":
            return True
        if token.kind not in (SparqlTokenKind.IRI, SparqlTokenKind.INVERSE) and token.text not in ("a", "|", "("):
            return False
        if token.kind in (SparqlTokenKind.IRI, SparqlTokenKind.INVERSE) and token is tokens[-1]:
            return False
    return False


def resolve_name(result: TokenScan, lexeme: Lexeme, *, is_name: bool = False) -> str:
    """Return the absolute IRI of an IRI reference or a prefixed name; problems are reported.

    `is_name`: a relative reference without a base is a plain name, which is returned unchanged.
    """
    if lexeme.group == "iri":
        name = unescaped(lexeme.text[1:-1])
        if _ABSOLUTE.match(name):
            return name
        if result.base:
            if name[:1] == "#":
                return result.base.partition("#")[0] + name
            try:
                return urljoin(result.base, name)
            except ValueError as error:
                result.report("Q105", f"{lexeme.text} is no IRI: {error}", lexeme.start, lexeme.end)
                return "relative:" + name
        if is_name:
            return name
        hint = "Not equal is written !=." if lexeme.text == "<>" else "Write it in full, or declare a BASE in the query."
        result.report("Q105", f"{lexeme.text} is a relative IRI", lexeme.start, lexeme.end, hint)
        return "relative:" + name
    prefix, local = lexeme.text.split(":", 1)
    if prefix not in result.prefixes:
        known = ", ".join(sorted(f"{p}:" for p in result.prefixes)) or "none"
        declare = f"Declare it: PREFIX {prefix}: <{WELL_KNOWN[prefix]}>" if prefix in WELL_KNOWN else "Declare it with PREFIX."
        hint = did_you_mean(prefix, sorted(result.prefixes)) or f"{declare} Declared: {known}."
        result.report("Q104", f"unknown prefix {prefix}:", lexeme.start, lexeme.start + len(prefix) + 1, hint)
        return f"unknown:{lexeme.text}"
    return result.prefixes[prefix] + _LOCAL_ESCAPE.sub(r"\1", local)


def _check_brackets(result: TokenScan) -> None:
    """Report the first bracket without a partner."""
    open_: list[Token] = []
    for token in result.tokens:
        if token.kind is not SparqlTokenKind.MARK:
            continue
        if token.text in _CLOSING:
            open_.append(token)
            if len(open_) > MAX_OPEN_BRACKETS:
                hint = "Split it into several conditions or sub-queries."
                result.problems.append(Diagnostic("Q117", f"more than {MAX_OPEN_BRACKETS} brackets are open here", token.span, hint))
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
    """Return the text for rdflib's grammar, and the offset of each token in it.

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
            case SparqlTokenKind.WORD if token.text.upper() in SPARQL_12_FUNCTIONS:
                text = f" <t{number}>"
            case SparqlTokenKind.WORD if token.text.upper() == "WINDOW":
                text = " GRAPH"
            case SparqlTokenKind.WORD:
                text = f" {token.text}"
            case SparqlTokenKind.MATCH:
                text = f" GRAPH <t{number}> {{}}"
            case SparqlTokenKind.QUOTED:
                alone = isinstance(token.value, Quoted) and token.value.is_statement
                text = f" <t{number}> a <t{number}>" if alone else f" <t{number}>"
            case SparqlTokenKind.ANNOTATION:
                block = isinstance(token.value, Annotation) and token.value.is_block
                text = f" , [ <t{number}> <t{number}>{' ;' if block else ' ]'}"
            case SparqlTokenKind.MARK if token.text == "|}":
                text = " ]"
            case SparqlTokenKind.MARK:
                # No space is allowed before `*`, `+` and `?` of a path.
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
