"""Turtle text to triples, for the `graph` of an element, a rule test or a session: by pyoxigraph,
or token by token where the text is plain (`TurtleReader`).

Invariant: no triple occurs twice; blank nodes are `_:0`, `_:1`, … in order of appearance, also
those inside triple terms. A plain text has the triples that pyoxigraph finds in it.
Cost: 3 µs for a graph of one triple with a prefix by pyoxigraph; 0.3 µs where the graph is plain
and its terms have come before, 1.5 µs where they have not. Only prefixes that the text may use are
declared in front of it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final, TypeAlias

from pyoxigraph import NamedNode, RdfFormat, parse

from dotr.errors.diagnostics import DotrError
from dotr.model.terms import RDF, RDF_TYPE, XSD, Triple, rename_blanks
from dotr.syntax.turtle.nesting import TextLimitExceeded, check_nesting

Triples: TypeAlias = tuple[Triple, ...]


class PrefixHeader:
    """Declarations of prefixes and base, to prepend to a text.

    Each prefix is searched for in the text. With more than `_MANY_PREFIXES` prefixes the names
    before colons in the text are looked up instead, so that the cost depends on the text alone.
    """

    __slots__ = ("_base", "_declarations", "_fixed")

    def __init__(self, prefixes: Mapping[str, str], base: str = "") -> None:
        self._base = f"@base <{base}> . " if base else ""
        self._declarations = {f"{prefix}:": f"@prefix {prefix}: <{iri}> . " for prefix, iri in prefixes.items()}
        self._fixed = self._base + "".join(self._declarations.values()) if len(self._declarations) < 2 else None

    def declare(self, prefixes: Mapping[str, str], base: str) -> None:
        """Add or replace declarations; an empty base leaves the present one."""
        self._base = f"@base <{base}> . " if base else self._base
        self._declarations.update((f"{prefix}:", f"@prefix {prefix}: <{iri}> . ") for prefix, iri in prefixes.items())
        self._fixed = self._base + "".join(self._declarations.values()) if len(self._declarations) < 2 else None

    def prepend_to(self, text: str) -> str:
        """Return the text after every declaration that it may need, on its first line.

        >>> PrefixHeader({"": "http://e/", "rdf": "http://r/"}).prepend_to(":a :b :c")
        '@prefix : <http://e/> . :a :b :c'
        >>> PrefixHeader({f"p{n}": "http://e/" for n in range(1000)}).prepend_to("p1:a p2:b 5.p3:c")
        '@prefix p1: <http://e/> . @prefix p2: <http://e/> . @prefix p3: <http://e/> . p1:a p2:b 5.p3:c'
        """
        if self._fixed is not None:
            return self._fixed + text
        declarations = self._declarations
        if len(declarations) > _MANY_PREFIXES:
            names = dict.fromkeys(name for run in _NAME.findall(text) for name in _candidate_prefixes(run))
            return self._base + "".join([declarations[name] for name in names if name in declarations]) + text
        return self._base + "".join([declaration for prefix, declaration in declarations.items() if prefix in text]) + text


_MANY_PREFIXES: Final = 256
_NAME: Final = re.compile(r"""[^\s<>"'{}()\[\];,#\\|^@:]*+:""")


def _candidate_prefixes(run: str) -> tuple[str, ...]:
    """Return the prefixes that may end a run of name characters.

    A number and a dot, or a language tag and a dot, may precede a prefix: `5.p3:` yields `5.p3:`
    and `p3:`.
    """
    return run, run.lstrip("0123456789.+-"), run.partition(".")[2] or run, run.rpartition(".")[2]


