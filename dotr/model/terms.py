"""RDF terms as canonical N-Triples text.

A term is a `str`: `<http://example.org/a>`, `"25"^^<http://www.w3.org/2001/XMLSchema#integer>`,
`"warm"@en`, `_:b0`, or a triple term (RDF 1.2) `<<( s p o )>>` of three terms. Values (numbers,
times) are in `dotr.evaluation.expressions`.

Invariant: two terms are the same RDF term exactly if their texts are equal. Canonical text has the
escapes of `escaped` and no others, no `^^xsd:string`, and language tags in lower case, with their
base direction (RDF 1.2) behind them: `"x"@ar--rtl`. So joins are
dictionary look-ups, the tie order (semantics.md, section 4) is that of `str`, and state and output
graphs hold terms unchanged.

Order of texts: literals (`"`), triple terms (`<<`), IRIs (`<` and a letter), blank nodes (`_`). Hot
paths rely on it: a term `>= "<="` may be a subject; among terms that are no literals, `t[1] == "<"`
identifies triple terms.
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
"""The name of a query, of an event type, or of an event in a rule."""

Triple: TypeAlias = tuple[Term, Term, Term]

Rename: TypeAlias = Callable[[Term], Term]
"""A function from the text of a blank node to a term."""

Prefixes: TypeAlias = Mapping[str, str]
"""Namespace IRI (without angle brackets) by prefix (without its colon)."""

XSD: Final = "http://www.w3.org/2001/XMLSchema#"
RDF: Final = "http://www.w3.org/1999/02/22-rdf-syntax-ns#"
RDFS: Final = "http://www.w3.org/2000/01/rdf-schema#"
OWL: Final = "http://www.w3.org/2002/07/owl#"
PROV: Final = "http://www.w3.org/ns/prov#"
WELL_KNOWN: Final[Prefixes] = {"rdf": RDF, "rdfs": RDFS, "owl": OWL, "xsd": XSD, "prov": PROV}
"""Prefixes whose IRI error messages may suggest."""

_ESCAPES: Final = {
    **{code: f"\\u{code:04X}" for code in (*range(0x20), 0x7F)},
    **str.maketrans({"\b": "\\b", "\t": "\\t", "\n": "\\n", "\f": "\\f", "\r": "\\r", '"': '\\"', "\\": "\\\\"}),
}
_NEEDS_ESCAPE: Final = re.compile(r'[\x00-\x1f\x7f"\\]')
_UNESCAPE: Final = re.compile(r"\\(?:u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8})|(.))", re.DOTALL)
_UNESCAPED: Final = {"t": "\t", "b": "\b", "n": "\n", "r": "\r", "f": "\f", '"': '"', "'": "'", "\\": "\\"}


def escaped(text: str) -> str:
    r"""Return the text with the escapes of a canonical literal.

    >>> print(escaped('say "hi"\n'))
    say \"hi\"\n
    """
    return text.translate(_ESCAPES) if _NEEDS_ESCAPE.search(text) else text


def unescaped(text: str) -> str:
    r"""Return the inverse of `escaped`; accepts every escape of N-Triples and Turtle.

    >>> unescaped(r'say \"hi\" \u00E9') == 'say "hi" é'
    True
    """
    if "\\" not in text:
        return text
    return _UNESCAPE.sub(lambda m: chr(int(m[1] or m[2], 16)) if m[1] or m[2] else _UNESCAPED[m[3]], text)


def invalid_escape(text: str) -> re.Match[str] | None:
    r"""Return the match of the first invalid escape of a text; None where all are valid.

    Valid are the escapes of N-Triples and Turtle, except those of surrogates.

    >>> [found[0] for text in (r"\n\.", r"\U0011000E", r"\uD800", r"\u12") if (found := invalid_escape(text))], invalid_escape(r"\\ \u00E9")
    (['\\.', '\\U0011000E', '\\uD800', '\\u'], None)
    """
    if "\\" not in text:
        return None
    for match in _ANY_ESCAPE.finditer(text):
        code = int(match[1] or match[2] or "0", 16)
        if 0xD800 <= code <= 0xDFFF or code > 0x10FFFF or (match[3] is not None and match[3] not in _UNESCAPED):
            return match
    return None


ESCAPE_HINT: Final = "Escapes are \\t \\n \\r \\\" \\' \\\\, and \\u00E9 or \\U0001F525 for a character; a backslash itself is \\\\."

_ANY_ESCAPE: Final = re.compile(r"\\(?:u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8})|(.?))", re.DOTALL)


def iri(text: str) -> Term:
    """Return the IRI term of an absolute IRI.

    >>> iri("http://example.org/a")
    '<http://example.org/a>'
    """
    return f"<{text}>"


def blank(label: str) -> Term:
    """Return the blank node term of a label: `_:label`."""
    return f"_:{label}"


def literal(lexical: str, datatype: str = XSD + "string", language: str = "") -> Term:
    """Return the literal term of a lexical form.

    - `datatype`: its IRI without brackets; unused with a language.
    - `language`: its tag, in any case, with its base direction if it has one: `ar--rtl`.

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
    """Return whether a term is an IRI."""
    return term[0] == "<" != term[1]


