"""Warnings of differences of times that are used as numbers (D326)."""

from __future__ import annotations

import pytest

from dotr.engine.spec import ProgramSpec
from dotr.languages.programs import compile_program
from dotr.languages.rules import compile_rules
from dotr.model.places import Document

pytestmark = pytest.mark.core

HEAD = """PREFIX : <http://example.org/>
query In = [ SELECT ?car ?fee { ?car :enters ?fee } ]
query Out = [ SELECT ?car { ?car :leaves ?gate } ]
"""
STAY = """rule Stay
define Stay = [ ?car :stayed ?long ]
from Out and last In [ FILTER(?car = Out.?car) ] within 1 d from Out
with Stay.?car = Out.?car, Stay.?long = {long}
"""
LATER = """rule Later
define Later = [ ?car a :Later ]
from Stay {clause}
if {condition}
with Later.?car = Stay.?car
"""


def told(text: str, integer_times: bool = False) -> list[str]:
    found = compile_rules([Document("stay.dotr", HEAD + text)], {}, integer_times=integer_times)
    assert not found.errors, found.errors
    return [f"{each.message}. {each.hint}" for each in found.diagnostics if each.code == "D326"]


def of_condition(condition: str, integer_times: bool = False) -> list[str]:
    return told(STAY.format(long=0).replace("with Stay", f"if {condition}\nwith Stay"), integer_times)


@pytest.mark.parametrize(
    "condition",
    [
        "time(Out) - time(In) > 90",
        "90.5 <= time(Out) - time(In)",
        "-(time(In) - time(Out)) > 1e2",
        "(time(Out) - time(In)) / 60 > 5 * 3",
        "In.?fee = 3 && !(time(Out) - time(In) IN (1, 2))",
        "ABS(time(Out) - time(In)) < ?x || true",
        "IF(In.?fee = 3, time(Out) - time(In), time(Out) - time(In)) > 4",
    ],
)
def test_difference_beside_number_is_told(condition: str) -> None:
    (message,) = of_condition(condition.replace("?x", "In.?fee"))
    assert "is an error where times are date-times" in message
    assert "elapsed(" in message


@pytest.mark.parametrize(
    "condition",
    [
        "elapsed(In, Out) > 90",
        '(time(Out) - time(In)) / "PT1S"^^<http://www.w3.org/2001/XMLSchema#dayTimeDuration> > 90',
        'time(Out) - time(In) > "PT90S"^^<http://www.w3.org/2001/XMLSchema#dayTimeDuration>',
        "<urn:dotr:function:seconds>(time(Out) - time(In)) > 90",
        'COALESCE((time(Out) - time(In)) / "PT1S"^^<http://www.w3.org/2001/XMLSchema#dayTimeDuration>, time(Out) - time(In)) > 90',
        "time(Out) - time(In) > In.?fee",
        "time(Out) > 90",
        "(time(Out) - time(In)) / (time(Out) - time(In)) > 2",
    ],
)
def test_what_is_right_for_durations_is_not_told(condition: str) -> None:
    assert of_condition(condition) == []


@pytest.mark.parametrize("function", ["sum", "avg", "median", "variance", "stddev", "quantile"])
def test_aggregate_of_attribute_is_told(function: str) -> None:
    argument = "0.9, S.?long" if function == "quantile" else "S.?long"
    clause = f"and ?n = {function}({argument}) of Stay as S [ FILTER(?car = Stay.?car) ] within 1 d from Stay"
    rule = LATER.format(clause=clause, condition="?n > 4")
    (message,) = told(STAY.format(long="time(Out) - time(In)") + rule)
    assert message.startswith(f"{function} of a difference of times")
    assert "elapsed(In, Out) where S.?long is assigned" in message
    assert told(STAY.format(long="elapsed(In, Out)") + rule) == []


def test_attribute_is_followed_through_rules_and_copies() -> None:
    copy = "rule Copy define Copy = [ [] :of ?l ] from Stay with Copy.?l = 2 * Stay.?long\n"
    last = "rule Slow define Slow = [ [] a :Slow ] from Copy [ FILTER(?l > 60) ]\n"
    (message,) = told(STAY.format(long="time(Out) - time(In)") + copy + last)
    assert "where ?l is assigned" in message
    times = STAY.format(long="time(Out)") + LATER.format(clause="", condition="time(Stay) - Stay.?long > 60")
    assert len(told(times)) == 1


def test_least_difference_and_number_of_events_are_compared() -> None:
    clause = "and ?n = max(S.?long) of Stay as S [ FILTER(?car = Stay.?car) ] within 1 d from Stay"
    assert len(told(STAY.format(long="time(Out) - time(In)") + LATER.format(clause=clause, condition="?n > 60"))) == 1
    clause = "and ?n = count(*) of Stay as S [ FILTER(?car = Stay.?car) ] within 1 d from Stay"
    assert len(told(STAY.format(long="time(Out) - time(In)") + LATER.format(clause=clause, condition="Stay.?long > ?n"))) == 1


