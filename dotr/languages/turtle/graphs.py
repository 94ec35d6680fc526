"""A graph as Turtle text, read to triples by pyoxigraph: what an element's `graph`, a test and a session hold.

Invariant: a triple stands once, blank nodes are `_:0`, `_:1`, … in order of appearance, those inside of triple terms too (RDF 1.2: a triple
term is an object, and its subject no literal). Cost: 3 µs for a
one-triple graph with a prefix; only the prefixes that a text may use are put before it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias, cast

from pyoxigraph import RdfFormat, parse

from dotr.model.terms import Triple, with_blanks

Triples: TypeAlias = tuple[Triple, ...]


class Header:
    """Prefix declarations, to be put before a text."""

    __slots__ = ("_base", "_declarations", "_whole")

    def __init__(self, prefixes: Mapping[str, str], base: str = "") -> None:
        self._base = f"@base <{base}> . " if base else ""
        self._declarations = [(f"{prefix}:", f"@prefix {prefix}: <{iri}> . ") for prefix, iri in prefixes.items()]
        self._whole = self._base + "".join([declaration for _, declaration in self._declarations])

    def before(self, text: str) -> str:
        """The text with every declaration before it that it may need, on its first line.

        >>> Header({"": "http://e/", "rdf": "http://r/"}).before(":a :b :c")
        '@prefix : <http://e/> . :a :b :c'
        """
        if len(self._declarations) < 2:
            return self._whole + text
        return self._base + "".join([declaration for prefix, declaration in self._declarations if prefix in text]) + text


def read_graph(text: str, prefixes: Mapping[str, str]) -> Triples:
    """The triples of Turtle text, in the order it states them; raises ValueError with the reason in words.

    >>> read_graph('[] :p "a", _:x .', {"": "http://e/"})
    (('_:0', '<http://e/p>', '"a"'), ('_:0', '<http://e/p>', '_:1'))
    """
    return read_turtle(Header(prefixes).before(text))


def read_turtle(text: str) -> Triples:
    """The triples of a Turtle document; raises ValueError with the reason in words."""
    try:
        triples = [tuple(str(quad).split(" ", 2)) for quad in parse(text, RdfFormat.TURTLE)]
    except SyntaxError as error:
        raise ValueError(reason(error)) from None
    except AttributeError:
        raise ValueError("it holds half a character (an unpaired surrogate)") from None  # what is no UTF-8 is no text for the parser
    return finished(cast(list[Triple], triples))


def check_turtle(text: str) -> None:
    """Raises what `read_turtle` raises, with less work."""
    try:
        for _ in parse(text, RdfFormat.TURTLE):
            pass
    except SyntaxError as error:
        raise ValueError(reason(error)) from None
    except AttributeError:
        raise ValueError("it holds half a character (an unpaired surrogate)") from None


def finished(triples: Sequence[Triple]) -> Triples:
    """The triples once each and with their blank nodes numbered."""
    if len(triples) > 1:
        triples = list(dict.fromkeys(triples))
    for subject, _, value in triples:
        if subject[0] == "_" or value[1] in ":<":  # a blank node, a triple term, or at worst a literal that begins like one
            return numbered(triples)
    return tuple(triples)


def numbered(triples: Iterable[Triple]) -> Triples:
    """The triples with their blank nodes numbered by appearance.

    >>> numbered([("_:x", "<http://e/p>", "_:a"), ("_:a", "<http://e/p>", "_:x")])
    (('_:0', '<http://e/p>', '_:1'), ('_:1', '<http://e/p>', '_:0'))
    >>> numbered([("<http://e/a>", "<http://e/p>", "<<( _:x <http://e/p> _:a )>>")])
    (('<http://e/a>', '<http://e/p>', '<<( _:0 <http://e/p> _:1 )>>'),)
    """
    names: dict[str, str] = {}
    made: list[Triple] = []

    def number(name: str) -> str:
        return names.setdefault(name, f"_:{len(names)}")

    for subject, predicate, value in triples:
        if subject[0] == "_":
            subject = names.get(subject) or names.setdefault(subject, f"_:{len(names)}")
        if value[0] == "_":
            value = names.get(value) or names.setdefault(value, f"_:{len(names)}")
        elif value[1] == "<":
            value = with_blanks(value, number)
        made.append((subject, predicate, value))
    return tuple(made)


def reason(error: Exception) -> str:
    """What a parser says, without its places in a text that no user sees.

    >>> reason(SyntaxError("Parser error at line 1 between columns 1 and 4: No scheme found in an absolute IRI"))
    'no scheme found in an absolute IRI'
    """
    text = str(error.msg if isinstance(error, SyntaxError) else error)
    if text.startswith("Parser error at ") and ": " in text:
        text = text.partition(": ")[2]
    return text[:1].lower() + text[1:]
