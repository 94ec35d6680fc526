"""`dotr why`: the tree of an event, down to lines of files."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path

import pytest

from dotr import Program
from dotr.commands import main
from tests.support.paths import ROOT

pytestmark = pytest.mark.core

RULES = """PREFIX : <http://example.org/why#>
query Temp  = [ SELECT ?room ?v WHERE { ?r :celsius ?v ; :in ?room } ]
query Gas   = [ SELECT ?room ?ppm WHERE { ?r :ppm ?ppm ; :in ?room } ]
query Sensed = [ SELECT ?s WHERE { ?r :by ?s . ?s a :Sensor } ]
query Open  = [ SELECT ?door WHERE { ?o :opens ?door } ]

rule Leak "Gas over 300 ppm within two minutes after more than 75 degrees in the same room."
define Leak = [ dotr_id a :Leak ; :room ?room ; :celsius ?v ; :ppm ?ppm ]
from Gas [ FILTER(?ppm > 300) ]
and last Temp as Hot [ FILTER(?room = Gas.?room && ?v > 75) ] within 2 min from Gas
with Leak.?room = Gas.?room, Leak.?v = Hot.?v, Leak.?ppm = Gas.?ppm
consuming Hot

rule Rise define Rise = [ dotr_id a :Rise ; :room ?room ; :by ?by ]
from Temp as Now and last Temp as Before [ FILTER(?room = Now.?room) ] within 5 min from Now
if Now.?v - Before.?v >= 10 with Rise.?room = Now.?room, Rise.?by = Now.?v - Before.?v
"""
DATALOG = """PREFIX : <http://example.org/why#>
:in(?reading, ?room) :- :by(?reading, ?sensor), :mountedIn(?sensor, ?room) .
"""
GRAPH = """PREFIX : <http://example.org/why#>
PREFIX rdfs: <http://www.w3.org/2000/01/rdf-schema#>
PREFIX owl: <http://www.w3.org/2002/07/owl#>
:Thermometer rdfs:subClassOf :Sensor . :t1 a :Thermometer ; :mountedIn :lab . :t2 a :Thermometer ; :mountedIn :attic .
:g1 a :GasMeter ; :mountedIn :lab .
"""
HEADER = "PREFIX : <http://example.org/why#>\n"


class Folder:
    """A configuration in the working directory, and the command line."""

    def __init__(self, path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.path = path
        self.capsys = capsys

    def write(
        self,
        elements: Sequence[tuple[int | str, str]],
        rules: str = RULES,
        datalog: str = DATALOG,
        graph: str = GRAPH,
        entailment: str = "none",
    ) -> None:
        """Write the configuration why.yaml and its files; elements are lines of data/mon.ndjson."""
        (self.path / "data").mkdir(exist_ok=True)
        lines = [json.dumps({"time": time, "graph": text}) for time, text in elements]
        (self.path / "data" / "mon.ndjson").write_text("".join(f"{line}\n" for line in lines))
        (self.path / "why.dotr").write_text(rules)
        (self.path / "plant.dlog").write_text(datalog)
        (self.path / "plant.ttl").write_text(graph)
        (self.path / "why.yaml").write_text(
            'name: why\nrules: [why.dotr]\nprefixes: { "": "http://example.org/why#" }\n'
            f"knowledge: {{ graphs: [plant.ttl], datalog: [plant.dlog], entailment: {entailment} }}\n"
            "input: [ { path: data/mon.ndjson, format: ndjson, name: mon } ]\noutput: [ { path: out.ndjson } ]\n"
        )

    def why(self, *arguments: str, code: int = 0) -> str:
        """Standard output of the command; its exit code is checked."""
        found = main(["why", "why.yaml", *arguments])
        captured = self.capsys.readouterr()
        self.stderr = captured.err
        assert found == code, captured.err
        return captured.out


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Folder:
    monkeypatch.chdir(tmp_path)
    return Folder(tmp_path, capsys)


LEAK = [(0, "[] :celsius 80 ; :by :t1 ."), (60, "[] :ppm 400 ; :by :g1 .")]
LEAK_TREE = """\
Leak at 60, urn:dotr:d8f122cffa1123496ccf920e71551499: room :lab, v 80, ppm 400  why.dotr:7
├ from Gas at 60: room :lab, ppm 400; 400 > 300
│ ├ _:r :ppm 400                                     data/mon.ndjson:2
│ └ _:r :in :lab                                     plant.dlog:2
│   ├ _:r :by :g1                                    data/mon.ndjson:2
│   └ :g1 :mountedIn :lab                            plant.ttl
└ last Hot at 0, 60 s before: room :lab, v 80; :lab = :lab, 80 > 75; the only one; used up now
  ├ _:r2 :celsius 80                                 data/mon.ndjson:1
  └ _:r2 :in :lab                                    plant.dlog:2
    ├ _:r2 :by :t1                                   data/mon.ndjson:1
    └ :t1 :mountedIn :lab                            plant.ttl
