"""Parser of Datalog terms with the prefixes declared so far, and the reports of errors.

Invariant: a term's text is parsed once between two declarations: `_slot_cache` caches terms by
text.
"""

from __future__ import annotations

import re
from typing import ClassVar, Final, NoReturn
from urllib.parse import urljoin

from dotr.errors.diagnostics import Diagnostic, DotrError, did_you_mean
from dotr.model.algebra import Const, Slot, Var
from dotr.model.places import Document, Span
from dotr.model.terms import (
    ESCAPE_HINT,
    FALSE,
    RDF_TYPE,
    TRUE,
    WELL_KNOWN,
    XSD,
    Prefixes,
    Term,
    invalid_escape,
    iri,
    literal,
    triple_term,
    unescaped,
)
from dotr.syntax.datalog.tokens import DatalogToken, DatalogTokenKind
from dotr.syntax.lexemes import DIRECTION_HINT, STRING, quotes_hint, wrong_direction

TYPE: Final = Const(RDF_TYPE)

_MAX_DEPTH: Final = 64
"""Maximal nesting of triple terms."""

_LOOSE_STRING: Final = re.compile(STRING)
"""String of one line, with any escapes."""

_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.\-]*:")
_ESCAPED: Final = re.compile(r"\\([_~.\-!$&'()*+,;=/?#@%])")


class UnreadableStatement(DotrError):
    """Raised at a syntax error, after it is reported, to end the statement."""


