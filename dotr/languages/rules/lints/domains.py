"""Domains of functions: finds calls that err on all data.

Idea: a call always errs if the kinds that its argument can have (`kinds.py`) and those that the
function accepts (the table here) are disjoint.
Invariant: the row of a function has all kinds that it accepts, so there is no false alarm.
Source: SPARQL 1.1, section 17.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from dotr.evaluation.expressions.casts import CASTS
from dotr.evaluation.expressions.kinds import ANYTHING, Scope, TermKind, TermKinds, expression_kinds
from dotr.model.algebra import Call, Expression, is_chain
from dotr.model.terms import XSD, Variable

_NODES: Final = frozenset({TermKind.IRI, TermKind.BLANK})
_NO_TEXT: Final = frozenset({TermKind.BLANK, TermKind.TRIPLE})
_TRIPLE: Final = frozenset({TermKind.TRIPLE})
_LITERALS: Final = ANYTHING - _NODES - _TRIPLE
_TEXT: Final = frozenset({TermKind.STRING, TermKind.OTHER})
_NUMBER: Final = frozenset({TermKind.NUMBER})
_QUANTITY: Final = frozenset({TermKind.NUMBER, TermKind.OTHER})
_MOMENT: Final = frozenset({TermKind.OTHER})
_IRI: Final = frozenset({TermKind.IRI})

ACCEPTED_KINDS: Final[Mapping[str, tuple[TermKinds, ...]]] = {
    **dict.fromkeys(("+", "-", "*", "/", "UNARY-", "UNARY+"), (_QUANTITY,)),
    "!": (_LITERALS,),
    **dict.fromkeys(("STRLEN", "UCASE", "LCASE", "ENCODE_FOR_URI", "CONCAT", "MD5", "SHA1", "SHA256", "SHA384", "SHA512"), (_TEXT,)),
    **dict.fromkeys(("STRSTARTS", "STRENDS", "CONTAINS", "STRBEFORE", "STRAFTER", "REGEX", "REPLACE", "LANGMATCHES"), (_TEXT,)),
    "SUBSTR": (_TEXT, _NUMBER),
    **dict.fromkeys(("ABS", "CEIL", "FLOOR", "ROUND"), (_NUMBER,)),
    **dict.fromkeys(("YEAR", "MONTH", "DAY", "HOURS", "MINUTES", "SECONDS", "TIMEZONE", "TZ"), (_MOMENT,)),
    **dict.fromkeys(("LANG", "DATATYPE"), (_LITERALS,)),
    "STR": (ANYTHING - _NO_TEXT,),
    **dict.fromkeys(("SUBJECT", "PREDICATE", "OBJECT"), (_TRIPLE,)),
    "TRIPLE": (_NODES, _IRI, ANYTHING),
    "IRI": (_IRI | _TEXT,),
    "STRDT": (_TEXT, _IRI),
    "STRLANG": (_TEXT,),
    **{name: (_LITERALS if name != f"<{XSD}string>" else ANYTHING - _NO_TEXT,) for name in CASTS},
}
"""The kinds that each function accepts by argument; the last entry is for all further ones."""

NUMERIC_AGGREGATES: Final = ("sum", "avg")


class MisusedArgument(NamedTuple):
    """Argument of which the possible `kinds` and the `accepted` kinds are disjoint."""

    function: str
    argument: Expression
    kinds: TermKinds
    accepted: TermKinds


def misused_arguments(expression: Expression, own: Mapping[Variable, TermKinds], bound: Scope) -> Iterator[MisusedArgument]:
    """The arguments outside of their function's domain, the innermost first.

    `own` are the kinds of variables, `bound` those of `M.?v`.
    """
    if not isinstance(expression, Call):
        return
    for argument in expression.arguments:
        yield from misused_arguments(argument, own, bound)
    accepted_kinds = (_QUANTITY,) if is_chain(expression.function) else ACCEPTED_KINDS.get(expression.function)
    if accepted_kinds is None:
        return
    for index, argument in enumerate(expression.arguments):
        accepted = accepted_kinds[min(index, len(accepted_kinds) - 1)]
        kinds = expression_kinds(argument, own, bound)
        if kinds and not kinds & accepted:
            yield MisusedArgument(expression.function, argument, kinds, accepted)


def misuse_hint(misused: MisusedArgument, argument_text: str) -> str:
    """The replacement to suggest for a misused argument with the given text; may be empty."""
    if TermKind.STRING in misused.accepted and TermKind.NUMBER not in misused.accepted and not misused.kinds <= _NO_TEXT:
        return f"Write STR({argument_text})."
    if TermKind.NUMBER in misused.accepted and TermKind.STRING in misused.kinds and TermKind.STRING not in misused.accepted:
        return f"Write xsd:decimal({argument_text})."
    return ""
