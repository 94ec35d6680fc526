"""Expectations of rule tests as YAML: an output as a new entry, terms and graphs as scalars."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Set
from typing import Final

from dotr.commands.test.difference import Item
from dotr.evaluation.expressions.values.times import format_time
from dotr.model.terms import RDF_TYPE, Prefixes, Term, is_triple, rename_blanks, triple_parts
from dotr.model.time import Clock
from dotr.syntax.rendering import predicate_text, term_text

_PLAIN_SCALAR: Final = re.compile(r"[+-]?[0-9]+(?:\.[0-9]+)?|true|false")


def entry_text(item: Item, fields: Set[str], clock: Clock, prefixes: Prefixes) -> str:
    """A flow mapping that expects an output, or a fact of interest.

    `fields` are the keys to write of `rule`, `attributes` and `graph`, and `fact` for a fact.

    >>> item = Item(12_000_000, "Fire", "R", frozenset({"n: <http://e/a>"}), frozenset())
    >>> entry_text(item, {"attributes"}, Clock(), {"": "http://e/"})
    '{ at: 12, event: Fire, attributes: { n: ":a" } }'
    """
    parts = [f"at: {format_time(item.time, clock)}", f"{'fact' if 'fact' in fields else 'event'}: {item.kind}"]
    if "rule" in fields and item.rule is not None:
        parts.append(f"rule: {item.rule}")
    if "attributes" in fields and item.attributes is not None:
        parts.append(f"attributes: {attributes_text(item.attributes, prefixes)}")
    if "graph" in fields and item.graph is not None:
        parts.append(f"graph: {scalar_text(graph_text(item.graph, prefixes))}")
    return f"{{ {', '.join(parts)} }}"


def attribute_terms(attributes: Set[str]) -> Mapping[str, Term]:
    """Terms of comparable attributes by name, sorted by name."""
    return {name: term for name, _, term in (line.partition(": ") for line in sorted(attributes))}


def attributes_text(attributes: Set[str], prefixes: Prefixes) -> str:
    """A flow mapping of comparable attributes."""
    texts = [f"{name}: {scalar_text(term_text(_renamed(term), prefixes))}" for name, term in attribute_terms(attributes).items()]
    return f"{{ {', '.join(texts)} }}" if texts else "{}"


def scalar_text(text: str) -> str:
    r"""A YAML scalar, in quotes unless it is a plain number, true or false.

    >>> [scalar_text(text) for text in ("3", ":a", '"it\'s"@en')] == ["3", '":a"', "'\"it''s\"@en'"]
    True
    """
    if _PLAIN_SCALAR.fullmatch(text):
        return text
    return f'"{text}"' if '"' not in text and "\\" not in text else "'" + text.replace("'", "''") + "'"


def graph_text(graph: Set[str], prefixes: Prefixes) -> str:
    """Turtle of a comparable graph, on one line. Blank nodes that are no objects have no names.

    >>> graph_text(frozenset({"_:c14n0 <http://e/of> <http://e/a>", f"_:c14n0 {RDF_TYPE} <http://e/A>"}), {"": "http://e/"})
    '[] a :A ; :of :a .'
    """
    parts = [each.split(" ", 2) for each in graph]
    triples = sorted((subject, predicate != RDF_TYPE, predicate, value) for subject, predicate, value in parts)
    objects = Counter(term for *_, value in triples for term in _terms_in(value))
    statements: dict[Term, list[str]] = {}
    for subject, _, predicate, value in triples:
        statement = f"{predicate_text(predicate, prefixes)} {term_text(_renamed(value), prefixes)}"
        statements.setdefault(subject, []).append(statement)
    texts = []
    for subject, each in statements.items():
        name = "[]" if subject.startswith("_:") and not objects[subject] else term_text(_renamed(subject), prefixes)
        texts.append(f"{name} {' ; '.join(each)} .")
    return " ".join(texts)


def _terms_in(term: Term) -> list[Term]:
    """A term, or the terms inside a triple term."""
    return [inner for part in triple_parts(term) for inner in _terms_in(part)] if is_triple(term) else [term]


def _renamed(term: Term) -> Term:
    """A term with short names of blank nodes: `_:b0` for `_:c14n0`.

    >>> _renamed("_:c14n12"), _renamed('"_:c14n12"')
    ('_:b12', '"_:c14n12"')
    """
    if is_triple(term):
        return rename_blanks(term, lambda blank: blank.replace("_:c14n", "_:b"))
    return term.replace("_:c14n", "_:b", 1) if term.startswith("_:") else term
