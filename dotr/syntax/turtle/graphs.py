"""Turtle text to triples by pyoxigraph, for the `graph` of an element, a rule test or a session.

Invariant: no triple occurs twice; blank nodes are `_:0`, `_:1`, … in order of appearance, also
those inside triple terms.
Cost: 3 µs for a graph of one triple with a prefix. Only prefixes that the text may use are declared
in front of it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, TypeAlias

from pyoxigraph import RdfFormat, parse

from dotr.errors.diagnostics import DotrError
from dotr.model.terms import Triple, rename_blanks
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
        raise _unreadable(error, len(document) - len(text)) from None
    return canonical_triples(triples)


def _unreadable(error: Exception, skipped: int) -> ValueError:
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
