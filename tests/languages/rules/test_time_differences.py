"""Warnings of differences of times that are used as numbers (D326)."""

from __future__ import annotations

import pytest

from dotr.engine.spec import ProgramSpec
from dotr.languages.programs import compile_program, warnings_with_form
from dotr.languages.rules import compile_rules
from dotr.model.places import Document
from dotr.model.time import Unit

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


@pytest.mark.parametrize(
    ("condition", "message", "remedy"),
    [
        ("time(Out) > time(In) + 90", "a time plus a number", "elapsed(In, Out)"),
        ("time(Out) - 90.5 >= time(In)", "a time minus a number", "elapsed(Out, In)"),
        ("2 * 60 + time(In) < time(Out)", "a number plus a time", "elapsed(In, Out)"),
        ("time(Out) > In.?fee && FLOOR(time(Out) / 3600) = 4", "a time divided by a number", "seconds>(…) of the difference of two times"),
        ("time(Out) - time(In) - 10 > In.?fee", "a difference of times minus a number", "elapsed(In, Out)"),
        ("60 / (time(Out) - time(In)) > In.?fee", "a number divided by a difference of times", "elapsed(In, Out)"),
        ("time(Out) - In.?fee > 60", "the comparison of a difference of times with a number", "seconds>(…) of the difference"),
        ("In.?fee - time(In) <= 60", "the comparison of a difference of times with a number", "seconds>(…) of the difference"),
    ],
)
def test_time_beside_number_is_told(condition: str, message: str, remedy: str) -> None:
    (found,) = of_condition(condition)
    assert found.startswith(f"{message} is an error where times are date-times.")
    assert remedy in found
    assert of_condition(condition, integer_times=True) == []


@pytest.mark.parametrize(
    "condition",
    [
        'time(Out) > time(In) + "PT90S"^^<http://www.w3.org/2001/XMLSchema#dayTimeDuration>',
        "time(Out) > time(In) + In.?fee",
        "HOURS(time(Out) - In.?fee) < 8",
        '(time(Out) - In.?fee) / 2 > "PT90S"^^<http://www.w3.org/2001/XMLSchema#dayTimeDuration>',
        "elapsed(In, Out) + 10 > 90",
    ],
)
def test_time_beside_what_may_be_a_duration_is_not_told(condition: str) -> None:
    assert of_condition(condition) == []


DUE = "rule Due define Due = [ ?car a :Due ] from In delayed by {delay} at most 1 h with Due.?car = In.?car\n"


@pytest.mark.parametrize(
    ("delay", "message"),
    [
        ("In.?fee - time(In) + 60", "a difference of times plus a number is an error where times are date-times"),
        (
            "IF(In.?fee - time(In) > 60, 60, 0)",
            "the comparison of a difference of times with a number is an error where times are date-times",
        ),
        ("In.?fee - time(In)", ""),
        ("<urn:dotr:function:seconds>(In.?fee - time(In)) + 60", ""),
    ],
)
def test_number_in_delay_is_told(delay: str, message: str) -> None:
    found = told(DUE.format(delay=delay))
    assert [each.split(". ")[0] for each in found] == ([message] if message else [])


@pytest.mark.parametrize("delay", ["In.?fee - time(In)", "2 * (In.?fee - time(In))", "<urn:dotr:function:seconds>(In.?fee - time(In))"])
@pytest.mark.parametrize("unit", [Unit.MILLISECOND, Unit.SECOND])
def test_difference_as_delay_in_unit_other_than_second_is_told(delay: str, unit: Unit) -> None:
    spec = ProgramSpec((Document("due.dotr", HEAD + DUE.format(delay=delay)),), unit=unit, unit_given=True)
    warnings = [each for each in compile_program(spec).warnings if each.code == "D326"]
    is_told = unit is Unit.MILLISECOND and "seconds" not in delay
    assert [each.message for each in warnings] == ["this delay is a number of milliseconds, and counts as one of seconds"] * is_told
    assert all("Write <urn:dotr:function:seconds>(…) of the difference" in each.hint for each in warnings)
    assert [each for each in warnings_with_form(spec, warnings, dated=True) if each.code == "D326"] == []


def of_unit(name: str, text: str, rule: str = "", *, unit_given: bool = False) -> list[str]:
    files = (Document(name, text), *([Document("r.dotr", f"PREFIX : <http://example.org/>\n{rule}")] if rule else []))
    spec = ProgramSpec(files, prefixes={"": "http://example.org/"}, unit_given=unit_given)
    found = [each for each in compile_program(spec).warnings if each.code in ("D326", "L405", "E407")]
    return [f"{each.code} {each.message}. {each.hint}" for each in found]


TRIP = "REGISTER QUERY Trip AS SELECT ?x {columns} WHERE {{ ?x :on 1 }} SEQ {{ ?x :on 2 }} {condition} WITHIN 9 s"