"""


def test_an_event_is_followed_to_lines_of_files(folder: Folder) -> None:
    folder.write(LEAK)
    assert folder.why("--rule", "Leak", "--at", "60") == LEAK_TREE
    assert folder.why("urn:dotr:d8f122cffa1123496ccf920e71551499") == LEAK_TREE
    assert folder.why("--rule", "Leak", "--where", "ppm=400.0") == LEAK_TREE
    assert folder.why("--rule", "Leak", "--depth", "1").splitlines() == [LEAK_TREE.splitlines()[number] for number in (0, 1, 6)]


def test_the_name_of_a_graph_in_trig_names_its_event(folder: Folder) -> None:
    folder.write([*LEAK, (70, "[] :celsius 80 ; :by :t1 ."), (90, "[] :ppm 400 ; :by :g1 .")])
    assert main(["run", "why.yaml", "--engine", "local", "--quiet", "--set", "output.0.format=trig"]) == 0
    first, second = re.findall(r"<(urn:dotr:\w{32})> prov:generatedAtTime", (folder.path / "out.ndjson").read_text())
    assert folder.why(first) == LEAK_TREE
    assert folder.why(f"<{second}>").startswith("Leak at 90, ")
    assert folder.why(second, "--at", "60", code=1) == ""


def test_nearest_events_are_listed_for_a_missing_event(folder: Folder) -> None:
    folder.write(LEAK)
    assert folder.why("--rule", "Leak", "--at", "61", code=1) == ""
    assert folder.stderr == f"There is no event Leak at 61.\nNear it are:\n  {LEAK_TREE.splitlines()[0].removesuffix('  why.dotr:7')}\n"
    assert folder.why("--rule", "Rise", code=1) == ""
    assert folder.stderr == "There is no event Rise.\nRise never fired: dotr why-not why.yaml --rule Rise\n"
    assert folder.why("urn:dotr:0", code=1) == ""
    assert folder.stderr == "There is no event urn:dotr:0.\n"


def test_names_distinguish_several_events(folder: Folder) -> None:
    folder.write(
        [(0, "[] :celsius 10 ; :by :t1 . [] :celsius 20 ; :by :t2 ."), (60, "[] :celsius 40 ; :by :t1 . [] :celsius 50 ; :by :t2 .")]
    )
    tree = folder.why("--rule", "Rise", "--at", "60", "--depth", "0")
    assert tree.startswith("Rise at 60, urn:dotr:")
    first, second = folder.stderr.splitlines()
    assert first == "Further events, which their names tell apart:"
    name = second.split()[3].removesuffix(":")
    assert folder.why(name, "--depth", "0").startswith(second.strip())
    assert folder.why("--rule", "Rise", "--where", "room=:attic", "--depth", "0").startswith("Rise at 60, urn:dotr:")
    assert folder.stderr == ""


def test_if_shows_its_values_and_a_selection_its_number_of_events(folder: Folder) -> None:
    folder.write([(0, "[] :celsius 10 ; :by :t1 ."), (30, "[] :celsius 20 ; :by :t1 ."), (60, "[] :celsius 40 ; :by :t1 .")])
    lines = folder.why("--rule", "Rise", "--at", "60").splitlines()
    assert lines[6] == "├ last Before at 30, 30 s before: room :lab, v 20; :lab = :lab; the latest of 2"
    assert lines[-1] == "└ if 40 - 20 >= 10"


def test_a_triple_has_a_proof(folder: Folder) -> None:
    folder.write(LEAK)
    tree = """\
