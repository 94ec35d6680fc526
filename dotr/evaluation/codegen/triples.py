"""Generated Python that constructs triples: for `define` from variables, for `map` from the cells
of a row.

Idea: if no term is missing, one `return` of a tuple display; otherwise each triple is tested by
itself.
Invariant: triples are in the template's order, each once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from dotr.evaluation.codegen import define
from dotr.evaluation.codegen.printer import printed
from dotr.evaluation.codegen.tree import Assign, Block, CodeNode, Emit, GeneratedFunction, IfElse, Return
from dotr.model import dataclass


@dataclass(frozen=True, slots=True)
class TermCode:
    """A term of a triple as code.

    `guards` are the conditions under which the term is valid at its position; `fixed` identifies a
    constant or fresh term, None where any term may come.
    """

    code: str
    guards: tuple[str, ...] = ()
    fixed: str | None = None


TripleCode: TypeAlias = tuple[TermCode, TermCode, TermCode]


def triple_term_code(parts: TripleCode) -> TermCode:
    """A triple term, valid if all its parts are.

    >>> triple_term_code((TermCode("v0", ("v0 is not None",)), TermCode("'<p>'", fixed="<p>"), TermCode("n0", fixed="n0")))
    TermCode(code="('<<( ' + v0 + ' ' + '<p>' + ' ' + n0 + ' )>>')", guards=('v0 is not None',), fixed=None)
    """
    text = " + ' ' + ".join(part.code for part in parts)
    fixed = [part.fixed for part in parts if part.fixed is not None]
    guards = tuple(dict.fromkeys(guard for part in parts for guard in part.guards))
    return TermCode(f"('<<( ' + {text} + ' )>>')", guards, f"<<( {' '.join(fixed)} )>>" if len(fixed) == len(parts) else None)


def may_coincide(triples: Sequence[TripleCode], place: int = 0) -> bool:
    """True if two of the triples can be equal, from a place (0: the subject) on.

    Triples with the same fixed term at a place are compared with each other, and with those where
    any term may come: the cost is linear where few of these are beside many fixed ones.
    """
    if len(triples) < 2 or place == 3:
        return len(triples) > 1
    fixed: dict[str | None, list[TripleCode]] = {}
    for triple in triples:
        fixed.setdefault(triple[place].fixed, []).append(triple)
    anything = fixed.pop(None, [])
    groups = [group + anything for group in fixed.values()] or [anything]
    return any(may_coincide(group, place + 1) for group in groups)


def return_triples(triples: Sequence[TripleCode], finish: str = "{}") -> list[CodeNode]:
    """The statements that return the tuple of triples and the number of dropped ones.

    `finish` is applied to the tuple if triples were dropped. A template of one triple, whose object
    may be missing:

    >>> triple = TermCode("n0", fixed="n0"), TermCode("'<http://e/at>'", fixed="<http://e/at>"), TermCode("v0", ("v0 is not None",))
    >>> print(printed(GeneratedFunction("make", "n0, v0", return_triples([triple]))))
    def make(n0, v0):
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
    displays = [f"({', '.join(piece.code for piece in triple)})" for triple in triples]
    guards = [list(dict.fromkeys(guard for piece in triple for guard in piece.guards)) for triple in triples]
    every = list(dict.fromkeys(guard for of_triple in guards for guard in of_triple))
    display_of_all = f"({''.join(display + ', ' for display in displays)})"
    once = "tuple(dict.fromkeys({}))" if may_coincide(triples) else "{}"
    complete = Return(f"{once.format(display_of_all)}, 0")
    if not every:
        return [complete]
    block: list[CodeNode] = [IfElse([(" and ".join(every), [complete])]), Assign("triples", "[]"), Assign("dropped", "0")]
    for display, conditions in zip(displays, guards, strict=True):
        emit = Emit("triples.append", display)
        block.append(IfElse([(" and ".join(conditions), [emit])], [Assign("dropped", "dropped + 1")]) if conditions else emit)
    return [*block, Return(f"{finish.format('tuple(dict.fromkeys(triples))')}, dropped")]


def compile_triples(kind: str, arguments: str, block: Block, names: Mapping[str, object]) -> Callable[..., Any]:
    """The function with these arguments and this body; `kind` names it in tracebacks."""
    return define(printed(GeneratedFunction("make", arguments, block)), kind, "make", names)
