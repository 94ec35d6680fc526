"""RDF terms as their canonical N-Triples text.

A term is a `str`: `<http://example.org/a>`, `"25"^^<http://www.w3.org/2001/XMLSchema#integer>`, `"warm"@en`, `_:b0`. Two terms are
the same RDF term exactly if their texts are equal, so joins are dictionary look-ups, the tie order (semantics.md, section 4) is
the order of `str`, and a state, a checkpoint and an output graph hold terms as they are. Canonical means: the escapes of
`escaped` and no others, no `^^xsd:string`, language tags in lower case; a triple term (RDF 1.2) is `<<( s p o )>>` around three canonical
terms. Values (numbers, times) live in `dotr.expressions`.

Order of texts: literals (`"`), triple terms (`<<`), IRIs (`<` and a letter), blank nodes (`_`). Hot paths use it: what is at least `<=` may
be a subject. Where what is no literal is told by two characters, `t[1] == "<"` says that it is a triple term.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

Term: TypeAlias = str
"""An RDF term as canonical N-Triples text."""

Variable: TypeAlias = str
"""A variable's name without its question mark."""

Label: TypeAlias = str
"""The name of a query, of an event type, or of an event's place in a rule."""

Triple: TypeAlias = tuple[Term, Term, Term]

Rename: TypeAlias = Callable[[Term], Term]
"""A blank node's text to another term's."""

Prefixes: TypeAlias = Mapping[str, str]
"""Prefix without its colon, to namespace IRI (without angle brackets)."""

XSD: Final = "http://www.w3.org/2001/XMLSchema#"
RDF: Final = "http://www.w3.org/1999/02/22-rdf-syntax-ns#"
RDFS: Final = "http://www.w3.org/2000/01/rdf-schema#"
OWL: Final = "http://www.w3.org/2002/07/owl#"
PROV: Final = "http://www.w3.org/ns/prov#"
WELL_KNOWN: Final[Prefixes] = {"rdf": RDF, "rdfs": RDFS, "owl": OWL, "xsd": XSD, "prov": PROV}
"""Prefixes that an author can be told the IRI of."""

_ESCAPES: Final = {
    **{code: f"\\u{code:04X}" for code in (*range(0x20), 0x7F)},
    **str.maketrans({"\b": "\\b", "\t": "\\t", "\n": "\\n", "\f": "\\f", "\r": "\\r", '"': '\\"', "\\": "\\\\"}),
}
_NEEDS_ESCAPE: Final = re.compile(r'[\x00-\x1f\x7f"\\]')
_UNESCAPE: Final = re.compile(r"\\(?:u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8})|(.))", re.DOTALL)
_UNESCAPED: Final = {"t": "\t", "b": "\b", "n": "\n", "r": "\r", "f": "\f", '"': '"', "'": "'", "\\": "\\"}


def escaped(text: str) -> str:
    r"""The text as it stands between the quotes of a canonical literal.

    >>> print(escaped('say "hi"\n'))
    say \"hi\"\n
    """
    return text.translate(_ESCAPES) if _NEEDS_ESCAPE.search(text) else text


def unescaped(text: str) -> str:
    r"""The inverse of `escaped`; reads every escape of N-Triples and Turtle.

    >>> unescaped(r'say \"hi\" \u00E9') == 'say "hi" é'
    True
    """
    if "\\" not in text:
        return text
    return _UNESCAPE.sub(lambda m: chr(int(m[1] or m[2], 16)) if m[1] or m[2] else _UNESCAPED[m[3]], text)


def invalid_escape(text: str) -> re.Match[str] | None:
    r"""The first backslash of a text that begins no escape of N-Triples and Turtle, with what follows; a surrogate is no character.

    >>> [found[0] for text in (r"\n\.", r"\U0011000E", r"\uD800", r"\u12") if (found := invalid_escape(text))], invalid_escape(r"\\ \u00E9")
    (['\\.', '\\U0011000E', '\\uD800', '\\u'], None)
    """
    if "\\" not in text:
        return None
    for found in _ANY_ESCAPE.finditer(text):
        code = int(found[1] or found[2] or "0", 16)
        if 0xD800 <= code <= 0xDFFF or code > 0x10FFFF or (found[3] is not None and found[3] not in _UNESCAPED):
            return found
    return None


ESCAPE_HINT: Final = "Escapes are \\t \\n \\r \\\" \\' \\\\, and \\u00E9 or \\U0001F525 for a character; a backslash itself is \\\\."

_ANY_ESCAPE: Final = re.compile(r"\\(?:u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8})|(.?))", re.DOTALL)


def iri(text: str) -> Term:
    """The IRI term of an absolute IRI.

    >>> iri("http://example.org/a")
    '<http://example.org/a>'
    """
    return f"<{text}>"


