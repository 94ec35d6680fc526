"""Keywords of SPARQL SELECT queries, and refused keywords with the reason."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from dotr.model import dataclass

AGGREGATES: Final = ("COUNT", "SUM", "MIN", "MAX", "AVG", "SAMPLE", "GROUP_CONCAT")

_FUNCTIONS = (
    "STR LANG LANGMATCHES DATATYPE BOUND IRI URI ABS CEIL FLOOR ROUND CONCAT SUBSTR STRLEN REPLACE UCASE LCASE ENCODE_FOR_URI "
    "CONTAINS STRSTARTS STRENDS STRBEFORE STRAFTER YEAR MONTH DAY HOURS MINUTES SECONDS TIMEZONE TZ MD5 SHA1 SHA256 SHA384 SHA512 "
    "COALESCE IF STRLANG STRDT SAMETERM ISIRI ISURI ISBLANK ISLITERAL ISNUMERIC REGEX EXISTS"
)
_CLAUSES = (
    "SELECT DISTINCT REDUCED AS WHERE OPTIONAL MINUS UNION FILTER BIND VALUES UNDEF NOT IN GROUP BY HAVING ORDER ASC DESC "
    "LIMIT OFFSET SEPARATOR"
)
SPARQL_12_FUNCTIONS: Final = frozenset(
    ("TRIPLE", "ISTRIPLE", "SUBJECT", "PREDICATE", "OBJECT", "LANGDIR", "HASLANG", "HASLANGDIR", "STRLANGDIR")
)
"""Functions of SPARQL 1.2, which rdflib's grammar does not have."""

KEYWORDS: Final = frozenset((*AGGREGATES, *_FUNCTIONS.split(), *_CLAUSES.split(), *SPARQL_12_FUNCTIONS))

_ONE_GRAPH = "A query reads one graph, the knowledge at one instant."
_SAME_ANSWER = "A run must give the same output whenever it is repeated; use the event's time, time(L), or names dotr_id… in the template."

FUNCTION_SYNONYMS: Final = {"URI": "IRI", "ISURI": "ISIRI"}

REFUSED_KEYWORDS: Final[dict[str, tuple[str, str, str]]] = {
    "SERVICE": ("Q107", "SERVICE is refused: a query reads no other endpoint", "Load what it needs as background knowledge."),
    "FROM": ("Q107", "FROM is refused", _ONE_GRAPH),
    "NAMED": ("Q107", "NAMED is refused", _ONE_GRAPH),
    "GRAPH": ("Q107", "GRAPH is refused", _ONE_GRAPH),
    "LATERAL": ("Q107", "LATERAL is not SPARQL 1.1", "Write a sub-query."),
    **{
        word: ("Q106", f"{word} is refused: a query must be a SELECT", "A rule's define template says what is built from its variables.")
        for word in ("CONSTRUCT", "DESCRIBE", "ASK")
    },
    **{
        word: ("Q106", f"{word} is refused: a query must be a SELECT and changes nothing", "")
        for word in ("INSERT", "DELETE", "LOAD", "CLEAR", "DROP", "CREATE", "ADD", "MOVE", "COPY", "WITH", "USING")
    },
    **{
        word: ("Q108", f"{word} is refused: its value is not a function of the input", _SAME_ANSWER)
        for word in ("NOW", "RAND", "UUID", "STRUUID")
    },
    "BNODE": ("Q108", "BNODE is refused: a query makes no new nodes", _SAME_ANSWER),
    **{word: ("Q101", f"{word} must come first", "Declare prefixes and the base before SELECT.") for word in ("PREFIX", "BASE")},
}
"""Code, message and hint by keyword."""


@dataclass(frozen=True, slots=True)
class Dialect:
    """Words of a language that embeds SPARQL.

    - `keywords`: all accepted words.
    - `refused`: code, message and hint by refused word.
    - `has_references`: `M.?v` and `time(L)` are part of the language.
    - `names_after`: words behind which `<w>` is a plain name if there is no BASE.
    """

    keywords: frozenset[str]
    refused: Mapping[str, tuple[str, str, str]]
    has_references: bool
    names_after: frozenset[str] = frozenset()


SELECT_QUERIES: Final = Dialect(KEYWORDS, REFUSED_KEYWORDS, has_references=True)
"""Queries and conditions of rules."""
