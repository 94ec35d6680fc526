"""Words of EP-SPARQL: operators, functions of the interval, and refused keywords of SPARQL."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from dotr.model.terms import Variable
from dotr.syntax.sparql.keywords import KEYWORDS, REFUSED_KEYWORDS, Dialect
from dotr.temporal.intervals.patterns import DURATION, END, START, TemporalOperator

OPERATORS: Final[Mapping[str, TemporalOperator]] = {operator.value: operator for operator in TemporalOperator}
SEQUENCES: Final = ("THEN", "SEQUENCE", "FOLLOWED", "BEFORE")
"""Words of other languages for SEQ."""
TEMPORAL: Final = frozenset((*OPERATORS, *SEQUENCES, "SEQOPTIONAL", "EVENT", "WITHIN"))
"""Words that make a group a chain."""
MODIFIERS: Final = ("GROUP", "HAVING", "ORDER", "LIMIT", "OFFSET", "VALUES")
"""Words of SPARQL that may follow WHERE."""
FUNCTIONS: Final[Mapping[str, Variable]] = {"GETDURATION": DURATION, "GETSTARTTIME": START, "GETENDTIME": END}

_SAME_ANSWER: Final = (
    "A run must give the same output whenever it is repeated. The times of a solution are getSTARTTIME() and getENDTIME()."
)
BACKGROUND: Final = "The background is `knowledge.graphs` of the configuration; a plain group reads it with the instant."

PLAIN: Final = Dialect(
    keywords=KEYWORDS | frozenset(FUNCTIONS),
    refused={
        **REFUSED_KEYWORDS,
        **{
            word: (REFUSED_KEYWORDS[word][0], REFUSED_KEYWORDS[word][1], _SAME_ANSWER)
            for word in ("NOW", "RAND", "UUID", "STRUUID", "BNODE")
        },
        **{word: (REFUSED_KEYWORDS[word][0], f"{word} is refused", BACKGROUND) for word in ("GRAPH", "FROM", "NAMED")},
        **{
            word: (REFUSED_KEYWORDS[word][0], f"{word} inside a group", "A unit has one form: SELECT or CONSTRUCT, before WHERE.")
            for word in ("CONSTRUCT", "DESCRIBE", "ASK")
        },
    },
    has_references=False,
)
"""Dialect of plain groups and expressions."""