def blank(label: str) -> Term:
    """The blank node term of a label: `_:label`."""
    return f"_:{label}"


def literal(lexical: str, datatype: str = XSD + "string", language: str = "") -> Term:
    """The literal term of a lexical form, a datatype IRI (without brackets) or a language tag.

    >>> literal("25", XSD + "integer")
    '"25"^^<http://www.w3.org/2001/XMLSchema#integer>'
    >>> literal("warm", language="EN")
    '"warm"@en'
    """
    if language:
        return f'"{escaped(lexical)}"@{language.lower()}'
    if datatype == XSD + "string":
        return f'"{escaped(lexical)}"'
    return f'"{escaped(lexical)}"^^<{datatype}>'


def is_iri(term: Term) -> bool:
    return term[0] == "<" != term[1]


def is_blank(term: Term) -> bool:
    return term[0] == "_"


def is_literal(term: Term) -> bool:
    return term[0] == '"'


def is_triple(term: Term) -> bool:
    return term[0] == "<" == term[1]


def can_be_subject(term: Term) -> bool:
    """Whether a triple may have it as its subject: IRIs and blank nodes (RDF 1.2 Concepts, section 3.1).

    >>> [can_be_subject(term) for term in ("<http://e/a>", "_:b", '"a"', "<<( <http://e/a> <http://e/p> _:b )>>")]
    [True, True, False, False]
    """
    return term >= "<="


def triple_term(subject: Term, predicate: Term, object: Term) -> Term | None:
    """The triple term of three terms; None where they are no RDF triple.

    >>> triple_term("<http://e/a>", "<http://e/p>", '"1"'), triple_term('"1"', "<http://e/p>", "<http://e/a>")
    ('<<( <http://e/a> <http://e/p> "1" )>>', None)
    """
    return f"<<( {subject} {predicate} {object} )>>" if can_be_subject(subject) and is_iri(predicate) else None


def triple_parts(term: Term) -> Triple:
    """Subject, predicate and object of a triple term.

    >>> triple_parts('<<( <http://e/a> <http://e/p> <<( _:b <http://e/p> " )>>" )>> )>>')
    ('<http://e/a>', '<http://e/p>', '<<( _:b <http://e/p> " )>>" )>>')
    """
    subject, predicate, value = term[4:-4].split(" ", 2)
    return subject, predicate, value


def rename_blanks(term: Term, rename: Rename) -> Term:
    """The term with its blank nodes, itself or those inside of a triple term, renamed in order of appearance.

    >>> rename_blanks('<<( _:a <http://e/p> <<( _:b <http://e/p> "_:a" )>> )>>', lambda blank: blank.upper())
    '<<( _:A <http://e/p> <<( _:B <http://e/p> "_:a" )>> )>>'
    """
    if term[0] == "_":
        return rename(term)
    if term[0] != "<" or term[1] != "<" or "_:" not in term:
        return term
    subject, predicate, value = triple_parts(term)
    return f"<<( {rename_blanks(subject, rename)} {predicate} {rename_blanks(value, rename)} )>>"


def without_blank_labels(term: Term) -> Term:
    """The term with all blank nodes equal.

    >>> without_blank_labels("_:b"), without_blank_labels("<<( _:b <http://e/p> <http://e/a> )>>")
    ('_:', '<<( _: <http://e/p> <http://e/a> )>>')
    """
    return rename_blanks(term, lambda _: "_:")


def iri_text(term: Term) -> str:
    """The IRI of an IRI term, without its brackets."""
    return term[1:-1]


def literal_parts(term: Term) -> tuple[str, str, str]:
    """The lexical form, the datatype IRI and the language tag (or `""`) of a literal term.

    >>> literal_parts('"25"^^<http://www.w3.org/2001/XMLSchema#integer>')
    ('25', 'http://www.w3.org/2001/XMLSchema#integer', '')
    >>> literal_parts('"warm"@en')
    ('warm', 'http://www.w3.org/1999/02/22-rdf-syntax-ns#langString', 'en')
    """
    end = term.rindex('"')
    lexical, rest = unescaped(term[1:end]), term[end + 1 :]
    if not rest:
        return lexical, XSD + "string", ""
    if rest[0] == "@":
        return lexical, RDF + "langString", rest[1:]
    return lexical, rest[3:-1], ""


RDF_TYPE: Final = iri(RDF + "type")
RDF_FIRST: Final = iri(RDF + "first")
RDF_REST: Final = iri(RDF + "rest")
RDF_NIL: Final = iri(RDF + "nil")
RDF_REIFIES: Final = iri(RDF + "reifies")
TRUE: Final = literal("true", XSD + "boolean")
FALSE: Final = literal("false", XSD + "boolean")