def is_blank(term: Term) -> bool:
    """Return whether a term is a blank node."""
    return term[0] == "_"


def is_literal(term: Term) -> bool:
    """Return whether a term is a literal."""
    return term[0] == '"'


def is_triple(term: Term) -> bool:
    """Return whether a term is a triple term."""
    return term[0] == "<" == term[1]


def can_be_subject(term: Term) -> bool:
    """Return whether a term is an IRI or a blank node (RDF 1.2 Concepts, section 3.1).

    >>> [can_be_subject(term) for term in ("<http://e/a>", "_:b", '"a"', "<<( <http://e/a> <http://e/p> _:b )>>")]
    [True, True, False, False]
    """
    return term >= "<="


def triple_term(subject: Term, predicate: Term, object: Term) -> Term | None:
    """Return the triple term of three terms, or None where they form no RDF triple.

    >>> triple_term("<http://e/a>", "<http://e/p>", '"1"'), triple_term('"1"', "<http://e/p>", "<http://e/a>")
    ('<<( <http://e/a> <http://e/p> "1" )>>', None)
    """
    return f"<<( {subject} {predicate} {object} )>>" if can_be_subject(subject) and is_iri(predicate) else None


def triple_parts(term: Term) -> Triple:
    """Return subject, predicate and object of a triple term.

    >>> triple_parts('<<( <http://e/a> <http://e/p> <<( _:b <http://e/p> " )>>" )>> )>>')
    ('<http://e/a>', '<http://e/p>', '<<( _:b <http://e/p> " )>>" )>>')
    """
    subject, predicate, value = term[4:-4].split(" ", 2)
    return subject, predicate, value


def rename_blanks(term: Term, rename: Rename) -> Term:
    """Return the term with its blank nodes renamed in order of appearance, also in triple terms.

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
    """Return the term with the labels of its blank nodes removed.

    >>> without_blank_labels("_:b"), without_blank_labels("<<( _:b <http://e/p> <http://e/a> )>>")
    ('_:', '<<( _: <http://e/p> <http://e/a> )>>')
    """
    return rename_blanks(term, lambda _: "_:")


def iri_text(term: Term) -> str:
    """Return the IRI of an IRI term, without its brackets."""
    return term[1:-1]


def literal_parts(term: Term) -> tuple[str, str, str]:
    """Return lexical form, datatype IRI and language tag (or `""`) of a literal term.

    A base direction belongs to the tag here, as in the text of the term.

    >>> literal_parts('"25"^^<http://www.w3.org/2001/XMLSchema#integer>')
    ('25', 'http://www.w3.org/2001/XMLSchema#integer', '')
    >>> literal_parts('"warm"@en')
    ('warm', 'http://www.w3.org/1999/02/22-rdf-syntax-ns#langString', 'en')
    >>> literal_parts('"x"@ar--rtl')
    ('x', 'http://www.w3.org/1999/02/22-rdf-syntax-ns#dirLangString', 'ar--rtl')
    """
    end = term.rindex('"')
    lexical, rest = unescaped(term[1:end]), term[end + 1 :]
    if not rest:
        return lexical, XSD + "string", ""
    if rest[0] == "@":
        return lexical, LANGUAGE_STRINGS["--" in rest], rest[1:]
    return lexical, rest[3:-1], ""


DIRECTIONS: Final = ("ltr", "rtl")
"""Base directions of a text (RDF 1.2 Concepts, section 3.4)."""
LANGUAGE_STRINGS: Final = (RDF + "langString", RDF + "dirLangString")
"""Datatypes of literals with a language tag: without a base direction, and with one."""
RDF_TYPE: Final = iri(RDF + "type")
RDF_FIRST: Final = iri(RDF + "first")
RDF_REST: Final = iri(RDF + "rest")
RDF_NIL: Final = iri(RDF + "nil")
RDF_REIFIES: Final = iri(RDF + "reifies")
TRUE: Final = literal("true", XSD + "boolean")
FALSE: Final = literal("false", XSD + "boolean")
