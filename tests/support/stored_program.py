"""The program with every construct of the language, and a stream with keys of every kind.

Stored checkpoints (`kept`) were made with both, so neither is ever changed.
"""

from __future__ import annotations

import json
from typing import Final

from dotr.engine.program import CompiledProgram
from dotr.engine.spec import ProgramSpec
from dotr.languages.programs import compile_program
from dotr.model.places import Document
from dotr.model.stream import Element
from dotr.model.terms import XSD, Triple, literal
from tests.support.stored_checkpoints import FOLDER, SECOND, Story

HOME: Final = FOLDER / "whole"


def spec() -> ProgramSpec:
    documents = [Document(name, (HOME / name).read_text()) for name in ("whole.dotr", "whole.dlog")]
    return ProgramSpec((documents[0],), (documents[1],), (str(HOME / "whole.ttl"),))


def _made() -> CompiledProgram:
    return compile_program(spec())


def _typed(kind: str, *texts: str) -> tuple[str, ...]:
    return tuple(literal(text, XSD + kind) for text in texts)


def _quoted(*objects: str) -> tuple[str, ...]:
    return tuple(f"<<( <http://e/s> <http://e/p> {term} )>>" for term in objects)


KEYS: Final[tuple[tuple[str, ...], ...]] = (
    ("<http://e/k1>",),
    ('"word"',),
    ('"word"@en',),
    ('"wort"@de-at',),
    _typed("integer", "25", "025"),
    (literal("7", XSD + "integer"), literal("7.0", XSD + "decimal"), literal("7e0", XSD + "double"), literal("7", XSD + "unsignedByte")),
    _typed("decimal", "25.50", "25.5"),
    _typed("double", "1.0E3", "1000e0"),
    _typed("float", "1.5", "15e-1"),
    _typed("integer", str(10**30)),
    _typed("boolean", "true", "1"),
    _typed("boolean", "false"),
    _typed("dateTime", "2024-02-03T04:05:06Z", "2024-02-03T06:05:06+02:00", "2024-02-03T04:05:06.0Z"),
    _typed("dateTime", "2024-02-03T04:05:06", "2024-02-03T04:05:06.00"),
    _typed("dateTime", "2024-02-03T04:05:06.789-05:00", "2024-02-03T09:05:06.789Z"),
    _typed("dateTimeStamp", "2023-02-03T04:05:06Z"),
    _typed("date", "2024-02-03Z", "2024-02-03+00:00"),
    _typed("date", "2024-02-03"),
    _typed("date", "2024-02-04-03:00"),
    _typed("time", "04:05:06Z", "05:05:06+01:00"),
    _typed("time", "04:05:06", "04:05:06.0"),
    _typed("time", "23:59:59.5-01:00"),
    _typed("gYear", "2024"),
    _typed("gYearMonth", "2024-02"),
    _typed("gMonthDay", "--02-03"),
    _typed("gMonth", "--02"),
    _typed("gDay", "---03Z"),
    _typed("duration", "P1Y2M3DT4H", "P14M3DT4H"),
    _typed("dayTimeDuration", "P1D", "PT24H"),
    _typed("dayTimeDuration", "-PT0.5S"),
    _typed("yearMonthDuration", "P1Y", "P12M"),
    _typed("duration", "P2Y", "P24M"),
    _typed("base64Binary", "QUI="),
    _typed("anyURI", "http://e/"),
    ('"x"^^<http://e/type>',),
    _typed("integer", "no number"),
    _quoted("<http://e/o>"),
    _quoted('"1"^^<http://www.w3.org/2001/XMLSchema#integer>', '"1.0"^^<http://www.w3.org/2001/XMLSchema#decimal>'),
    _quoted(*_typed("dateTime", "2024-02-03T04:05:06Z", "2024-02-03T06:05:06+02:00")),
    _quoted(*_quoted(*_typed("date", "2024-02-03"))),
    _quoted(*_typed("time", "04:05:06Z")),
)
"""Values of keys, each in several equal spellings."""


def _element(number: int) -> Element:
    """The reading of a moment: five keys, sometimes a name, and a statement."""
    triples: list[Triple] = [
        ("_:0", "<http://e/room>", f"<http://e/r{number % 3}>"),
        ("_:0", "<http://e/value>", literal(str(number * 5 % 7), XSD + "integer")),
    ]
    if number % 4 == 0:
        triples.append(("_:0", "<http://e/name>", literal("AB" if number % 8 else "A")))
    for place in range(5 * number, 5 * number + 5):
        times, key = divmod(place, len(KEYS))
        node = f"_:{1 + place % 5}"
        triples.append((node, "<http://e/key>", KEYS[key][times % len(KEYS[key])]))
        triples.append((node, "<http://e/number>", literal(str(place), XSD + "integer")))
    inner = f"<<( <http://e/b{number % 2}> <http://e/p> <http://e/o> )>>"
    reifies = "<http://www.w3.org/1999/02/22-rdf-syntax-ns#reifies>"
    triples.append(("_:6", reifies, f"<<( <http://e/a{number % 3}> <http://e/said> {inner} )>>"))
    return Element(2 * number * SECOND, tuple(triples))


WHOLE: Final = Story(HOME, _made, [_element(number) for number in range(32)], 4)
"""Every construct, and keys of every kind."""


def line(element: Element) -> str:
    """The element as a line of an input."""
    graph = " ".join(f"{subject} {predicate} {object} ." for subject, predicate, object in element.triples)
    return json.dumps({"time": element.time // SECOND, "graph": graph}, ensure_ascii=False) + "\n"
