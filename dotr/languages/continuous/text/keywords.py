"""Keywords of continuous queries, and refused keywords of SPARQL and of other engines."""

from __future__ import annotations

from typing import Final

from dotr.languages.continuous.codes import WindowCode
from dotr.syntax.sparql.keywords import KEYWORDS, REFUSED_KEYWORDS, Dialect

_PATTERNS: Final = frozenset(("WINDOW", "MATCH", "CONSUMING", "EVENT", "FIRST", "LAST", "SEQ", "NAIVE", "CHRONOLOGICAL", "RECENT", "AT"))
_SAME_ANSWER: Final = "A run must give the same output whenever it is repeated. The time of an event is EVENT … AT ?t."
BACKGROUND: Final = "The background is `knowledge.graphs` of the configuration; a pattern over a window is written WINDOW <w> { … }."
_NO_STREAM: Final = (
    "Declare the window before WHERE, FROM NAMED WINDOW <w> ON <stream> [RANGE 10s STEP 5s], or [NOW], and read it with WINDOW <w> { … }."
)
_AGGREGATE: Final = "Write it in the SELECT line, SELECT ?x (AVG(?y) AS ?mean), and GROUP BY ?x behind the pattern."
_SEQUENCE: Final = "Write SEQ: MATCH { EVENT <w> { … } SEQ EVENT <w> { … } }."
_REGIME: Final = (
    "Write the regime into the configuration, knowledge: { entailment: rdfs } or owl2rl; what a window derives from it is of the window: "
    "[RANGE 10s STEP 5s ENTAILMENT WINDOW]."
)
TIMESTAMP_HINT: Final = "Write MATCH { EVENT <w> AT ?t { … } }: ?t is the time of the element that has the triples."

CONTINUOUS: Final = Dialect(
    keywords=KEYWORDS | _PATTERNS,
    refused={
        **REFUSED_KEYWORDS,
        **{
            word: (REFUSED_KEYWORDS[word][0], REFUSED_KEYWORDS[word][1], _SAME_ANSWER)
            for word in ("NOW", "RAND", "UUID", "STRUUID", "BNODE")
        },
        **{
            word: (REFUSED_KEYWORDS[word][0], f"{word} is refused", "A query changes nothing: write SELECT, CONSTRUCT or ASK.")
            for word in ("INSERT", "DELETE", "LOAD", "CLEAR", "DROP", "CREATE", "ADD", "MOVE", "COPY", "WITH", "USING")
        },
        "DESCRIBE": (REFUSED_KEYWORDS["DESCRIBE"][0], "DESCRIBE is refused", "Write CONSTRUCT: its template says which triples it gives."),
        **{
            word: (WindowCode.UNEXPECTED, f"{word} inside a query", "A query begins with SELECT, CONSTRUCT or ASK, and has no other in it.")
            for word in ("CONSTRUCT", "ASK")
        },
        "GRAPH": ("Q107", "GRAPH is refused", BACKGROUND),
        "FROM": (WindowCode.UNEXPECTED, "FROM behind the pattern", "Write FROM … before WHERE."),
        "AGGREGATE": (WindowCode.OTHER_SYNTAX, "AGGREGATE { … } is C-SPARQL's", _AGGREGATE),
        **{word: (WindowCode.OTHER_SYNTAX, f"{word} is no operator of MATCH", _SEQUENCE) for word in ("THEN", "SEQUENCE", "FOLLOWED")},
        "UNDER": (WindowCode.OTHER_SYNTAX, "UNDER ENTAILMENT REGIME is RSP-QL's", _REGIME),
        "STREAM": (WindowCode.OTHER_SYNTAX, "STREAM in a pattern is CQELS-QL", _NO_STREAM),
        "TIMESTAMP": (WindowCode.TIMESTAMP, "timestamp() is C-SPARQL's", TIMESTAMP_HINT),
    },
    has_references=False,
    names_after=frozenset(("WINDOW", "EVENT")),
)