_SPACE: Final = r"[ \t\r\n]"
_IRI: Final = r"<[!#-;=?-\[\]_a-z~]*+>"
_NAME_TOKEN: Final = r"(?:[A-Za-z][A-Za-z0-9_-]*+)?+:[A-Za-z0-9_][A-Za-z0-9_-]*+"
_NUMBER: Final = r"[+-]?+(?:[0-9]++(?:\.[0-9]++)?+|\.[0-9]++)(?:[eE][+-]?+[0-9]++)?+"
_ESCAPED: Final = r"\\\x00-\x1f\x7f\ud800-\udfff\ufffe\uffff"
_QUOTED: Final = rf"""(?:"[^"{_ESCAPED}]*+"|'[^'"{_ESCAPED}]*+')"""
_LITERAL: Final = rf"{_QUOTED}(?:@[a-z]{{2}}|\^\^(?:{_IRI}|{_NAME_TOKEN}))?+"
_TOKEN: Final = re.compile(
    rf"((?:{_NAME_TOKEN}|{_NUMBER}|{_IRI}|{_LITERAL}|_:[A-Za-z0-9]++|\[\]|a|true|false)"
    rf"(?={_SPACE}|[;,]|\.(?:{_SPACE}|\Z)|\Z)|[;,]|\.(?={_SPACE}|\Z)){_SPACE}*+|(?s:.)++"
)
"""A token of a plain graph, or the rest of the text from any other token on, with an empty group.

No token may go on behind its match: `:a.:b` is one name, `:a.` a name and the end of a statement. The
rest is one match, so that the cost is linear in the text.
"""

_MOST_TERMS: Final = 1 << 12
_LONGEST_TERM: Final = 1 << 7
_LONGEST_PLAIN: Final = 1 << 16
"""Limit of the characters of a text that is read token by token; pyoxigraph has limits of its own."""

_INTEGER: Final = f'"^^<{XSD}integer>'
_NUMERIC: Final = "0123456789+-."
_WORDS: Final = {word: f'"{word}"^^<{XSD}boolean>' for word in ("true", "false")}


class _TokenTerms(dict[str, str]):
    """The terms of the tokens of plain graphs, each made at its first use. A token that has no term
    raises KeyError.

    Blank nodes are not stored, so that a stored term is the same in every graph.
    """

    __slots__ = ("_begins", "_prefixes")

    def __init__(self, prefixes: Mapping[str, str]) -> None:
        self._prefixes = prefixes
        self._begins: dict[str, str] = {}

    def of_text(self, text: str) -> str:
        """Return the term of a text between spaces; `_` for a blank node, and for what is no token."""
        found = _TOKEN.fullmatch(text)
        return self[text] if found is not None and found[1] == text else "_"

    def __missing__(self, token: str) -> str:
        first = token[0]
        if first in _NUMERIC:
            term = f'"{token}{_INTEGER}' if token.isdecimal() else _number(token)
        elif first in "\"'":
            term = self._literal(token, token.rindex(first) + 1)
        elif first == "<":
            term = _valid(token)
        elif first == "_":
            return token
        elif first == "[":
            return "_"
        else:
            cut = token.find(":") + 1
            begin = self._begins.get(token[:cut])
            term = self._name(token, cut) if begin is None else f"{begin}{token[cut:]}>"
        if len(token) <= _LONGEST_TERM:
            if len(self) >= _MOST_TERMS:
                self.clear()
            self[token] = term
        return term

    def _literal(self, token: str, end: int) -> str:
        quoted = token[:end] if token[0] == '"' else f'"{token[1 : end - 1]}"'
        if token[end : end + 1] != "^":
            return quoted + token[end:]
        datatype = self[token[end + 2 :]]
        if datatype.startswith(f"<{RDF}"):  # rdf:langString is refused by the parser
            raise KeyError(token)
        return quoted if datatype == f"<{XSD}string>" else f"{quoted}^^{datatype}"

    def _name(self, token: str, cut: int) -> str:
        if token in _WORDS:
            return _WORDS[token]
        if not cut:
            raise KeyError(token)
        namespace = self._prefixes[token[: cut - 1]]
        term = _valid(f"<{namespace}{token[cut:]}>")
        if namespace[-1:] in ("/", "#"):  # then any name makes an IRI, but http://e:8 and x make none
            self._begins[token[:cut]] = f"<{namespace}"
        return term


def _number(token: str) -> str:
    if token == ".":
        raise KeyError(token)
    kind = "double" if "e" in token or "E" in token else "decimal" if "." in token else "integer"
    return f'"{token}"^^<{XSD}{kind}>'


def _valid(iri: str) -> str:
    try:
        NamedNode(iri[1:-1])
    except ValueError:
        raise KeyError(iri) from None
    return iri


