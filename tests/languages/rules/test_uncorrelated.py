"""Warnings of uncorrelated clauses, which no condition joins to their rule (D321)."""

from __future__ import annotations

import pytest

from dotr.languages.rules import compile_rules
from dotr.model.places import Document

pytestmark = pytest.mark.core

QUERIES = """
PREFIX : <http://example.org/>
query Smoke = [ SELECT ?room WHERE { ?s a :Smoke ; :in ?room } ]
query Temp  = [ SELECT ?room ?v WHERE { ?t :in ?room ; :celsius ?v } ]
query Value = [ SELECT ?v WHERE { ?t :celsius ?v } ]
query Place = [ SELECT ?where ?who WHERE { ?who :in ?where } ]
query Asked = [ SELECT ?r WHERE { ?r a :Request } ]
query State = [ SELECT ?door ?heat WHERE { ?door :celsius ?heat } ]
query Loud  = [ SELECT ?place ?v WHERE { ?n :at ?place ; :decibel ?v } ]
"""


def untied(body: str, further: str = "") -> list[str]:
    """The messages and the hints of D321 for one rule, without the last sentence on `# dotr: allow`."""
    rule = f"rule R define E = [ [] a :E ; :x ?x ] {body} with E.?x = 1\n"
    diagnostics = compile_rules([Document("r.dotr", QUERIES + rule + further)], {}).diagnostics
    assert {d.code for d in diagnostics} <= {"D321", "D217", "D220", "D221", "D315", "D322"}, [str(d) for d in diagnostics]
    return [f"{d.message}. {d.hint.partition(' If every')[0]}" for d in diagnostics if d.code == "D321"]


@pytest.mark.parametrize(
    ("body", "hint"),
    {
        "by name": ("from Smoke and last Temp within 1 h from Smoke", "FILTER(?room = Smoke.?room)"),
        "a condition of its own": ("from Smoke and last Temp [ FILTER(?v > 60) ] within 1 h from Smoke", "FILTER(?room = Smoke.?room)"),
        "by the objects of one predicate": ("from Smoke and each Place within 1 h from Smoke", "FILTER(?where = Smoke.?room)"),
        "an attribute that is not projected": (
            "from Smoke and last Hot = [ SELECT ?v WHERE { ?t :in ?here ; :celsius ?v } ] within 1 h from Smoke",
            "FILTER(?here = Smoke.?room)",
        ),
        "a negation": ("from Smoke and not Temp within 1 h from Smoke", "FILTER(?room = Smoke.?room)"),
        "between": (
            "from Smoke and last Temp as T [ FILTER(?room = Smoke.?room) ] within 1 h from Smoke and not Smoke as S between T and Smoke",
            "FILTER(?room = Smoke.?room)",
        ),
        "an aggregate": (
            "from Temp and ?m = avg(Old.?v) of Temp as Old within 1 h from Temp if Temp.?v > ?m",
            "FILTER(?room = Temp.?room)",
        ),
        "an order in `if` chooses nothing": (
            "from Temp as Now and last Temp as Before within 1 h from Now if Now.?v - Before.?v >= 10",
            "FILTER(?room = Now.?room)",
        ),
        "to a chosen event": (
            "from Asked and last Smoke within 1 h from Asked and last Temp within 1 h from Asked",
            "FILTER(?room = Smoke.?room)",
        ),
        "a subject, beside its values": ("from State and last State as Old within 1 h from State", "FILTER(?door = State.?door)"),
        "two clauses tied to each other alone": (
            "from Smoke and last Temp as A within 1 h from Smoke and last Temp as B [ FILTER(?room = A.?room) ] within 1 h from A",
            "FILTER(?room = Smoke.?room)",
        ),
        "ticks of the background": (
            "from every 1 h for [ SELECT ?room WHERE { ?room a :Room } ] as Tick and not Temp within 1 h from Tick",
            "FILTER(?room = Tick.?room)",
        ),
    }.values(),
)
def test_uncorrelated_clause_gives_a_warning(body: str, hint: str) -> None:
    further = "rule M define M = [ [] a :M ; :v ?v ] from Temp if Temp.?v > 5 with M.?v = Temp.?v"
    assert [message.partition("Did you mean ")[2].rstrip("?") for message in untied(body, further)] == [hint]


@pytest.mark.parametrize(
    "body",
    {
        "an equality": "from Smoke and last Temp [ FILTER(?room = Smoke.?room) ] within 1 h from Smoke",
        "any constraint": "from Temp as Now and not Temp as Other [ FILTER(?v > Now.?v) ] within 1 h from Now",
        "an equality in `if`": "from Smoke and each Temp within 1 h from Smoke if Temp.?room = Smoke.?room",
        "an inequality in `if`": "from Smoke and each Temp within 1 h from Smoke if Temp.?room != Smoke.?room",
        "by a later clause": (
            "from Smoke and each Temp within 1 h from Smoke "
            "and not Temp as T [ FILTER(?room = Temp.?room && ?room != Smoke.?room) ] within 1 h from Temp"
        ),
        "nothing in common": "from Smoke and not Asked within 1 h from Smoke",
        "a measure alone": "from Temp and last Value within 1 h from Temp",
        "a constant in its place": "from Smoke and last Temp [ FILTER(?room = :cellar) ] within 1 h from Smoke",
        "a pair of all": "from Smoke as A and each Smoke as B within 1 h from A",
        "a constant in the query": "from Smoke and last C = [ SELECT ?v WHERE { ?t :in :cellar ; :celsius ?v } ] within 1 h from Smoke",
        "ticks": "from every 1 h as Tick and last Temp within 1 h from Tick",
        "the event itself": "from Asked and last Asked as Before within 1 h from Asked",
        "values of two look-ups": "from Asked and last Value as A within 1 h from Asked and also last Value as B within 9 s from Asked",
        "names and predicates of their own": "from Smoke and last Loud within 1 h from Smoke",
    }.values(),
)
def test_clause_that_is_joined_or_has_nothing_to_join_on_gives_no_warning(body: str) -> None:
    further = "rule M define M = [ [] a :M ; :v ?v ] from Temp if Temp.?v > 5 with M.?v = Temp.?v"
    assert untied(body, further) == []


def test_event_attribute_has_the_places_of_the_copied_attribute() -> None:
    event = "rule H define Hot = [ [] :at ?here ; :grade ?g ] from Temp if Temp.?v > 60 with Hot.?here = Temp.?room, Hot.?g = Temp.?v\n"
    (message,) = untied("from Smoke and last Hot within 1 h from Smoke", event)
    assert message == (
        "nothing ties Hot to Smoke: any Hot in the window counts, whatever its ?here. Did you mean FILTER(?here = Smoke.?room)?"
    )
    assert untied("from Value and last Hot within 1 h from Value", event) == []


def test_two_lookups_of_one_label_are_joined_by_what_they_are_of_not_by_values() -> None:
    (message,) = untied("from Asked and last State as Now within 1 h from Asked and also last State as Was within 2 h from Asked")
    assert message.endswith("Did you mean FILTER(?door = Now.?door)?")