_:r :in :lab                                         plant.dlog:2
├ _:r :by :g1                                        data/mon.ndjson:2
└ :g1 :mountedIn :lab                                plant.ttl
"""
    assert folder.why("--triple", "_:r :in :lab", "--at", "60") == tree
    assert folder.why("--triple", ":g1 a :GasMeter", "--at", "60") == ":g1 a :GasMeter                                      plant.ttl\n"
    assert folder.why("--triple", ":g1 a :Sensor", "--at", "60", code=1) == ""
    assert folder.stderr == ":g1 a :Sensor does not hold at 60.\n"
    folder.why("--triple", ":g1 a :Sensor", "--at", "61", code=1)
    assert folder.stderr == ":g1 a :Sensor does not hold at 61; there is no instant at 61.\n"


def test_derived_background_triple_has_its_rule_and_on_request_its_proof(folder: Folder) -> None:
    folder.write(LEAK, entailment="owl2rl")
    question = ("--triple", ":t1 a :Sensor", "--at", "0")
    assert folder.why(*question) == ":t1 a :Sensor                                        background, by cax-sco\n"
    assert (
        folder.why(*question, "--background")
        == """\
:t1 a :Sensor                                        cax-sco
├ :Thermometer rdfs:subClassOf :Sensor               plant.ttl
└ :t1 a :Thermometer                                 plant.ttl
"""
    )
    assert folder.stderr.startswith("Closing the background once more took 0.")


def test_an_inconsistent_instant_has_a_tree(folder: Folder) -> None:
    folder.write([(7, ":x a :Thermometer . :x a :GasMeter .")], graph=GRAPH + ":Sensor owl:disjointWith :GasMeter .", entailment="owl2rl")
    assert (
        folder.why("--at", "7")
        == """\
contradiction at 7                                   cax-dw
├ :Sensor owl:disjointWith :GasMeter                 plant.ttl
├ :x a :Sensor                                       cax-sco
│ ├ :Thermometer rdfs:subClassOf :Sensor             plant.ttl
│ └ :x a :Thermometer                                data/mon.ndjson:1
└ :x a :GasMeter                                     data/mon.ndjson:1
"""
    )
    assert folder.why("--at", "8", code=1) == ""
    assert folder.stderr == "There is no instant at 8.\n"


def test_json_and_mermaid_have_the_same_tree(folder: Folder) -> None:
    folder.write(LEAK)
    found = json.loads(folder.why("--rule", "Leak", "--format", "json"))
    assert (found["kind"], found["rule"], found["time"], found["place"]) == ("event", "Leak", 60, "why.dotr:7")
    assert found["attributes"] == {"room": ":lab", "v": "80", "ppm": "400"}
    anchor, hot = found["because"]
    assert (anchor["kind"], anchor["label"], hot["kind"], hot["of"], hot["time"]) == ("anchor", "Gas", "clause", "Temp", 0)
    assert hot["because"][0] | {"text": ""} == {
        "kind": "triple",
        "text": "",
        "place": "data/mon.ndjson:1",
        "subject": "_:r2",
        "predicate": ":celsius",
        "object": "80",
        "from": "element",
    }
    mermaid = folder.why("--rule", "Leak", "--format", "mermaid").splitlines()
    assert mermaid[0] == "flowchart TD"
    assert mermaid[2] == '  n1["from Gas at 60: room :lab, ppm 400; 400 #gt; 300"]'
    assert sum(" --> " in line for line in mermaid) == len(LEAK_TREE.splitlines()) - 1


def test_negation_lists_the_reasons_of_events_in_its_window(folder: Folder) -> None:
    rules = (
        HEADER
        + """query Temp = [ SELECT ?room ?v WHERE { ?r :celsius ?v ; :in ?room } ]
rule Cold define Cold = [ dotr_id a :Cold ; :room ?room ]
from Temp [ FILTER(?v < 5) ] and not Temp as Warm [ FILTER(?room = Temp.?room && ?v > 30) ] within [0, 10 min] from Temp
with Cold.?room = Temp.?room
"""
    )
    folder.write([(0, ":a :in :lab ; :celsius 30 ."), (60, ":b :in :attic ; :celsius 40 ."), (120, ":c :in :lab ; :celsius 4 .")], rules)
    lines = folder.why("--rule", "Cold").splitlines()
    assert (
        lines[-1] == "└ not Warm in [0, 10 min]: none of 3 Temp in the window (30 > 30 is false, :attic = :lab is false, 4 > 30 is false)"
    )
    lines = folder.why("--rule", "Cold", "--depth", "2").splitlines()
    assert lines[-3:] == [
        "  ├ Temp at 0: room :lab, v 30; 30 > 30 is false           data/mon.ndjson:1",
        "  ├ Temp at 60: room :attic, v 40; :attic = :lab is false  data/mon.ndjson:2",
        "  └ Temp at 120: room :lab, v 4; 4 > 30 is false           data/mon.ndjson:3",
    ]
    folder.write([(0, ":a :in :lab ; :celsius 30 ."), (1200, ":c :in :lab ; :celsius 4 .")], rules.replace("[0, 10 min]", "(0, 10 min]"))
    assert folder.why("--rule", "Cold").splitlines()[-1] == "└ not Warm in (0, 10 min]: no Temp in the window"


def test_aggregate_shows_its_events_and_window(folder: Folder) -> None:
    rules = (
        HEADER
        + """query Temp = [ SELECT ?room ?v WHERE { ?r :celsius ?v ; :in ?room } ]
