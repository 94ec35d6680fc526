"""Tests of explanations for queries without facts: the stop of the join, and rules for its missing part."""

from __future__ import annotations

import json
from operator import itemgetter
from pathlib import Path
from typing import Any

import pytest
import yaml

from dotr.commands.why.questions import open_replays
from dotr.explanations.missing.fact import MissingFacts, explain_missing_facts
from dotr.syntax.rendering import TermWriter

RULES = """
PREFIX : <http://example.org/why#>
query Temp  = [ SELECT ?room ?v WHERE { ?r :celsius ?v ; :in ?room } ]
query Sensed = [ SELECT ?s WHERE { ?r :by ?s . ?s a :Sensor } ]

rule Rise define Rise = [ dotr_id a :Rise ; :room ?room ; :by ?by ]
from Temp as Now and last Temp as Before [ FILTER(?room = Now.?room) ] within 5 min from Now
if Now.?v - Before.?v >= 10 with Rise.?room = Now.?room, Rise.?by = Now.?v - Before.?v

rule Seen define Seen = [ dotr_id a :Seen ; :by ?s ] from Sensed with Seen.?s = Sensed.?s
"""
PREFIX = "PREFIX : <http://example.org/why#>\n"
DATALOG = f"{PREFIX}:in(?reading, ?room) :- :by(?reading, ?sensor), :mountedIn(?sensor, ?room) .\n"
READINGS = {0: "[] :celsius 20 ; :by :t9 .", 60: "[] :celsius 40 ; :by :t1 ."}
GRAPH = """@prefix : <http://example.org/why#> . @prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .
:Thermometer rdfs:subClassOf :Sensor . :t1 a :Thermometer ; :mountedIn :lab . :t2 a :Thermometer ; :mountedIn :attic .
:g1 a :GasMeter ; :mountedIn :lab .
"""


def explained(
    folder: Path,
    stream: dict[int, str],
    query: str = "",
    *,
    datalog: str = DATALOG,
    graph: str = GRAPH,
    rule: str = "Rise",
    entailment: str = "none",
) -> MissingFacts | None:
    """The explanation for the anchor of a rule; with a query, of a rule Found over it."""
    rules = RULES
    if query:
        rules, rule = (
            f"PREFIX : <http://example.org/why#>\nquery Wanted = [ {query} ] rule Found define Found = [ dotr_id a :F ] from Wanted",
            "Found",
        )
    (folder / "why.dotr").write_text(rules)
    (folder / "plant.dlog").write_text(datalog)
    (folder / "plant.ttl").write_text(graph)
    elements = "".join(f"      - {{ at: {time}, graph: '{text}' }}\n" for time, text in stream.items())
    (folder / "t.yaml").write_text(
        f"rules: [why.dotr]\nprefixes: {{ '': 'http://example.org/why#' }}\n"
        f"knowledge: {{ graphs: [plant.ttl], datalog: [plant.dlog], entailment: {entailment} }}\n"
        f"cases:\n  - name: one\n    expect: []\n    stream:\n{elements}"
    )
    (replay,) = open_replays(str(folder / "t.yaml"))
    explained_rule = next(each for each in replay.program.rules.rules if each.name == rule)
    return explain_missing_facts(replay, explained_rule, TermWriter(replay.prefixes))


def lines(explanation: MissingFacts | None, folder: Path) -> list[str]:
    assert explanation is not None
    return [line.replace(f"{folder}/", "") for line in (explanation.summary, *explanation.lines())]


def test_the_join_and_the_datalog_rule_that_stop_a_query(tmp_path: Path) -> None:
    found = explained(tmp_path, {0: "[] :celsius 20 ; :by :t9 .", 60: "[] :celsius 40 ; :by :t9 ."})
    gives = "plant.dlog:2 gives :in(?reading, ?room): :by(_:r, :t9) is given; nothing is :mountedIn(:t9, ?room)"
    assert lines(found, tmp_path) == [
        "Temp has no fact at 2 instants",
        "    at 0: ?r :celsius ?v holds 1 time; with ?r :in ?room, never",
        f"      {gives}: it is known of :t1, :t2, :g1",
    ]