@pytest.mark.parametrize(
    ("condition", "message"),
    [
        ("FILTER(getDURATION() > 10)", "the comparison of getDURATION() with a number is an error."),
        ("FILTER(10 + getDuration() > 10)", "a number plus getDURATION() is an error."),
        ("BIND(getDURATION() AS ?long) FILTER(?long / 60 > 2)", "getDURATION() divided by a number is an error."),
        ("FILTER(getENDTIME() > getSTARTTIME() + 4)", "a time plus a number is an error where times are date-times."),
        ('FILTER(getDURATION() > "PT4S"^^<http://www.w3.org/2001/XMLSchema#duration>)', ""),
        ("FILTER(<urn:dotr:function:seconds>(getDURATION()) > 4)", ""),
    ],
)
def test_duration_as_number_is_an_error_in_either_form(condition: str, message: str) -> None:
    for unit_given in (False, True):
        found = of_unit("q.epsparql", TRIP.format(columns="", condition=condition), unit_given=unit_given)
        is_told = message and not (unit_given and "date-times" in message)
        assert [each.startswith(f"E407 {message}") for each in found] == [True] * bool(is_told)
        assert all("seconds>(getDURATION())" in each for each in found if "getDURATION()" in message)


def test_times_of_lars_are_told_beside_numbers_and_through_relations() -> None:
    body = ":on(?x, 1) AT ?a IN [9 s], :on(?x, 2) AT ?b IN [0 s]"
    (found,) = of_unit("q.lars", f"Q(?x) :- {body}, FILTER(?b > ?a + 4) . REPORT NEW Q(?x) AS Q .")
    assert found.startswith("L405 a time plus a number is an error where times are date-times.")
    through = f"Long(?x, ?d) :- {body}, BIND(?b - ?a AS ?d) . Q(?x) :- Long(?x, ?e), FILTER(?e > 4) . REPORT NEW Q(?x) AS Q ."
    (found,) = of_unit("q.lars", through)
    assert found.startswith("L405 the comparison of a difference of times with a number")


LONG = "rule Long define Long = [ ?x a :Long ] from {label} if {condition} with Long.?x = {label}.?x\n"


@pytest.mark.parametrize(
    ("name", "text", "condition", "message"),
    [
        ("q.epsparql", TRIP.format(columns="(getENDTIME() - getSTARTTIME() AS ?d)", condition=""), "Q.?d > 60", "a difference of times"),
        ("q.epsparql", TRIP.format(columns="?from", condition="BIND(getSTARTTIME() AS ?from)"), "time(Q) - Q.?from > 60", "a difference"),
        ("q.epsparql", TRIP.format(columns="(getDURATION() AS ?d)", condition=""), "Q.?d > 60", "getDURATION()"),
        (
            "q.lars",
            "R(?x, ?b - ?a) :- :on(?x, 1) AT ?a IN [9 s], :on(?x, 2) AT ?b IN [0 s]".replace("?b - ?a", "?d")
            + ", BIND(?b - ?a AS ?d) . REPORT NEW R(?x, ?d) AS Trip .",
            "Q.?d > 60",
            "a difference of times",
        ),
    ],
)
def test_attributes_of_units_keep_their_forms_in_rules(name: str, text: str, condition: str, message: str) -> None:
    (found,) = of_unit(name, text, LONG.format(label="Trip", condition=condition.replace("Q", "Trip")))
    assert found.startswith(f"D326 the comparison of {message}")


@pytest.mark.parametrize(
    ("name", "text", "code"),
    [
        ("q.lars", "Q(?x) :- EVENT Stay(?x AS ?x, ?long AS ?l) IN [9 s], FILTER(?l > 60) . REPORT NEW Q(?x) AS Q .", "L405"),
        (
            "q.epsparql",
            "REGISTER QUERY Q AS SELECT ?x WHERE EVENT Stay(?x, ?long AS ?l) SEQ { ?x :on 1 } FILTER(?l > 60) WITHIN 9 s",
            "E407",
        ),
        ("q.epsparql", "REGISTER QUERY Q AS SELECT ?x WHERE EVENT Stay(?x, ?long) SEQ { ?x :on ?y } FILTER(?x > 60) WITHIN 9 s", ""),
    ],
)
def test_attributes_of_rules_keep_their_forms_in_units(name: str, text: str, code: str) -> None:
    rule = """query On = [ SELECT ?x { ?x :on ?y } ] rule Stay define Stay = [ ?x :stayed ?l ] from On
and last On as Old [ FILTER(?x = On.?x) ] within 1 d from On with Stay.?x = On.?x, Stay.?l = time(On) - time(Old)""".replace("?l", "?long")
    found = of_unit(name, text, rule)
    told = ["the comparison of a difference of times with a number is an error where times are date-times"] if code else []
    assert [each.split(". ")[0] for each in found] == [f"{code} {each}" for each in told]
    assert all("elapsed(Old, On) where ?l is assigned" in each for each in found)
    assert of_unit(name, text, rule, unit_given=True) == []


def test_date_times_under_a_written_unit_are_told() -> None:
    allowed = "# dotr: allow D326 (times are integers)\n"
    rule = STAY.format(long=0).replace("with Stay", "if time(Out) - time(In) > 90\nwith Stay")
    for text, dated, expected in ((rule, True, 1), (rule, False, 0), (rule, None, 0), (allowed + rule, True, 0)):
        spec = ProgramSpec((Document("stay.dotr", HEAD + text),), unit_given=True)
        found = warnings_with_form(spec, compile_program(spec).warnings, dated)
        assert [each.message for each in found if each.code == "D326"] == [
            "the comparison of a difference of times with a number is an error: times are date-times"
        ] * expected