query Ask = [ SELECT ?room WHERE { ?r :asks ?room } ]
rule Mean define Mean = [ dotr_id a :Mean ; :room ?room ; :mean ?mean ]
from Ask and ?mean = avg(Temp.?v) of Temp [ FILTER(?room = Ask.?room) ] within 1 h from Ask
and ?n = count(*) of Temp as All within 1 h from Ask
with Mean.?room = Ask.?room, Mean.?mean = ?mean, Mean.?n = ?n
"""
    )
    elements = [(f"2024-03-01T05:{minute:02}:00Z", f":r :in :lab ; :celsius {minute} .") for minute in (10, 50, 57)]
    folder.write([*elements, ("2024-03-01T06:05:00Z", ":q :asks :lab .")], rules)
    lines = folder.why("--rule", "Mean").splitlines()
    assert lines[0].endswith(': room :lab, mean "39"^^xsd:decimal, n 3  why.dotr:4')
    assert lines[-2:] == [
        '├ ?mean = "39"^^xsd:decimal of 3 values in (0, 1 h], 05:10:00 to 05:57:00',
        "└ ?n = 3 of 3 events in (0, 1 h], 05:10:00 to 05:57:00",
    ]
    lines = folder.why("--rule", "Mean", "--depth", "2").splitlines()
    assert lines[-1] == "  └ Temp at 2024-03-01T05:57:00Z: room :lab, v 57    data/mon.ndjson:3"


def test_delayed_anchors_timers_and_events_of_other_rules_are_followed(folder: Folder) -> None:
    rules = (
        HEADER
        + """query Open = [ SELECT ?door WHERE { ?o :opens ?door } ]
