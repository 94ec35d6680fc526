"""Terms of a template: IRIs, literals, variables, cells and fresh names.

IRIs are validated by pyoxigraph. An error inside a term is collected; a syntax error ends the
parsing.
Source: W3C Turtle 1.1, section 6.5.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from functools import cache
from typing import Final, NamedTuple, NoReturn

from pyoxigraph import NamedNode, RdfFormat, parse

from dotr.errors.diagnostics import Diagnostic, DotrError, did_you_mean
from dotr.model.algebra import Const, Var
from dotr.model.places import Span
from dotr.model.templates import Blank, Cell, CellIri, CellLiteral, Fresh, TemplateSlot
from dotr.model.terms import LANGUAGE_STRINGS, RDF, WELL_KNOWN, XSD, Prefixes, iri, literal, unescaped
from dotr.syntax import lexemes
from dotr.syntax.lexemes import DIRECTION_HINT, quotes_hint, wrong_direction
from dotr.syntax.names import NameCharacters, name_characters

# Terminals of Turtle as regular expressions, with `{column}` in names, IRIs and strings.
#
# Terminals accept cells everywhere; the parser reports a cell where none is allowed.
# Source: W3C Turtle 1.1, section 6.5.


_NAME_OF_CELL: Final = r'(?>(?:(?<=[{.])"(?>(?:[^"\\\r\n]|\\[^\r\n])*)"|[^{}\r\n])+)'
"""The name in a cell; a part of it in quotes may have braces: `a."{b}"`. An atomic group, since Python
before 3.11.5 matches a possessive group of alternatives wrongly: `(?:ab|c)++`."""

_CELL: Final = rf"\{{{_NAME_OF_CELL}\}}"
_PLX: Final = r"%[0-9A-Fa-f]{2}|\\[_~.\-!$&'()*+,;=/?#@%]"
_UCHAR: Final = r"\\u[0-9A-Fa-f]{4}|\\U[0-9A-Fa-f]{8}"

SPACE: Final = re.compile(r"(?:[ \t\r\n]|#[^\r\n]*)*")
IRI: Final = re.compile(rf"<((?:[^\x00-\x20<>\"{{}}|^`\\]|{_UCHAR}|{_CELL})*)>")
NUMBER: Final = re.compile(
    r"(?P<double>[+-]?(?:[0-9]+\.[0-9]*|\.?[0-9]+)[eE][+-]?[0-9]+)|(?P<decimal>[+-]?[0-9]*\.[0-9]+)|(?P<integer>[+-]?[0-9]+)"
)
STRING: Final = re.compile(
    r'"""(?P<a>(?:"{0,2}(?:[^"\\]|\\.))*)"""'
    r"|'''(?P<b>(?:'{0,2}(?:[^'\\]|\\.))*)'''"
    r'|"(?P<c>(?:[^"\\\r\n]|\\[^\r\n])*)"'
    r"|'(?P<d>(?:[^'\\\r\n]|\\[^\r\n])*)'",
    re.DOTALL,
)
LANGUAGE: Final = re.compile(f"@({lexemes.LANGUAGE})")
CELL: Final = re.compile(rf"\{{({_NAME_OF_CELL})\}}")
ESCAPE: Final = re.compile(r"\\(?:u(?P<u>[0-9A-Fa-f]{4})|U(?P<U>[0-9A-Fa-f]{8})|(?P<c>[tbnrf\"'\\])|)")
NAME_ESCAPE: Final = re.compile(r"\\(.)")


class NameTokens(NamedTuple):
    """Patterns of names.

    - `prefix`, `local`: the two parts of a prefixed name; the colon belongs to `prefix`.
    - `blank`: a blank node with its `_:`.
    - `variable`: with its question mark.
    """

    prefix: re.Pattern[str]
    local: re.Pattern[str]
    blank: re.Pattern[str]
    variable: re.Pattern[str]
    word: re.Pattern[str]


@cache
def name_tokens(characters: NameCharacters) -> NameTokens:
    """The patterns of names; `characters`: those that names in the text can have."""
    letters, marks = characters
    start = f"{letters}_"
    chars = rf"{start}0-9{marks}\-"
    return NameTokens(
        re.compile(rf"((?:[{letters}](?:[{chars}.]*[{chars}])?)?):"),
        re.compile(rf"(?:(?:[{start}:0-9]|{_PLX}|{_CELL})(?:[{chars}:]|{_PLX}|{_CELL}|\.+(?=[{chars}:]|{_PLX}|{_CELL}))*)?"),
        re.compile(rf"_:([{start}0-9](?:[{chars}.]*[{chars}])?)"),
        re.compile(rf"[?$]([{start}0-9](?:[{start}0-9{marks}])*)"),
        re.compile(rf"[{start}](?:[{chars}])*"),
    )


_FRESH: Final = "dotr_id"
_BRACE: Final = "Write \\u007B for a brace that is text."
_UNEXPECTED: Final = re.compile(r"[^\s.;,\[\](){}\"']+|\S")
_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.\-]*:")


class UnreadableTemplate(DotrError):
    """Raised at a syntax error, after its problem is collected, to end the parsing."""


class TermReader:
    """Cursor over the text of a template, with the declarations before it."""

    def __init__(self, span: Span, prefixes: Prefixes, cells: bool) -> None:
        self._span = span
        self._text = span.document.text
        self._end = span.end
        self._at = span.start
        self._prefixes = dict(prefixes)
        self._cells = cells
        self._base = ""
        self._names = name_tokens(name_characters(self._text))
        self._labels: dict[str, Blank] = {}
        self._problems: list[Diagnostic] = []

    # --- problems ---

    def _problem(self, code: str, message: str, start: int, end: int, hint: str = "") -> None:
        self._problems.append(Diagnostic(code, message, Span(self._span.document, start, max(start, end)), hint))

    def _fail(self, code: str, message: str, start: int, end: int, hint: str = "") -> NoReturn:
        self._problem(code, message, start, end, hint)
        raise UnreadableTemplate

    def _expected(self, expected: str, hint: str = "") -> NoReturn:
        if self._at >= self._end:
            self._fail("T101", f"expected {expected}, but the template ends here", self._end, self._end, hint)
        match = _UNEXPECTED.match(self._text, self._at, self._end)
        end = match.end() if match else self._at + 1
        found = self._text[self._at : end]
        self._fail("T101", f"expected {expected}, found {found}", self._at, end, hint or quotes_hint(self._text[self._at :][:200]))

    # --- text ---

    def _skip_space(self) -> str:
        """Skip white space and comments; return the next character, or `""` at the end."""
        match = SPACE.match(self._text, self._at, self._end)
        assert match is not None
        self._at = match.end()
        return self._text[self._at] if self._at < self._end else ""

    def _match(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        """Consume and return a match at the current position, if any."""
        match = pattern.match(self._text, self._at, self._end)
        if match is not None:
            self._at = match.end()
        return match

    def _word(self) -> str:
        match = self._names.word.match(self._text, self._at, self._end)
        return match[0] if match else ""

    # --- nodes ---

    def _node(self, expected: str) -> TemplateSlot:
        """Parse a term; `expected` names the kind of term in an error message."""
        start = self._at
        character = self._text[start] if start < self._end else ""
        if character == "<":
            return self._iri_reference()
        if character in ("?", "$"):
            return self._variable()
        if character == "{":
            return self._cell()
        if character in ('"', "'"):
            return self._quoted()
        if match := self._match(self._names.blank):
            return self._labels.setdefault(match[1], Blank(match[1]))
        if (match := NUMBER.match(self._text, start, self._end)) is not None:
            self._at = match.end()
            return Const(literal(match[0], XSD + str(match.lastgroup)))
        if (named := self._prefixed()) is not None:
            return named
        word = self._word()
        if word in ("true", "false"):
            self._at += len(word)
            return Const(literal(word, XSD + "boolean"))
        if not word.startswith(_FRESH):
            hint = f"A name needs its prefix: :{word}; a variable its question mark: ?{word}; text its quotes." if word else ""
            self._expected(expected, "`a` is rdf:type as a predicate only." if word == "a" else hint)
        self._at += len(word)
        if self._cells:
            self._problem("T105", f"{word} in a map", start, self._at, "A row has no fresh IRIs: write [] or an IRI with a cell in it.")
        return Fresh(word)

    def _variable(self) -> TemplateSlot:
        start = self._at
        match = self._match(self._names.variable)
        if match is None:
            self._expected("a variable's name after its question mark")
        if self._cells:
            self._problem("T105", f"variable {match[0]} in a map", start, self._at, f"A column of the file is written {{{match[1]}}}.")
        return Var(match[1])

    def _cell(self) -> TemplateSlot:
        start = self._at
        match = self._match(CELL)
        if match is None:
            self._expected("a column's name in braces")
        self._check_cell(start, self._at)
        return Cell.of(match[1])

    def _check_cell(self, start: int, end: int) -> None:
        if not self._cells:
            name = self._text[start:end].strip("{}")
            self._problem("T105", "cells belong to the map of a CSV input", start, end, f"In define, a variable is written ?{name}.")

    # --- IRIs ---

    def _iri_reference(self) -> TemplateSlot:
        start = self._at
        match = self._match(IRI)
        if match is None:
            self._expected("an IRI in angle brackets", "An IRI has no spaces, quotes or braces (write %20 for a space).")
        return self._iri_slot(self._text_and_cells(match[1], start + 1, self._code_points), start, relative=True)

    def _prefixed(self) -> TemplateSlot | None:
        start = self._at
        match = self._match(self._names.prefix)
        if match is None:
            return None
        middle = self._at
        local = self._match(self._names.local)
        assert local is not None
        namespace = self._prefixes.get(match[1])
        if namespace is None:
            hint = did_you_mean(match[1], sorted(self._prefixes))
            known = WELL_KNOWN.get(match[1], "http://example.org/#")
            hint = f"{hint} Or declare" if hint else "Declare"
            self._problem("T103", f"unknown prefix {match[1]}:", start, middle, f"{hint} it: PREFIX {match[1]}: <{known}>")
            return Const(iri("urn:unknown"))
        parts = self._text_and_cells(local[0], middle, lambda text, at: NAME_ESCAPE.sub(r"\1", text))
        return self._iri_slot((namespace, *parts), start, relative=False)

    def _text_and_cells(self, text: str, at: int, read: Callable[[str, int], str]) -> tuple[str | Cell, ...]:
        """Return text and cells in turn; `read` decodes a part of the text, given its offset."""
        if "{" not in text:
            return (read(text, at),)
        parts: list[str | Cell] = []
        end = 0
        for match in CELL.finditer(text):
            self._check_cell(at + match.start(), at + match.end())
            typed = Cell.of(match[1])
            if typed.type is not None and self._cells:
                hint = f"A cell by itself has a type. Here write {{{typed.column}}}, or {{{json.dumps(match[1])}}} if that is its name."
                self._problem("T110", f"a type inside of a name or a text: {match[0]}", at + match.start(), at + match.end(), hint)
            parts += [read(text[end : match.start()], at + end), Cell(match[1])]
            end = match.end()
        parts.append(read(text[end:], at + end))
        return tuple(part for part in parts if part)

    def _iri_slot(self, parts: tuple[str | Cell, ...], start: int, *, relative: bool) -> TemplateSlot:
        """The IRI of text and cells, validated with `0` for each cell; `start` is its offset."""
        sample = "".join(part if isinstance(part, str) else "0" for part in parts)
        try:
            if len(parts) == 1 and isinstance(parts[0], Cell):
                return CellIri(parts)
            if isinstance(parts[0] if parts else "", Cell):
                raise ValueError("an IRI that starts with a cell has nothing else: only the whole IRI can be in a cell")
            NamedNode(sample)
        except ValueError as error:
            if relative and self._base and all(isinstance(part, str) for part in parts):
                return self._resolve(sample, start)
            hint = "Write the whole IRI: there is no base to resolve it against." if relative and not _SCHEME.match(sample) else ""
            self._problem("T104", f"not an absolute IRI: {_lower(error)}", start, self._at, hint)
        if any(isinstance(part, Cell) for part in parts):
            return CellIri(_joined(parts))
        return Const(iri(sample))

    def _resolve(self, reference: str, start: int) -> TemplateSlot:
        try:
            (quad,) = parse(f"<{reference}> <a:a> <a:a> .", RdfFormat.TURTLE, base_iri=self._base)
            return Const(str(quad.subject))
        except (SyntaxError, ValueError) as error:
            self._problem("T104", f"not an IRI: {_lower(error)}", start, self._at)
            return Const(iri("urn:unknown"))

    # --- literals ---

    def _quoted(self) -> TemplateSlot:
        start = self._at
        match = self._match(STRING)
        if match is None:
            self._fail("T102", "this text is never closed", start, start + 1, 'Text over several lines needs """three quotes""".')
        group = str(match.lastgroup)
        body, at = match[group], match.start(group)
        parts: tuple[str | Cell, ...] = (self._code_points(body, at),)
        if self._cells and "{" in body:
            parts = _joined(self._text_and_cells(body, at, self._quoted_text))
        datatype, language = XSD + "string", ""
        if self._text.startswith("^^", self._at, self._end):
            self._at += 2
            self._skip_space()
            datatype = self._datatype()
        elif tag := self._match(LANGUAGE):
            datatype, language = LANGUAGE_STRINGS["--" in tag[1]], tag[1].lower()
            if wrong := wrong_direction(tag[1]):
                self._problem("T101", f"{wrong} is no base direction", tag.start(), self._at, DIRECTION_HINT)
        if any(isinstance(part, Cell) for part in parts):
            return CellLiteral(parts, datatype, language)
        return Const(literal("".join(part for part in parts if isinstance(part, str)), datatype, language))

    def _datatype(self) -> str:
        start = self._at
        slot = self._iri_reference() if self._text.startswith("<", start, self._end) else self._prefixed()
        if slot is None:
            self._expected("a datatype after ^^")
        if not isinstance(slot, Const):
            self._problem("T105", "a datatype with a cell in it", start, self._at, "Only the text may have cells.")
            return XSD + "string"
        datatype = slot.term[1:-1]
        if datatype in LANGUAGE_STRINGS:
            hint = 'Write the language instead, and with it the direction: "text"@en, "text"@ar--rtl.'
            self._problem("T106", f"rdf:{datatype.removeprefix(RDF)} needs a language", start, self._at, hint)
        return datatype

    def _quoted_text(self, text: str, at: int) -> str:
        """Return a literal's text between cells, decoded; report a brace that opens no cell."""
        if (brace := text.find("{")) >= 0:
            self._problem("T105", "a brace that opens no cell", at + brace, at + brace + 1, _BRACE)
        return self._code_points(text, at)

    def _code_points(self, text: str, at: int) -> str:
        """Return the text with its escapes decoded."""
        if "\\" not in text:
            return text
        for match in ESCAPE.finditer(text):
            code = int(match["u"] or match["U"] or "0", 16)
            if match[0] == "\\" or 0xD800 <= code <= 0xDFFF or code > 0x10FFFF:
                end = at + match.end() + (match[0] == "\\")
                self._fail("T102", "not an escape of Turtle", at + match.start(), end, "Write \\\\ for a backslash.")
        return unescaped(text)


def _lower(error: Exception) -> str:
    text = str(error)
    return text[:1].lower() + text[1:]


def _joined(parts: tuple[str | Cell, ...]) -> tuple[str | Cell, ...]:
    """Return the parts with neighbouring texts concatenated and empty ones removed."""
    joined: list[str | Cell] = []
    for part in parts:
        if isinstance(part, str) and joined and isinstance(joined[-1], str):
            joined[-1] += part
        elif part:
            joined.append(part)
    return tuple(joined)