class StatementReader:
    """Cursor over the tokens of a statement, with the prefixes and the base declared before it.

    `_syntax_code` is the code of syntax errors in the language.
    """

    _syntax_code: ClassVar[str] = "K201"

    def __init__(self, document: Document, prefixes: Prefixes) -> None:
        self.problems: list[Diagnostic] = []
        self._document = document
        self._prefixes: dict[str, str] = dict(prefixes)
        self._has_own_prefixes = False
        self._base = ""
        self._slot_cache: dict[str, Slot] = {}
        self._tokens: list[DatalogToken] = []
        self._index = 0
        self._depth = 0

    @property
    def prefixes(self) -> Prefixes:
        """The prefixes declared so far, or those of the configuration."""
        return self._prefixes

    def _declare(self, prefix: str, namespace: str) -> None:
        """Declare a prefix; the first declaration of a file hides the configuration's prefixes."""
        if not self._has_own_prefixes:
            self._has_own_prefixes, self._prefixes = True, {}
        self._prefixes[prefix] = namespace
        self._slot_cache.clear()

    def _slot(self, token: DatalogToken) -> Slot:
        """The term or variable at a token; `_index` is left at its last token (of a datatype)."""
        kind, text, _ = token
        slot: Slot
        match kind:
            case DatalogTokenKind.VARIABLE:
                slot = Var(text[1:])
            case DatalogTokenKind.NAME | DatalogTokenKind.IRI:
                slot = Const(iri(self._resolved_iri(token)))
            case DatalogTokenKind.NUMBER:
                name = "double" if "e" in text.lower() else "decimal" if "." in text else "integer"
                slot = Const(literal(text, XSD + name))
            case DatalogTokenKind.WORD if text == "a":
                slot = TYPE
            case DatalogTokenKind.WORD if text in ("true", "false"):
                slot = Const(TRUE if text == "true" else FALSE)
            case DatalogTokenKind.STRING:
                return self._literal(token)
            case DatalogTokenKind.BLANK:
                hint = "In a rule's body write a variable; a fact of the background needs a graph file (Turtle) for nodes without a name."
                self._report("K205", "a blank node cannot be written in a rule", token, hint)
                return TYPE
            case DatalogTokenKind.QUOTE:
                self._unclosed_string(token)
            case DatalogTokenKind.OPERATOR if text == "<" and self._is_adjacent("<"):
                return self._triple_term(token)
            case DatalogTokenKind.WORD:
                hint = "Names need a prefix (:name) or angle brackets, variables a question mark, text quotes."
                self._fail(self._syntax_code, f"expected a term, found {text}", token, hint)
            case _:
                self._unexpected("a term")
        self._slot_cache[text] = slot
        return slot

    def _literal(self, token: DatalogToken) -> Slot:
        text = token[1]
        quotes = 3 if len(text) >= 6 and text[:3] in ('"""', "'''") else 1
        lexical = self._unescaped(token, quotes)
        index = self._index
        following = self._tokens[index + 1]
        if following[0] == DatalogTokenKind.TAG:
            self._index = index + 1
            if wrong := wrong_direction(following[1]):
                self._report(self._syntax_code, f"{wrong} is no base direction", following, DIRECTION_HINT)
            return Const(literal(lexical, language=following[1][1:]))
        if following[1] == "^^":
            self._index = index + 2
            datatype = self._tokens[index + 2]
            if datatype[0] not in (DatalogTokenKind.NAME, DatalogTokenKind.IRI):
                self._unexpected("a datatype")
            return Const(literal(lexical, self._resolved_iri(datatype)))
        return Const(literal(lexical))

    def _is_adjacent(self, *texts: str) -> bool:
        """True if these are the next tokens, without blanks before and between them."""
        offset = self._tokens[self._index][2]
        following = self._tokens[self._index + 1 : self._index + 1 + len(texts)]
        return [token[1:] for token in following] == [(text, offset + number) for number, text in enumerate(texts, 1)]

    def _triple_term(self, opening: DatalogToken) -> Slot:
        """The constant `<<( s p o )>>`; each character of its brackets is a token of its own."""
        if not self._is_adjacent("<", "("):
            hint = "Write an atom, rdf:reifies(?r, ?t). The triple term itself is written <<( … )>>."
            self._fail("K212", "a reified triple in a rule", opening, hint)
        self._index += 2
        self._depth += 1
        if self._depth > _MAX_DEPTH:
            hint = "Records have such a bound too (`limits.nesting`)."
            self._fail("K212", f"triple terms nested more than {_MAX_DEPTH} deep", opening, hint)
        parts: list[Term] = []
        for _ in range(3):
            self._index += 1
            token = self._tokens[self._index]
            if token[1] == ")":
                break
            slot = self._slot(token)
            if isinstance(slot, Var):
                hint = "Use BIND(SUBJECT(?t) AS ?s), PREDICATE and OBJECT for its parts; BIND(TRIPLE(?s, ?p, ?o) AS ?t) constructs one."
                self._fail("K212", f"?{slot.name} in a triple term of a rule", token, hint)
            parts.append(slot.term)
        else:
            self._index += 1
        if len(parts) < 3 or self._tokens[self._index][1] != ")" or not self._is_adjacent(">", ">"):
            self._unexpected("`)>>` behind three terms")
        self._index += 2
        self._depth -= 1
        term = triple_term(*parts)
        if term is None:
            hint = "Its subject is an IRI, and its predicate too."
            self._fail("K212", "a triple term that is no triple", opening, hint)
        return Const(term)

    def _unescaped(self, token: DatalogToken, quotes: int) -> str:
        """The text between the quotes or brackets of a token, unescaped."""
        kind, text, start = token
        bad_escape = invalid_escape(text)
        if bad_escape is not None:
            self._fail(self._syntax_code, f"{bad_escape[0]} is no escape", (kind, bad_escape[0], start + bad_escape.start()), ESCAPE_HINT)
        return unescaped(text[quotes:-quotes])

    def _resolved_iri(self, token: DatalogToken) -> str:
        """The IRI of an IRI reference or a prefixed name, without angle brackets."""
        kind, text, _ = token
        if kind == DatalogTokenKind.IRI:
            name = self._unescaped(token, 1)
            if _SCHEME.match(name):
                return name
            if self._base:
                try:
                    return urljoin(self._base, name)
                except ValueError as error:
                    self._report("K206", f"{text} is no IRI: {error}", token)
                    return name
            self._report("K206", f"{text} is a relative IRI", token, "Write it in full, or declare a base (`@base <…> .`).")
            return name
        prefix, local = text.split(":", 1)
        namespace = self._prefixes.get(prefix)
        if namespace is None:
            self._report("K202", f"unknown prefix {prefix}:", (DatalogTokenKind.NAME, prefix + ":", token[2]), self._prefix_hint(prefix))
            return text
        return namespace + (_ESCAPED.sub(r"\1", local) if "\\" in local else local)

    def _prefix_hint(self, prefix: str) -> str:
        if prefix in WELL_KNOWN:
            return f"Add `PREFIX {prefix}: <{WELL_KNOWN[prefix]}>` at the top of the file."
        known = ", ".join(sorted(f"{p}:" for p in self._prefixes)) or "none"
        return did_you_mean(prefix, sorted(self._prefixes)) or f"Declare it: `PREFIX {prefix}: <…>`. Known here: {known}."

    def _expect(self, kind: int, expected: str, text: str = "") -> DatalogToken:
        token = self._tokens[self._index]
        if token[0] != kind or (text and token[1] != text):
            self._unexpected(expected)
        self._index += 1
        return token

    def _unexpected(self, expected: str, hint: str = "") -> NoReturn:
        token = self._tokens[self._index]
        kind, text, _ = token
        if kind == DatalogTokenKind.QUOTE:
            self._unclosed_string(token)
        if kind == DatalogTokenKind.ARROW and not hint:
            hint = "A rule has one `:-`; the rule before ends with a dot."
        elif expected.endswith("`.`") and kind in (DatalogTokenKind.NAME, DatalogTokenKind.IRI, DatalogTokenKind.WORD) and not hint:
            hint = "Atoms are separated by commas, and a rule ends with a dot."
        hint = hint or quotes_hint(self._document.text[token[2] :][:200])
        self._fail(self._syntax_code, f"expected {expected}, found {text or 'the end of the file'}", token, hint)

    def _unclosed_string(self, token: DatalogToken) -> NoReturn:
        string = _LOOSE_STRING.match(self._document.text, token[2])
        bad_escape = invalid_escape(string[0]) if string is not None else None
        if bad_escape is not None:
            self._fail(
                self._syntax_code, f"{bad_escape[0]} is no escape", (token[0], bad_escape[0], token[2] + bad_escape.start()), ESCAPE_HINT
            )
        hint = f"Close it with {token[1]} on the same line; several lines need {token[1] * 3}."
        self._fail("K208", "a string that is never closed", token, hint)

    def _fail(self, code: str, message: str, token: DatalogToken, hint: str = "") -> NoReturn:
        self._report(code, message, token, hint)
        raise UnreadableStatement

    def _report(self, code: str, message: str, token: DatalogToken, hint: str = "", end: int = 0) -> None:
        span = Span(self._document, token[2], end or token[2] + len(token[1]))
        self.problems.append(Diagnostic(code, message, span, hint))
