"""Compilation of `define` templates to Python (semantics.md, section 5).

Invariant: the result is a function of the values and the seed; its triples are RDF, in the
template's order, each once.
Cost: about half a microsecond for a one-triple template, and as much again for a fresh name.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from hashlib import blake2b
from typing import TypeAlias, assert_never

from dotr.evaluation.codegen.tree import Assign
from dotr.evaluation.codegen.triples import TermCode, TripleCode, compile_triples, return_triples, triple_term_code
from dotr.evaluation.limits import counted
from dotr.model import dataclass
from dotr.model.algebra import Const, Var
from dotr.model.templates import Blank, Cell, CellIri, CellLiteral, Fresh, Template, TemplateSlot, TemplateTerm, leaves
from dotr.model.terms import Label, Term, Triple, Variable
from dotr.model.time import Micros

InstantiateTemplate: TypeAlias = Callable[[Sequence[Term | None], bytes], tuple[tuple[Triple, ...], int]]


@dataclass(frozen=True, slots=True)
class CompiledTemplate:
    """A compiled template.

    `instantiate(values, seed)` returns a firing's triples and the number of dropped ones: triples
    with an unbound variable or a term that RDF does not allow at its position. `values` follow the
    variables of the compilation. The seed is the `match_digest`, ignored unless the template
    `has_fresh_names`. The bytes of triple terms are counted: it raises `LimitExceeded`.
    """

    instantiate: InstantiateTemplate
    has_fresh_names: bool


def compile_template(template: Template, variables: Sequence[Variable]) -> CompiledTemplate:
    """Compiles a `define` template; variables of it outside `variables` are unbound.

    >>> template = Template(((Fresh("dotr_id1"), Const("<http://e/at>"), Var("room")),))
    >>> compiled = compile_template(template, ["room"])
    >>> compiled.instantiate(["<http://e/A>"], b"seed")
    ((('<urn:dotr:b1b8b5cc8d1a6ff3bfef2ff130054212>', '<http://e/at>', '<http://e/A>'),), 0)
    >>> compiled.instantiate([None], b"seed")
    ((), 1)
    >>> from inspect import getsource
    >>> print(getsource(compiled.instantiate))
    def make(values, seed):
        v0 = values[0]
        n0 = '<urn:dotr:' + blake2b(b'dotr_id1' + seed, digest_size=16).hexdigest() + '>'
        if v0 is not None:
            return ((n0, '<http://e/at>', v0), ), 0
        triples = []
        dropped = 0
        if v0 is not None:
            triples.append((n0, '<http://e/at>', v0))
        else:
            dropped = dropped + 1
        return tuple(dict.fromkeys(triples)), dropped
    <BLANKLINE>
    """
    slots = list(leaves(template))
    positions = {name: variables.index(name) for slot in slots if isinstance(slot, Var) and (name := slot.name) in variables}
    fresh = list(dict.fromkeys(slot for slot in slots if isinstance(slot, Fresh | Blank)))
    names = [Assign(f"v{position}", f"values[{position}]") for position in sorted(set(positions.values()))]
    # A fresh IRI and a blank node of one template may have the same text for a name: the kind is hashed too.
    for number, slot in enumerate(fresh):
        kind = "" if isinstance(slot, Fresh) else "_:"
        start, end = ("<urn:dotr:", ">") if isinstance(slot, Fresh) else ("_:b", "")
        digest = f"blake2b({(kind + slot.name).encode()!r} + seed, digest_size=16).hexdigest()"
        names.append(Assign(f"n{number}", f"{start!r} + {digest} + {end!r}"))

    def piece(slot: TemplateSlot, place: int) -> TermCode:
        match slot:
            case Const(term):
                return TermCode(repr(term), fixed=term)
            case Fresh() | Blank():
                number = fresh.index(slot)
                return TermCode(f"n{number}", fixed=f"n{number}")
            case Var(name) if name not in positions:
                return TermCode("None", ("False",))
            case Var(name):
                code = f"v{positions[name]}"
                # RDF 1.2 Concepts, section 3.1: a subject is no literal and no triple term, a predicate is an IRI.
                forms = (f"{code} >= '<='", f"'<=' <= {code} < '='", "")
                return TermCode(code, (f"{code} is not None", *filter(None, [forms[place]])))
            case TemplateTerm(subject, predicate, object):
                made = triple_term_code((piece(subject, 0), piece(predicate, 1), piece(object, 2)))
                return replace(made, code=f"counted({made.code})")
            case Cell() | CellIri() | CellLiteral():
                raise ValueError("cells belong to the map of a CSV input")
            case _:
                assert_never(slot)

    triples: list[TripleCode] = [(piece(s, 0), piece(p, 1), piece(o, 2)) for s, p, o in template.triples]
    return CompiledTemplate(
        compile_triples("template", "values, seed", [*names, *return_triples(triples)], {"blake2b": blake2b, "counted": counted}),
        bool(fresh),
    )


# Fresh names of firings (semantics.md, section 5).
#
# Idea: a name is a hash of the rule, the time, the match with its ordinal among equal ones, and the
# name's own text in the template.
# Invariant: a replay gives the same name, and two firings never share one.
# Cost: about 2 µs per match, 0.5 µs if many rules bind the same events, and 0.5 µs per name.


def match_digest(rule: str, time: Micros, bound: Sequence[tuple[Label, Micros, Sequence[Term | None]]], ordinal: int) -> bytes:
    r"""A digest (16 bytes) that identifies a match.

    `bound` holds every bound event: its label, time (µs) and attribute values.

    >>> smoke = ("Smoke", 12, ('"A"', None))
    >>> match_digest("R", 12, [smoke], 0).hex()
    '47723c30b656bbe3aafda0fcd8946b07'
    >>> match_digest("R", 12, [smoke], 0) == match_digest("R", 12, [smoke], 1)
    False
    >>> match_digest("R", 12, [smoke], 0) == match_digest("R", 12, [("Smoke", 12, (None, '"A"'))], 0)
    False
    """
    return digest_of(rule.encode(), match_text(time, bound, ordinal))


def match_text(time: Micros, bound: Sequence[tuple[Label, Micros, Sequence[Term | None]]], ordinal: int) -> bytes:
    """The text of a match without the rule's name, shared by rules that bind the same events
    under the same labels."""
    # No name and no canonical term holds a control character, so the text below reads back in one way only.
    parts = [f"\0{time}\0{ordinal}"]
    for label, when, values in bound:
        parts.append(f"\1{label}\0{when}")
        parts += [value or "" for value in values]
    return "\0".join(parts).encode()


def digest_of(rule: bytes, text: bytes) -> bytes:
    """The digest of a rule's match with this text."""
    return blake2b(rule + text, digest_size=16).digest()
