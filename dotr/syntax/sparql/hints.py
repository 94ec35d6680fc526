"""Hints for syntax errors: operators of other languages, missing separators, surplus arguments."""

from __future__ import annotations

from collections.abc import Sequence

from dotr.evaluation.expressions.functions import FUNCTIONS
from dotr.syntax.sparql.keywords import FUNCTION_SYNONYMS
from dotr.syntax.sparql.tokens import SparqlTokenKind, Token

_NUMBERS = ("no argument", "one argument", "two arguments", "three arguments", "four arguments")


def syntax_hint(tokens: Sequence[Token], index: int | None) -> str:
    """Return a hint for the unexpected token at `index`, or an empty string.

    `index` is None at the end of the text.
    """
    if index is None:
        last = tokens[-1].text
        return f"Something is missing after {last}." if last not in (")", "}") and not last[-1].isalnum() else ""
    token = tokens[index]
    previous = tokens[index - 1] if index else None
    if previous is not None and previous.text == token.text == "=":
        return "Equality is written =."
    if previous is not None and previous.text.upper() == "NOT":
        return "Write !( … ), NOT IN ( … ) or NOT EXISTS { … }."
    if previous is not None and previous.text.upper() in ("LIMIT", "OFFSET"):
        return f"{previous.text.upper()} takes a whole number: {previous.text.upper()} 10."
    if previous is not None and previous.text.upper() == "WINDOW":
        return "Write the name of a window: WINDOW <w> { … }."
    following = tokens[index + 1] if index + 1 < len(tokens) else None
    if previous is not None and following is not None and _is_term(previous):
        if token.kind is SparqlTokenKind.REFERENCE and following.text == "=":
            return f"Is a comma missing before {token.text}? Assignments are separated by commas."
        if token.kind in (SparqlTokenKind.VARIABLE, SparqlTokenKind.IRI, SparqlTokenKind.BLANK) and (
            following.kind in _VERBS or following.text in ("a", "^", "!", "(")
        ):
            return f"Is a dot missing before {token.text}? Triples are separated by dots, objects of one subject and predicate by commas."
    if token.text in (",", ")"):
        return _arity_hint(tokens, index)
    return ""


_VERBS = (SparqlTokenKind.IRI, SparqlTokenKind.VARIABLE)
_TERMS = (
    SparqlTokenKind.IRI,
    SparqlTokenKind.VARIABLE,
    SparqlTokenKind.LITERAL,
    SparqlTokenKind.NUMBER,
    SparqlTokenKind.BLANK,
    SparqlTokenKind.REFERENCE,
    SparqlTokenKind.QUOTED,
)


def _is_term(token: Token) -> bool:
    """Return whether an operand or an object may end with a token."""
    return token.kind in _TERMS or token.text in ("]", ")")


def _arity_hint(tokens: Sequence[Token], index: int) -> str:
    """Return a sentence on the arity of the function around the token at `index`; may be empty."""
    depth = 0
    for number in range(index - 1, 0, -1):
        text = tokens[number].text
        depth += (text == ")") - (text == "(")
        if depth < 0:
            name = tokens[number - 1].text.upper()
            function = FUNCTIONS.get(FUNCTION_SYNONYMS.get(name, name))
            least, most = (3, 3) if name == "IF" else (function.least, function.most) if function is not None else (0, 0)
            if name == "IRI" or name == "URI":
                most = 1  # the second argument is the BASE of the query
            if not least:
                return ""
            return (
                f"{name} takes {_NUMBERS[least]}." if least == most else f"{name} takes {_NUMBERS[least]} or {_NUMBERS[most].split()[0]}."
            )
    return ""