def test_entailment_regime_that_derives_a_class(tmp_path: Path) -> None:
    found = explained(tmp_path, {0: "[] :by :t1 ."}, rule="Seen")
    given = "`entailment: rdfs` gives it: :Thermometer rdfs:subClassOf :Sensor (plant.ttl)"
    assert lines(found, tmp_path) == [
        "Sensed has no fact at 1 instant",
        f"    at 0: ?s a :Sensor does not hold of :t1, a :Thermometer. {given}",
    ]


@pytest.mark.parametrize("case", yaml.safe_load(Path(__file__).with_name("query_failure.yaml").read_text()), ids=itemgetter("name"))
def test_what_stops_a_query(case: dict[str, Any], tmp_path: Path) -> None:
    found = explained(
        tmp_path,
        case.get("stream", READINGS),
        case["query"],
        datalog=PREFIX + case["datalog"] if "datalog" in case else DATALOG,
        graph=GRAPH + case.get("graph", ""),
    )
    assert [line.removeprefix("    ") for line in lines(found, tmp_path)[1:]] == case["explanation"].splitlines()
    assert found is not None
    json.dumps(found.told.to_json())


def test_no_explanation_where_there_are_facts(tmp_path: Path) -> None:
    assert explained(tmp_path, {0: "[] :celsius 20 ; :by :t9 .", 60: "[] :celsius 40 ; :by :t1 ."}) is None


def test_patterns_that_hold_at_different_instants(tmp_path: Path) -> None:
    stream = {0: ":r :celsius 20 .", 60: ":r :door :open ."}
    assert lines(explained(tmp_path, stream, "SELECT ?v WHERE { ?r :celsius ?v ; :door ?d }"), tmp_path)[1:] == [
        "    at 0: ?r :celsius ?v holds 1 time; with ?r :door ?d, never",
        "      Elements of other instants bring :door (the first at 60); a query sees one instant.",
    ]


def test_instant_with_the_greatest_rank_is_explained(tmp_path: Path) -> None:
    stream = {0: "[] :by :unknown .", 60: "[] :by :t2 ."}
    assert lines(explained(tmp_path, stream, rule="Seen"), tmp_path)[1] == (
        "    at 60: ?s a :Sensor does not hold of :t2, a :Thermometer. "
        "`entailment: rdfs` gives it: :Thermometer rdfs:subClassOf :Sensor (plant.ttl)"
    )
    query = "SELECT ?v WHERE { ?r :celsius ?v ; :in ?room }"
    nested = {0: "[] :celsius 20 .", 60: "[] :celsius 20 ; :by :t9 ."}
    assert lines(explained(tmp_path, nested, query), tmp_path)[1] == "    at 60: ?r :celsius ?v holds 1 time; with ?r :in ?room, never"


def test_only_requested_instants_are_searched(tmp_path: Path) -> None:
    stream = {0: "[] :celsius 20 ; :by :t9 .", 60: "[] :celsius 40 ; :by :t1 ."}
    assert explained(tmp_path, stream) is None
    (replay,) = open_replays(str(tmp_path / "t.yaml"))
    found = explain_missing_facts(replay, replay.program.rules.rules[0], TermWriter(replay.prefixes), first=0, last=59_999_999)
    assert found is not None
    assert (found.instants, found.at) == (1, "0")
    assert found.told.to_json()["at"] == 0


def test_ticks_over_a_query_of_the_background(tmp_path: Path) -> None:
    explained(tmp_path, {0: "[] :floor 2 ."})
    query = "[ SELECT ?t WHERE { ?t :mountedIn ?r ; :flor ?f } ]"
    (tmp_path / "why.dotr").write_text(f"{PREFIX}rule Rise define Rise = [ dotr_id a :R ] from every 1 min for {query} as Now")
    (replay,) = open_replays(str(tmp_path / "t.yaml"))
    found = explain_missing_facts(replay, replay.program.rules.rules[0], TermWriter(replay.prefixes))
    assert lines(found, tmp_path) == [
        "Now has no answer of the background",
        "    ?t :mountedIn ?r holds 3 times; with ?t :flor ?f, never",
        "      The background has no :flor.",
    ]