def test_hours_of_difference_err_in_either_form() -> None:
    for integer_times in (False, True):
        (message,) = of_condition("HOURS(time(Out) - time(In)) > 2", integer_times)
        assert message.startswith("hours(…) of a difference of times is an error. ")
        assert "elapsed(In, Out) / 3600" in message
    assert of_condition("HOURS(time(Out)) > 2") == []


def test_warning_is_allowed_by_comment_and_by_unit_of_configuration() -> None:
    rule = STAY.format(long=0).replace("with Stay", "if time(Out) - time(In) > 90\nwith Stay")

    def warned(text: str, *, unit_given: bool = False) -> bool:
        spec = ProgramSpec((Document("stay.dotr", HEAD + text),), unit_given=unit_given)
        return any(each.code == "D326" for each in compile_program(spec).warnings)

    assert warned(rule)
    assert not warned("# dotr: allow D326 (times are integers)\n" + rule)
    assert not warned(rule, unit_given=True)
    assert warned(rule.replace("time(Out) - time(In) > 90", "HOURS(time(Out) - time(In)) > 1"), unit_given=True)


@pytest.mark.parametrize(
    ("name", "text", "code"),
    [
        ("q.lars", "Q(?x) :- :on(?x, 1) AT ?a IN [9 s], :on(?x, 2) AT ?b IN [0 s], FILTER(?b - ?a > 4) . REPORT NEW Q(?x) AS Q .", "L405"),
        (
            "q.epsparql",
            "REGISTER QUERY Q AS SELECT ?x WHERE { ?x :on 1 } SEQ { ?x :on 2 } FILTER(getENDTIME() - getSTARTTIME() > 4) WITHIN 9 s",
            "E407",
        ),
    ],
)
def test_units_warn_unless_times_are_integers(name: str, text: str, code: str) -> None:
    for unit_given in (False, True):
        spec = ProgramSpec((Document(name, text),), prefixes={"": "http://example.org/"}, unit_given=unit_given)
        assert [each.code for each in compile_program(spec).warnings if each.code == code] == ([] if unit_given else [code])


QUERIES = "".join(f"query {name} = [ SELECT ?x {{ ?x :{name} ?y }} ]\n" for name in "ABC")
WINDOWS = """rule R define R = [ ?x a :R ]
from A {delay}
and last B [ FILTER(?x = A.?x) ] within {window} from A
and last C [ FILTER(?x = A.?x) ] within [1 s, 2 s] from B
if {condition}
with R.?x = A.?x
"""


@pytest.mark.parametrize(
    ("condition", "window", "delay", "expected"),
    [
        ("elapsed(B, A) > 0", "9 s", "", "D327"),
        ("elapsed(A, B) > 5", "9 s", "", "D313"),
        ("elapsed(A, B) < 5", "9 s", "", "D327"),
        ("10 > elapsed(C, A)", "(0, 7 s]", "", "D327"),
        ("elapsed(C, A) > 11", "(0, 9 s]", "", "D313"),
        ("elapsed(C, A) > 10.5", "(0, 9 s]", "", ""),
        ("elapsed(C, B) >= 1", "9 s", "", "D327"),
        ("elapsed(C, C) > 0", "9 s", "", "D313"),
        ("time(A) - time(B) >= 0", "9 s", "", "D327"),
        ("time(A) - time(B) < 0", "9 s", "", "D313"),
        ("elapsed(B, A) > 5", "9 s", "", ""),
        ("elapsed(B, A) > 0", "[0, 9 s]", "", ""),
        ("elapsed(B, A) > 0", "[0, 9 s]", "delayed by 5 s", ""),
        ("elapsed(A, B) > 5", "[0, 9 s]", "delayed by 5 s", "D313"),
        ("elapsed(B, A) > 0", "[6 s, 9 s]", "delayed by 5 s", "D327"),
        ("elapsed(B, A) > 0 || A.?x = :a", "9 s", "", ""),
        ("elapsed(B, A) = 10", "9 s", "", "D313"),
        ("elapsed(B, A) != 10", "9 s", "", "D327"),
    ],
)
def test_windows_decide(condition: str, window: str, delay: str, expected: str) -> None:
    text = "PREFIX : <http://example.org/>\n" + QUERIES + WINDOWS.format(condition=condition, window=window, delay=delay)
    found = compile_rules([Document("r.dotr", text)], {})
    assert not found.errors, found.errors
    assert [each.code for each in found.diagnostics if each.code in ("D313", "D327")] == ([expected] if expected else [])


def test_exchanged_labels_are_proposed() -> None:
    text = "PREFIX : <http://example.org/>\n" + QUERIES + WINDOWS.format(condition="elapsed(A, B) > 5", window="9 s", delay="")
    (found,) = [each for each in compile_rules([Document("r.dotr", text)], {}).diagnostics if each.code == "D313"]
    assert found.hint.endswith("Did you mean elapsed(B, A)?")
