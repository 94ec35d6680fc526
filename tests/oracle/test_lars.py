"""The examples of lars.md, section 8, by the brute force: each can be checked by hand."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from dotr.languages.lars.reading import compile_lars
from dotr.languages.rules import compile_rules
from dotr.model.places import Document
from dotr.model.stream import Element
from dotr.model.terms import XSD
from dotr.model.units import UnitEvents
from tests.oracle.cases import read_turtle, world
from tests.oracle.units import run_units

pytestmark = pytest.mark.core

PREFIXES = {"": "http://example.org/"}
Told = tuple[int, str, tuple[str, ...]]


def told(text: str, stream: Sequence[tuple[float, str]], rules: str = "", background: str = "") -> list[Told]:
    """Time in seconds, label and values of every event; `stream`: times in seconds and graphs."""
    files = compile_lars([Document("a.lars", text)], PREFIXES).checked().files
    made = [UnitEvents(report.label, report.attributes, report.label_span) for file in files for report in file.reports]
    compiled = compile_rules([Document("r.dotr", rules)] if rules else [], PREFIXES, units=made).checked()
    known = world(compiled, [background] if background else [], [], "none", PREFIXES)
    elements = [("in", Element(int(at * 1_000_000), read_turtle(graph, PREFIXES))) for at, graph in stream]
    outputs = run_units(known, (), elements, files=files).outputs
    return [(o.time // 1_000_000, o.event, tuple(short(o.attributes[name]) for name in sorted(o.attributes))) for o in outputs]


def short(term: str) -> str:
    return term.replace("<http://example.org/", ":").replace(">", "").replace(f"^^<{XSD}integer", "").replace('"', "")


def test_1_an_atom_begins_and_ends() -> None:
    text = "Q(?x) :- :p(?x, ?v) IN [3 s] . REPORT Q(?x) . REPORT ENDED Q(?x) AS Out ."
    assert told(text, [(1, ":x :p 1 ."), (10, "")]) == [(1, "Q", (":x",)), (5, "Out", (":x",))]
    assert told(text, [(1, ":x :p 1 ."), (5, ":x :p 1 ."), (10, "")]) == [(1, "Q", (":x",)), (9, "Out", (":x",))]


def test_2_always_asks_for_the_points_that_there_are() -> None:
    text = "Busy(?s) :- :on(?s, true) ALWAYS IN [2 s] . REPORT Busy(?s) . REPORT ENDED Busy(?s) AS Free ."
    on = [(t, ":s :on true .") for t in (1, 2, 3)]
    assert told(text, on) == [(1, "Busy", (":s",))]
    assert told(text, [(0, ""), *on]) == [(3, "Busy", (":s",))]


def test_3_times_are_compared() -> None:
    text = "Then(?a, ?b) :- :A(?x) AT ?a IN [5 s], :B(?x) AT ?b IN [5 s], FILTER(?a < ?b) . REPORT Then(?a, ?b) ."
    stream = [(1, ":x a :A ."), (2, ":x a :A ."), (4, ":x a :B .")]
    assert told(text, stream) == [(4, "Then", ("1", "4")), (4, "Then", ("2", "4"))]


def test_4_the_example_of_the_paper() -> None:
    text = "Q(?x, ?y, ?z) :- :a(?x, ?y) IN [3 s], :b(?y, ?z) IN [LAST 3] . REPORT ALL Q(?x, ?y, ?z) ."
    stream = [(36, ":x1 :a :y ."), (38, ":x2 :a :y . :y :b :z ."), (40, ":x3 :a :y ."), (45, "")]
    found = told(text, stream)
    assert [t for t, _, (x, _, _) in found if x == ":x1"] == [38, 39]
    assert [t for t, _, (x, _, _) in found if x == ":x2"] == [38, 39, 40, 41]
    assert min(t for t, _, (x, _, _) in found if x == ":x3") == 40


def test_5_recursion_over_windows() -> None:
    text = (
        "Reach(?x, ?y) :- :link(?x, ?y) IN [4 s] . Reach(?x, ?z) :- Reach(?x, ?y), :link(?y, ?z) IN [4 s] . "
        "REPORT Reach(:a, :c) . REPORT ENDED Reach(:a, :c) AS Gone ."
    )
    stream = [(1, ":a :link :b ."), (2, ":b :link :c ."), (12, "")]
    assert told(text, stream) == [(2, "Reach", ()), (6, "Gone", ())]
    other_way = [(4, ":a :link :d . :d :link :c .")]
    assert told(text, sorted(stream + other_way)) == [(2, "Reach", ()), (9, "Gone", ())]


def test_6_silence_is_told_where_there_is_no_instant() -> None:
    text = "BACKGROUND :Sensor . Silent(?s) :- :Sensor(?s), NOT :temp(?s, ?v) IN [3 s] . REPORT Silent(?s) ."
    assert told(text, [(1, ""), (2, ":s :temp 20 ."), (9, "")], background=":s a :Sensor .") == [
        (1, "Silent", (":s",)),
        (6, "Silent", (":s",)),
    ]


def test_7_points_are_told_when_they_have_happened() -> None:
    text = "RESOLUTION 10 s . Q(?s) :- :temp(?s, true) ALWAYS IN [10 s] . REPORT Q(?s) . REPORT ALL Q(?s) AS All2 ."
    assert told(text, [(3, ":s :temp true ."), (11, ":s :temp true .")]) == [
        (10, "All2", (":s",)),
        (10, "Q", (":s",)),
        (20, "All2", (":s",)),
    ]


HIGH = "PREFIX : <http://example.org/> define High = [ [] :of ?s ] from T = [ SELECT ?s WHERE { ?s :high ?v } ] with High.?s = T.?s "
AFTER = "define After = [ [] :of ?s ] from Lasting with After.?s = Lasting.?s"


def test_8_events_of_a_rule_are_read_and_a_rule_reads_the_label() -> None:
    text = "Lasting(?s) :- EVENT High(?s) ALWAYS IN [1 s] . REPORT Lasting(?s) ."
    stream = [(1, ""), (2, ":a :high 1 ."), (3, ":a :high 1 ."), (5, ":a :high 1 .")]
    found = told(text, stream, rules=HIGH + AFTER)
    assert [each for each in found if each[1] != "High"] == [(3, "After", (":a",)), (3, "Lasting", (":a",))]


def test_9_the_third_last() -> None:
    text = (
        "Third(?s, ?v, ?t) :- :temp(?s, ?v) AT ?t IN [LAST 3 PER ?s], NOT :temp(?s, ?v) AT ?t IN [LAST 2 PER ?s] . "
        "REPORT Third(?s, ?v, ?t) ."
    )
    stream = [(1, ":s :temp 10 ."), (3, ":s :temp 20 ."), (4, ":s :temp 30 ."), (7, ":s :temp 40 .")]
    assert told(text, stream) == [(4, "Third", (":s", "1", "10")), (7, "Third", (":s", "3", "20"))]
