"""Random programs of `staged_programs` with replaced terms and constructs.

A program is changed as text: the values of its keys (NaN, doubles, language tags, date-times, durations, blank nodes, IRIs, triple terms),
its queries (VALUES, DISTINCT, GROUP BY, computed and background attributes), its constraints (disjunctions, sameTerm, IN, times), its
aggregates, windows and consumption. Several nodes may be in one element, so that facts share blank nodes.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Sequence
from typing import Final

from dotr.model.stream import Element
from dotr.model.terms import XSD, Term, literal
from tests.support.staged_programs import NAMESPACE, RandomProgram, random_program

_TERMS: Final[Sequence[Term]] = (
    *(literal(text, XSD + "double") for text in ("NaN", "1.0E0", "0", "-0.0", "INF")),
    *(literal(text, XSD + "decimal") for text in ("0.1", "1.0", "2.00")),
    *(literal(text, XSD + "integer") for text in ("0", "01", "2", "16777217", "9007199254740993", "many")),
    *(literal("0.1", XSD + kind) for kind in ("float", "double")),
    *(literal(text, XSD + "dateTime") for text in ("2020-01-01T00:00:00Z", "2020-01-01T01:00:00+01:00", "2020-01-01T00:00:00")),
    *(literal("PT60S", XSD + "duration"), literal("PT1M", XSD + "dayTimeDuration")),
    *(literal(text, XSD + "boolean") for text in ("true", "1")),
    *('"a"', '"a"@en', '"a"@EN', '""', f'"a"^^<{NAMESPACE}t>', f"<{NAMESPACE}n1>", f"<{NAMESPACE}n2>"),
    *("_:0", "_:1", "_:2"),
    *(f'<<( <{NAMESPACE}s> <{NAMESPACE}p> "{text}"^^<{XSD}{kind}> )>>' for text, kind in (("1", "integer"), ("1.0", "decimal"))),
)

_Choice = Callable[[random.Random, re.Match[str]], str]


def _one_of(*texts: str) -> _Choice:
    """One of the texts, in which `\\1` is the first group."""
    return lambda choose, found: found.expand(choose.choice(texts))


_CHANGES: Final[Sequence[tuple[str, float, _Choice]]] = (
    (r"\b(last|first) 2 ", 0.4, _one_of(r"\1 3 ", r"\1 1 ", r"\1 ")),
    (r"\beach (C\d)", 0.1, _one_of(r"last 3 \1", r"first 4 \1")),
    (
        r"(sum|max)\((C\d\.\?)v\)",
        0.6,
        _one_of(
            r"min(\2v)", r"avg(\2v)", r"median(\2v)", r"stddev(distinct \2v)", r"sum(distinct \2v)", r"count(\2k)", r"max(distinct \2l)"
        ),
    ),
    (
        r"(?<![.\w])(\?[klv]) = ([AC]\d\.\?[klv])",
        0.08,
        _one_of(r"sameTerm(\1, \2)", r"(\1 = \2 || \1 < \2)", r"\1 IN (\2, 1)", r"!(\1 != \2)"),
    ),
    (
        r"(?<![.\w])(\?[klv]) = ([AC]\d)(\.\?[klv])",
        0.1,
        _one_of(r"\1 = \2\3 && time(\2) > 3", r"\1 = \2\3 && \1 = \2.?v", r"\1 != time(\2)"),
    ),
    (
        r"SELECT (\?k \?l \?v)( \?x)? WHERE \{ \?x a",
        0.15,
        _one_of(r"SELECT DISTINCT \1 WHERE { ?x a", r"SELECT REDUCED \1 ?x WHERE { ?x a"),
    ),
    (
        r"\?x a :(\w) \. \?x :k \?k \.",
        0.2,
        _one_of(r"VALUES ?k { 0 1 1.0 } ?x a :\1 ; :k ?k .", r"?x a :\1 . ?y :k ?k .", r"?x a :\1 ; :v ?k ."),
    ),
    (r"OPTIONAL \{ \?x :l \?l \}", 0.15, _one_of("BIND(?k AS ?l)", "OPTIONAL { ?x :l ?l . ?y :k ?l }", "OPTIONAL { ?t a :Tick ; :v ?l }")),
    (r"\?x :v \?v \.", 0.1, _one_of("?x :v ?w . BIND(?w + 1 AS ?v)", "{ ?x :v ?v } UNION { ?x :l ?v }", "?x (:v|:k) ?v .")),
    (r"within ([(\[]\S+), (\d) s\] from", 0.15, _one_of(r"within \1, \2 s) from", r"within \1, \2 min] from", r"within [0, 0] from")),
    (r"\nif ", 0.3, _one_of("\nif time(A0) > 5 && ", "\nif time(A0) != 3 || ")),
    (r"consuming (C\d)", 0.3, _one_of(r"consuming A0, \1")),
    (r"dotr_id :k \?k", 0.3, _one_of("dotr_id :k ?k . dotr_id2 :is dotr_id", ":e :k ?k ; :in [ :l ?l ]")),
    (r"(E\d\.\?l) = [^,\n]+", 0.2, _one_of(r"\1 = time(A0)", r"\1 = 1")),
)


def varied_program(seed: int) -> RandomProgram:
    """The program of a seed, changed."""
    made, choose = random_program(seed), random.Random(f"varied {seed}")
    rules = made.rules
    for pattern, probability, choice in _CHANGES:
        rules = re.sub(pattern, lambda found: choice(choose, found) if choose.random() < probability else found.group(), rules)  # noqa: B023
    terms = {each: choose.choice(_TERMS) for each in sorted({o for element in made.elements for _, _, o in element.triples if o[0] == '"'})}
    kept = {each for each in terms if choose.random() < 0.5}
    elements: list[Element] = []
    for element in made.elements:
        node = f"<{NAMESPACE}n{choose.randint(0, 2)}>" if choose.random() < 0.2 else "_:0"
        triples = tuple((node, p, terms[o] if o in terms and o not in kept else o) for _, p, o in element.triples)
        if elements and elements[-1].time == element.time and choose.random() < 0.5:
            second = tuple((_second(s), p, _second(o)) for s, p, o in triples)
            elements.append(Element(element.time, (*elements.pop().triples, *second)))
        else:
            elements.append(Element(element.time, triples))
    return RandomProgram(rules, elements)


def _second(term: Term) -> Term:
    """The term for the second node of an element, which is `_:1`."""
    return {"_:0": "_:1", "_:1": "_:0"}.get(term, term)
