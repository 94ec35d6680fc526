"""Keys of LARS files (lars.md, section 4)."""

from __future__ import annotations

import pytest

from dotr.languages.lars.keys import LarsKey, lars_key, triples_read
from dotr.languages.lars.model import ClassName, EventName, LarsFile, OwnRelation, PropertyName
from dotr.languages.lars.reading import compile_lars
from dotr.model.places import Document

pytestmark = pytest.mark.core


def read(text: str) -> LarsFile:
    (file,) = compile_lars([Document("a.lars", text)], {"": "http://e/"}).checked().files
    return file


def key(text: str) -> LarsKey:
    return lars_key(read(text))


def test_key_is_a_variable_at_the_places_of_all_atoms() -> None:
    found = key("Hot(?v, ?s) :- :temp(?s, ?v) IN [3 s], EVENT Low(?v AS ?s), NOT (:off(?s, true), :C(?s)) .")
    places = {PropertyName("<http://e/temp>"): 0, EventName("Low"): "v", PropertyName("<http://e/off>"): 0, ClassName("<http://e/C>"): 0}
    assert found.places == {OwnRelation("Hot"): 1, **places}
    assert found.unit_key.variable == "s"


def test_an_object_may_be_the_key() -> None:
    found = key("Open(?r) :- :at(?s, ?r), :open(?r, true) . Two(?r) :- :at(?s, ?r), :at(?t, ?r), FILTER(?s != ?t) .")
    assert found.places[PropertyName("<http://e/at>")] == 2


def test_rules_must_agree_on_the_place_of_a_relation() -> None:
    assert key("P(?x, ?y) :- :p(?x, ?y) . Q(?x) :- P(?x, ?y), :q(?x, true) .").places[OwnRelation("P")] == 0
    assert key("P(?x, ?y) :- :p(?x, ?y) . Q(?y) :- P(?x, ?y), :q(?y, true) .").places[OwnRelation("P")] == 1
    both = "P(?x, ?y) :- :p(?x, ?y) . Q(?y) :- P(?x, ?y), :q(?y, true) . Q(?x) :- P(?x, ?y), :q(?x, true) ."
    assert key(both).reason == "no place of each property, class, relation and event suits all rules"


def test_background_and_relations_of_facts_need_no_place() -> None:
    text = "BACKGROUND :in . Near(:a, :b) . P(?x) :- :p(?x, ?y), :in(?y, ?z), Near(?z, ?w) ."
    assert key(text).places == {PropertyName("<http://e/p>"): 0, OwnRelation("P"): 0}
    assert key(text.replace("BACKGROUND :in .", "")).reason == "no variable stands in all atoms of the rule at line 1"


@pytest.mark.parametrize(
    ("window", "reason"),
    [
        ("[LAST 3]", "[LAST 3] at line 1 counts all triples"),
        ("[LAST 3 MATCHING]", "[LAST 3 MATCHING] at line 1 counts the atoms of all keys: PER counts for each"),
        ("[LAST 3 PER ?v]", "no variable stands in all atoms of the rule at line 1"),
        ("[LAST 3 PER ?s]", ""),
        ("[LAST 3 PER ?v, ?s]", ""),
    ],
)
def test_per_must_name_the_key(window: str, reason: str) -> None:
    assert key(f"Hot(?s) :- :temp(?s, ?v) IN {window} .").reason == reason


def test_variable_predicate_restricts_all_properties_to_the_subject() -> None:
    assert key("Q(?s) :- [?s, ?p, ?o], :temp(?s, ?v) .").places[PropertyName("<http://e/temp>")] == 0
    assert key("Q(?s) :- [?s, ?p, ?o] . R(?v) :- :temp(?s, ?v), :q(?v, true) .").reason != ""
    assert key("Q(?s) :- [?s, a, ?c] . R(?s) :- :D(?s) .").reason == ""


def test_a_head_without_variables_has_no_key() -> None:
    assert key("Alarm :- :p(?x, ?y) .").reason == "no variable stands in all atoms of the rule at line 1"


def test_recursion_may_be_keyed() -> None:
    text = "R(?x, ?y) :- :l(?x, ?y) IN [4 s] . R(?x, ?z) :- R(?x, ?y), :l(?y, ?z) IN [4 s] ."
    assert key(text).reason != ""
    near = "R(?x, ?y) :- :l(?x, ?y) IN [4 s] . R(?x, ?z) :- R(?x, ?y), :next(?x, ?y, ?z) .".replace(
        ":next(?x, ?y, ?z)", "EVENT Next(?x, ?y, ?z)"
    )
    assert key(near).places[OwnRelation("R")] == 0


def test_search_of_many_rules_is_bounded() -> None:
    rules = "".join(f"P{n}(?a, ?b, ?c, ?d) :- P{n + 1}(?b, ?a, ?d, ?c), P{n + 1}(?a, ?b, ?c, ?d) .\n" for n in range(40))
    assert key(f"{rules}P40(?a, ?b, ?c, ?d) :- EVENT E(?a, ?b, ?c, ?d) .").reason != ""


def test_triples_that_a_file_reads() -> None:
    def predicates(text: str) -> object:
        found = triples_read(read(text))
        return found and found.predicates and {each.removeprefix("<http://e/") for each in found.predicates}

    assert predicates("BACKGROUND :b . :d(?x, ?y) :- :p(?x, ?y), :b(?x, ?y), EVENT E(?x), P(?x) . P(:a) . REPORT :d(?x, ?y) AS D .") == {
        "p>",
        "d>",
    }
    assert triples_read(read("Q :- EVENT E(?x) .")) is None
    assert predicates("Q :- :p(?x, ?y) IN [LAST 3] .") is None
    assert predicates("Q :- [?x, ?p, ?y] .") is None
    assert predicates("Q :- :p(?x, ?y) IN [LAST 3 MATCHING] .") == {"p>"}