query Shut = [ SELECT ?door WHERE { ?o :shuts ?door } ]
rule Stuck define Stuck = [ dotr_id a :Stuck ; :door ?door ]
from Open delayed by 10 min and not Shut [ FILTER(?door = Open.?door) ] within 10 min from Open
with Stuck.?door = Open.?door
rule Report define Report = [ dotr_id a :Report ; :door ?door ]
from every 15 min for [ SELECT ?door WHERE { ?door a :Door } ] as Tick
and each Stuck as Was [ FILTER(?door = Tick.?door) ] within 15 min from Tick
with Report.?door = Was.?door
"""
    )
    graph = GRAPH + ":gate a :Door ."
    folder.write([(0, ":o :opens :gate ."), (2000, ":x :y :z .")], rules, graph=graph)
    tree = folder.why("--rule", "Report", "--at", "900")
    assert [line for line in tree.splitlines() if "urn:dotr" not in line] == [
        "├ from Tick at 900: door :gate; every 15 min",
        "│ └ :gate a :Door                                    plant.ttl",
        "└ each Was at 600, 300 s before: door :gate; :gate = :gate; the only one",
        "    ├ from Open at 0: door :gate; stands at 600, 10 min later",
        "    │ └ :o :opens :gate                              data/mon.ndjson:1",
        "    └ not Shut in (0, 10 min]: no Shut in the window",
    ]
    assert tree.splitlines()[4].startswith("  └ Stuck at 600, urn:dotr:")


def test_consumed_event_is_no_candidate(folder: Folder) -> None:
    elements = [
        (0, ":a :celsius 80 ; :by :t1 ."),
        (10, ":b :celsius 90 ; :by :t1 ."),
        (60, ":c :ppm 400 ; :by :g1 ."),
        (70, ":d :ppm 500 ; :by :g1 ."),
    ]
    folder.write(elements)
    lines = folder.why("--rule", "Leak", "--at", "70").splitlines()
    assert lines[6] == "└ last Hot at 0, 70 s before: room :lab, v 80; :lab = :lab, 80 > 75; the only one; used up now"


def test_a_case_of_a_rule_test_has_lines_of_the_test(folder: Folder) -> None:
    folder.write(LEAK)
    (folder.path / "why.yaml").write_text(
        'rules: [why.dotr]\nprefixes: { "": "http://example.org/why#" }\nknowledge: { graphs: [plant.ttl], datalog: [plant.dlog] }\n'
        "cases:\n  - name: leak\n    stream:\n      - { at: 0, graph: '[] :celsius 80 ; :by :t1 .' }\n"
        "      - { at: 60, graph: '[] :ppm 400 ; :by :g1 .' }\n    expect: []\n"
        "  - name: nothing\n    stream:\n      - { at: 0, graph: '[] :celsius 80 ; :by :t1 .' }\n    expect: []\n"
    )
    lines = folder.why("--rule", "Leak", "--case", "1").splitlines()
    assert lines[2] == "│ ├ _:r :ppm 400                                     why.yaml:8"
    assert folder.why("--rule", "Leak").splitlines()[:2] == ["leak:", lines[0]]
    assert folder.stderr == "nothing: There is no event Leak.\nLeak never fired: dotr why-not why.yaml --rule Leak\n"
    assert isinstance(json.loads(folder.why("--rule", "Leak", "--format", "json")), list)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), "C219 no event and no triple is given"),
        (("--triple", ":a :b :c"), "C219 --triple needs the time of an instant"),
        (("--triple", ":a :b", "--at", "0"), "C219 :a :b is no triple"),
        (("--triple", ":a :b :c", "--at", "0", "--rule", "Leak"), "C219 --triple asks about a triple"),
        (("--rule", "Leek"), "C219 there is no rule Leek\nDid you mean Leak?"),
        (("--rule", "Leak", "--where", "rom=:lab"), "C219 Leak has no attribute rom"),
        (("--rule", "Leak", "--depth", "-1"), "C219 --depth -1 is negative"),
    ],
)
def test_wrong_questions_are_refused(folder: Folder, arguments: tuple[str, ...], words: str) -> None:
    folder.write(LEAK)
    assert folder.why(*arguments, code=2) == ""
    assert folder.stderr.startswith(words)


def test_the_tree_of_the_documentation_is_what_the_command_prints(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(ROOT)
    page = (ROOT / "docs" / "explanations.md").read_text(encoding="utf-8")
    command, _, printed = page.partition("$ dotr why ")[2].partition("```")[0].partition("\n")
    assert main(["why", *command.split()]) == 0
    assert capsys.readouterr().out == printed


def test_events_passed_over_for_their_role_are_named(tmp_path: Path) -> None:
    """With `also` none is passed over; `before` has no bound to write."""
    rules = tmp_path / "r.dotr"
    look_up = "from Ask and last T as Now within 9 s from Ask and {} T as Then within 9 s from Ask"
    rules.write_text(
        "PREFIX : <http://e/>\nquery T = [ SELECT ?v WHERE { ?t :v ?v } ]\nquery Ask = [ SELECT ?q WHERE { ?q a :Ask } ]\n"
        f"rule Other define Other = [ [] :v ?v ] {look_up.format('last')} with Other.?v = Then.?v\n"
        f"rule Same define Same = [ [] :v ?v ] {look_up.format('also last')} with Same.?v = Then.?v\n"
        "rule High define High = [ [] :v ?v ] from Ask and last T [ FILTER(?v > 5) ] before Ask with High.?v = T.?v\n"
    )
    session = Program.load(rules=rules, prefixes={"": "http://e/"}).session(record=True)
    for time, graph in ((3, ":a :v 1 ."), (5, ":a :v 2 .")):
        session.advance(time, graph)
    other, same = session.advance(6, ":q a :Ask .")
    assert "last Then at 3, 3 s before: v 1; the only one that has no role yet; v 2 at 5 is Now already" in session.why(other).text
    assert "also last Then at 5, 1 s before: v 2; the latest of 2" in session.why(same).text
    assert "already" not in session.why(same).text
    session.advance(13, ":q a :Ask .")
    refused = session.why_not("Other").text
    assert "nothing for Then among 1 in [4, 13)" in refused
    assert "it is Now already" in refused
    assert "nothing for T among 2 before 13" in session.why_not("High").text