class TurtleReader:
    """A reader of the graphs of a stream, with the prefixes that its configuration declares.

    A plain graph consists of triples whose tokens are names, IRIs, numbers, literals without
    escapes, and blank nodes without brackets around triples. Its tokens are found by one pattern,
    and their terms are looked up. All other texts, those with errors among them, are read by
    pyoxigraph. After four such texts in a row one of 16 is tried, so that a stream of them costs
    what it costs pyoxigraph.
    """

    __slots__ = ("_header", "_parsed", "_predicates", "_terms")

    def __init__(self, prefixes: Mapping[str, str]) -> None:
        self._header = PrefixHeader(prefixes)
        self._terms = _TokenTerms(prefixes)
        self._predicates = {"a": RDF_TYPE}
        self._parsed = 0  # how many texts pyoxigraph has read since the last plain one

    @staticmethod
    @lru_cache(16)
    def of(prefixes: tuple[tuple[str, str], ...]) -> TurtleReader:
        """The reader with some prefixes, which all files and messages with these prefixes share."""
        return TurtleReader(dict(prefixes))

    def read(self, text: str) -> Triples:
        """Return the triples of a graph, in the order of the text. Raises as `read_turtle`.

        >>> TurtleReader({"": "http://e/"}).read(":a a :B ; :v 5, 'x' . [] :p _:x .")[2:]
        (('<http://e/a>', '<http://e/v>', '"x"'), ('_:0', '<http://e/p>', '_:1'))
        >>> TurtleReader({"": "http://e/"}).read(":a :p () .")
        (('<http://e/a>', '<http://e/p>', '<http://www.w3.org/1999/02/22-rdf-syntax-ns#nil>'),)
        """
        parsed = self._parsed
        if (parsed < 4 or not parsed & 15) and len(text) <= _LONGEST_PLAIN:
            try:
                parts = text.split(" ", 4)
                if len(parts) == 4 and parts[3] == "." and (predicate := self._predicates.get(parts[1])):
                    terms = self._terms
                    subject = terms.get(parts[0]) or terms.of_text(parts[0])
                    value = terms.get(parts[2]) or terms.of_text(parts[2])
                    if subject[0] == "<" and value[0] != "_":
                        self._parsed = 0
                        return ((subject, predicate, value),)
                triples = self._plain(text)
            except (KeyError, StopIteration):
                pass
            else:
                self._parsed = 0
                return triples
        self._parsed = parsed + 1
        return read_turtle(self._header.prepend_to(text), text)

    def _plain(self, text: str) -> Triples:
        """Return the triples of a plain graph; raises KeyError or StopIteration for other texts."""
        terms, predicates = self._terms, self._predicates
        tokens = _TOKEN.findall(text.lstrip(" \t\r\n"))
        if tokens and not tokens[-1]:
            raise KeyError(text)
        if "[]" in tokens:  # no label of a text has a bracket
            tokens = [f"_:[{number}" if token == "[]" else token for number, token in enumerate(tokens)]
        triples: list[Triple] = []
        following = iter(tokens)
        for token in following:
            subject = terms[token]
            if subject[0] == '"':
                raise KeyError(token)
            mark = ";"
            while mark == ";":
                token = next(following)
                predicate = predicates.get(token) or self._predicate(token)
                mark = ","
                while mark == ",":
                    triples.append((subject, predicate, terms[next(following)]))
                    mark = next(following)
            if mark != ".":
                raise KeyError(mark)
        return canonical_triples(triples)

    def _predicate(self, token: str) -> str:
        """Return the IRI of a predicate at its first use; raises KeyError where it is none."""
        term = self._terms[token]
        if term[0] != "<":
            raise KeyError(token)
        if len(self._predicates) >= _MOST_TERMS:
            self._predicates = {"a": RDF_TYPE}
        self._predicates[token] = term
        return term


class Misread(DotrError, ValueError):
    """Raised for text that is not Turtle; the message is the reason (`why`) and its place."""

    def __init__(self, why: str, place: str) -> None:
        super().__init__(why + place)
        self.why = why


def read_graph(text: str, prefixes: Mapping[str, str], nesting: int) -> Triples:
    """Return the triples of Turtle text, in the order of the text.

    Raises `Misread`, and `TextLimitExceeded` where brackets are nested deeper than `nesting`; both
    are ValueErrors.

    >>> read_graph('[] :p "a", _:x .', {"": "http://e/"}, 64)
    (('_:0', '<http://e/p>', '"a"'), ('_:0', '<http://e/p>', '_:1'))
    >>> read_graph(":a :p\\n  x:y .", {"": "http://e/"}, 64)
    Traceback (most recent call last):
    dotr.syntax.turtle.graphs.Misread: the prefix x: has not been declared (line 2, column 3)
    """
    check_nesting(text, nesting)
    return read_turtle(PrefixHeader(prefixes).prepend_to(text), text)


