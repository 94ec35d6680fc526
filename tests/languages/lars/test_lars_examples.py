"""The examples of lars.md, section 8, point by point, on the model of a file alone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import pytest

from dotr.evaluation.triples.index import TripleIndex
from dotr.languages.lars.closure.atoms import PointAtoms
from dotr.languages.lars.closure.maintained import LarsClosure
from dotr.languages.lars.closure.rules import rules_of_file
from dotr.languages.lars.model import LarsFile, ReportKind
from dotr.languages.lars.reading import compile_lars
from dotr.model.places import Document
from dotr.model.terms import RDF_TYPE, Label, Term, Triple
from dotr.model.time import Clock, Micros, Unit

pytestmark = pytest.mark.core

NAMESPACE = "http://e/"
SECOND = Unit.SECOND.value


def term(text: str) -> Term:
    """`:a`, an integer or `true` as a term; `a` is rdf:type."""
    if text == "a":
        return RDF_TYPE
    if text.startswith(":"):
        return f"<{NAMESPACE}{text[1:]}>"
    kind = "boolean" if text in ("true", "false") else "integer"
    return f'"{text}"^^<http://www.w3.org/2001/XMLSchema#{kind}>'


def triple(text: str) -> Triple:
    s, p, o = map(term, text.split())
    return s, p, o


def short(row: Iterable[Term]) -> str:
    return " ".join(each.removeprefix(f"<{NAMESPACE}").removesuffix(">").split("^^")[0].strip('"') for each in row)


def lars(text: str) -> LarsFile:
    (file,) = compile_lars([Document("f.lars", text)], {"": NAMESPACE}).checked().files
    return file


class Line:
    """Evaluation of a file from point to point; `reported`: its events so far, as (point, label, row)."""

    def __init__(self, file: LarsFile, background: Iterable[str] = ()) -> None:
        self.file = file
        self.rules = rules_of_file(file, TripleIndex(map(triple, background)), Clock())
        self.closure = LarsClosure(self.rules, file.resolution, Clock())
        self.reported: list[tuple[int, str, str]] = []
        self.visited: list[int] = []

    def visit(self, k: int, atoms: PointAtoms) -> None:
        self.visited.append(k)
        for report, change in zip(self.file.reports, self.closure.advance(k, atoms), strict=True):
            rows = change.ended if report.kind is ReportKind.ENDED else change.began
            if report.kind is ReportKind.ALL:
                rows = self.closure.reported()[self.file.reports.index(report)]
            self.reported += [(k, report.label, short(row)) for row in sorted(rows)]

    def go_to(self, k: int) -> None:
        """Evaluates the points up to `k` that are due without atoms."""
        while (due := self.closure.next_point()) is not None and due <= k:
            self.visit(due, PointAtoms({}, {}))


def run(
    text: str,
    stream: Mapping[int, Sequence[str]],
    events: Mapping[int, Sequence[tuple[Label, tuple[Term, ...]]]] | None = None,
    background: Iterable[str] = (),
) -> list[tuple[int, str, str]]:
    """The events that a file reports; times are in seconds, instants are those of `stream`."""
    file = lars(text)
    line = Line(file, background)
    r = file.resolution

    def point(time: Micros) -> int:
        return -(-time * SECOND // r)

    line.closure.begin(point(min(stream)))
    by_point: dict[int, PointAtoms] = {}
    for time in sorted({*stream, *(events or {})}):
        triples, by_label = by_point.setdefault(point(time), PointAtoms({}, {}))
        triples.update((triple(each), time * SECOND) for each in stream.get(time, ()))  # type: ignore[attr-defined]
        for label, event in (events or {}).get(time, ()):
            by_label.setdefault(label, {})[event] = time * SECOND  # type: ignore[attr-defined]
    for k, atoms in by_point.items():
        line.go_to(k - 1)
        line.visit(k, atoms)
    line.go_to(point(max(stream)))
    return line.reported


def test_1() -> None:
    text = "Q(?x) :- :p(?x, ?v) IN [3 s] . REPORT Q(?x) . REPORT ENDED Q(?x) AS Out ."
    assert run(text, {1: [":x :p 1"], 10: []}) == [(1, "Q", "x"), (5, "Out", "x")]
    assert run(text, {1: [":x :p 1"], 5: [":x :p 1"], 10: []}) == [(1, "Q", "x"), (9, "Out", "x")]


def test_2() -> None:
    text = "Busy(?s) :- :on(?s, true) ALWAYS IN [2 s] . REPORT Busy(?s) . REPORT ENDED Busy(?s) AS Idle ."
    on = {1: [":s :on true"], 2: [":s :on true"], 3: [":s :on true"], 9: []}
    assert run(text, on) == [(1, "Busy", "s"), (4, "Idle", "s")]
    assert run(text, {0: [], **on}) == [(3, "Busy", "s"), (4, "Idle", "s")]
    assert run(text, {1: [":s :on true"], 3: [":s :on true"]}) == [(1, "Busy", "s"), (2, "Idle", "s")]


def test_3() -> None:
    text = "Then(?a, ?b) :- :A(?x) AT ?a IN [5 s], :B(?x) AT ?b IN [5 s], FILTER(?a < ?b) . REPORT Then(?a, ?b) ."
    assert run(text, {1: [":x a :A"], 2: [":x a :A"], 4: [":x a :B"]}) == [(4, "Then", "1 4"), (4, "Then", "2 4")]


def test_4() -> None:
    text = "Q(?x, ?y, ?z) :- :a(?x, ?y) IN [3 s], :b(?y, ?z) IN [LAST 3] . REPORT ALL Q(?x, ?y, ?z) ."
    stream = {36: [":x1 :a :y"], 38: [":x2 :a :y", ":y :b :z"], 40: [":x3 :a :y"], 44: []}
    found = run(text.replace("ALL ", "") + " REPORT ENDED Q(?x, ?y, ?z) AS Out .", stream)
    assert [each for each in found if each[0] < 44] == [
        (38, "Q", "x1 y z"),
        (38, "Q", "x2 y z"),
        (40, "Q", "x3 y z"),
        (40, "Out", "x1 y z"),
        (42, "Out", "x2 y z"),
    ]


def test_5() -> None:
    text = """Reach(?x, ?y) :- :link(?x, ?y) IN [4 s] . Reach(?x, ?z) :- Reach(?x, ?y), :link(?y, ?z) IN [4 s] .
    REPORT Reach(?x, ?z) . REPORT ENDED Reach(?x, ?z) AS Out ."""
    found = run(text, {1: [":a :link :b"], 2: [":b :link :c"], 12: []})
    assert [each for each in found if each[2] == "a c"] == [(2, "Reach", "a c"), (6, "Out", "a c")]
    found = run(text, {1: [":a :link :b"], 2: [":b :link :c"], 4: [":a :link :c"], 12: []})
    assert [each for each in found if each[2] == "a c"] == [(2, "Reach", "a c"), (9, "Out", "a c")]


def test_6() -> None:
    text = "BACKGROUND :Sensor . Silent(?s) :- :Sensor(?s), NOT :temp(?s, ?v) IN [3 s] . REPORT Silent(?s) ."
    assert run(text, {1: [], 2: [":s :temp 5"], 9: []}, background=[":s a :Sensor"]) == [(1, "Silent", "s"), (6, "Silent", "s")]


def test_7() -> None:
    text = "RESOLUTION 10 s . Q(?x) :- :p(?x, ?v) ALWAYS IN [10 s] . REPORT ALL Q(?x) ."
    assert run(text, {3: [":x :p 1"], 11: [":x :p 1"]}) == [(1, "Q", "x"), (2, "Q", "x")]


def test_8() -> None:
    text = "Lasting(?s) :- EVENT High(?s) ALWAYS IN [1 s] . REPORT Lasting(?s) ."
    high = ("High", ("level", term("3"), "s", term(":a")))
    assert run(text, {1: [], 2: [], 3: [], 5: []}, {2: [high], 3: [high], 5: [high]}) == [(3, "Lasting", "a")]


def test_9() -> None:
    text = """Third(?s, ?v, ?t) :- :temp(?s, ?v) AT ?t IN [LAST 3 PER ?s], NOT :temp(?s, ?v) AT ?t IN [LAST 2 PER ?s] .
    REPORT Third(?s, ?v, ?t) ."""
    stream = {1: [":s :temp 10"], 3: [":s :temp 20"], 4: [":s :temp 30"], 7: [":s :temp 40"]}
    assert run(text, stream) == [(4, "Third", "s 1 10"), (7, "Third", "s 3 20")]  # attributes by name