def read_turtle(document: str, text: str) -> Triples:
    """Return the triples of a Turtle document that ends with `text`.

    Raises ValueError with the reason and its place in `text`. `document` has a header before it, as
    of `PrefixHeader.prepend_to`.
    """
    try:
        triples: list[Any] = [tuple(str(quad).split(" ", 2)) for quad in parse(document, RdfFormat.TURTLE)]
    except (SyntaxError, AttributeError, MemoryError) as error:
        raise unreadable_text(error, len(document) - len(text)) from None
    return canonical_triples(triples)


def unreadable_text(error: Exception, skipped: int) -> ValueError:
    """Return the ValueError for an error of the parser, with its place behind a header of `skipped`
    characters."""
    match error:
        case SyntaxError():
            return Misread(parser_message(error), error_location(error, skipped))
        case MemoryError():
            return too_long_error()
        case _:  # the text cannot be encoded as UTF-8
            return ValueError("it holds half a character (an unpaired surrogate)")


def too_long_error() -> TextLimitExceeded:
    """Return the error for a MemoryError of pyoxigraph: a statement or token exceeds its buffer."""
    return TextLimitExceeded("it is longer than the parser can read at once (16 MiB)")


def error_location(error: SyntaxError, skipped: int = 0, line: int = 1) -> str:
    """Return the place of a parser's error relative to the text after a header.

    The text begins `skipped` characters after the start of the document, on its first line; `line`
    is the number of that line for the user.

    >>> error_location(SyntaxError("no", (None, 1, 12, None)), 10), error_location(SyntaxError("no", (None, 3, 12, None)), 10, line=7)
    (' (line 1, column 2)', ' (line 9, column 12)')
    """
    if error.lineno is None or error.offset is None:
        return ""
    column = error.offset if error.lineno > 1 else max(error.offset - skipped, 1)
    return f" (line {error.lineno + line - 1}, column {column})"


def canonical_triples(triples: Sequence[Triple]) -> Triples:
    """Return the triples without duplicates, with their blank nodes numbered."""
    if len(triples) > 1:
        triples = list(dict.fromkeys(triples))
    for subject, _, value in triples:
        # True of `_:x` and `<<( … )>>`, and of literals such as `":a"`, for which the numbering changes nothing.
        if subject[0] == "_" or value[1] in ":<":
            return number_blanks(triples)
    return tuple(triples)


def number_blanks(triples: Iterable[Triple]) -> Triples:
    """Return the triples with their blank nodes numbered by appearance.

    >>> number_blanks([("_:x", "<http://e/p>", "_:a"), ("_:a", "<http://e/p>", "_:x")])
    (('_:0', '<http://e/p>', '_:1'), ('_:1', '<http://e/p>', '_:0'))
    >>> number_blanks([("<http://e/a>", "<http://e/p>", "<<( _:x <http://e/p> _:a )>>")])
    (('<http://e/a>', '<http://e/p>', '<<( _:0 <http://e/p> _:1 )>>'),)
    """
    names: dict[str, str] = {}
    renamed: list[Triple] = []

    def number(name: str) -> str:
        return names.setdefault(name, f"_:{len(names)}")

    for subject, predicate, value in triples:
        if subject[0] == "_":
            subject = names.get(subject) or names.setdefault(subject, f"_:{len(names)}")
        if value[0] == "_":
            value = names.get(value) or names.setdefault(value, f"_:{len(names)}")
        elif value[1] == "<":
            value = rename_blanks(value, number)
        renamed.append((subject, predicate, value))
    return tuple(renamed)


def parser_message(error: Exception) -> str:
    """Return the message of a parser's error without places, since they count the header too.

    >>> parser_message(SyntaxError("Parser error at line 1 between columns 1 and 4: No scheme found in an absolute IRI"))
    'no scheme found in an absolute IRI'
    """
    text = str(error.msg if isinstance(error, SyntaxError) else error)
    if text.startswith("Parser error at ") and ": " in text:
        text = text.partition(": ")[2]
    return text[:1].lower() + text[1:]
