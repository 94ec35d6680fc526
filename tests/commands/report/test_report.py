"""`dotr report`: its content, the written page, and refused input."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from dotr.commands import main
from dotr.commands.report.collection import collect
from dotr.commands.report.data import LaneKind, ReportData
from dotr.commands.report.writing import UPLOT_VERSION, ReportLimits, page, write_report
from dotr.commands.why.questions import open_replays
from dotr.model.stream import Reason
from tests.conftest import Project
from tests.support.paths import ROOT

pytestmark = pytest.mark.core

HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(2)>"


def report(project: Project, config: str | Path = "c.yaml", *options: str) -> str:
    answer = project.dotr("report", str(config), "-o", "report.html", *options)
    assert answer.code == 0, answer
    assert answer.out == "report.html\n"
    return project.read("report.html")


def embedded(text: str) -> dict[str, object]:
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.DOTALL)
    assert found is not None
    data: dict[str, object] = json.loads(found[1])
    return data


class Text(HTMLParser):
    """The elements of a page, and its text outside of scripts and styles."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.elements: list[str] = []
        self.text = ""
        self._silent = False
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.elements.append(tag)
        assert not [name for name, _ in attributes if name.startswith("on")]
        self._silent = tag in ("script", "style")

    def handle_endtag(self, tag: str) -> None:
        self._silent = False

    def handle_data(self, data: str) -> None:
        self.text += "" if self._silent else data


def data_of(config: str | Path, events: int = 50_000) -> ReportData:
    return write_report(str(config), "report.html", limits=ReportLimits(events))


def test_city_is_counted_as_a_run_counts_it(project: Project) -> None:
    data = data_of(ROOT / "configs/city.yaml")
    assert (data.totals.elements, data.totals.instants, data.totals.facts, data.totals.events) == (7416, 432, 22959, 168)
    assert data.totals.dead_letters == {Reason.LATE: 3, Reason.UNREADABLE: 1}
    lanes = {(lane.kind, lane.name): lane.total for lane in data.lanes}
    assert [name for kind, name in lanes if kind is LaneKind.INPUT] == ["traffic", "weather", "parking"]
    for kind, total in ((LaneKind.INPUT, 7416), (LaneKind.FACT, 22959), (LaneKind.RULE, 168), (LaneKind.DEAD_LETTER, 3)):  # one has no time
        assert sum(count for (each, _), count in lanes.items() if each is kind) == total
    assert {rule.name: rule.events for rule in data.rules}["WarnNeighbours"] == 116
    assert [(each.name, each.elements, each.rejected, each.ended, each.lag) for each in data.inputs] == [
        ("traffic", 6912, 4, True, 0),
        ("weather", 72, 0, True, 0),
        ("parking", 432, 0, True, 0),
    ]
    assert len(data.events) == 168
    assert data.bin_width == 1


def test_events_have_attributes_graph_and_name(project: Project) -> None:
    fire = data_of(ROOT / "configs/fire.yaml").events[0]
    assert (fire.time, fire.rule, fire.type, fire.attributes) == (12_000_000, "R", "Fire", (("room", ":roomA"),))
    assert fire.name == "urn:dotr:77ffbde2802184a6c638a859667866e8"
    assert fire.graph == ((f"<{fire.name}>", "a", ":Fire"), (f"<{fire.name}>", ":at_room", ":roomA"))


def test_events_beyond_the_limit_are_counted_and_the_first_and_last_kept(project: Project) -> None:
    project.write("a.ndjson", "".join(f'{{"time": {time}, "graph": ":a{time} a :A ."}}\n' for time in range(100)))
    data = data_of("c.yaml", events=20)
    assert [event.time // 1_000_000 for event in data.events] == [*range(10), *range(90, 100)]
    assert [lane.total for lane in data.lanes if lane.kind is LaneKind.RULE] == [100]
    assert "Of 100 events 20 are in this page" in Text(page(data)).text


def test_timeline_is_bounded(project: Project) -> None:
    project.write("a.ndjson", "".join(f'{{"time": {time}, "graph": ":a a :A ."}}\n' for time in range(1000)))
    (replay,) = open_replays("c.yaml")
    collected = collect(replay, {}, bins=100)
    assert collected.bin_width == 10_000_000
    assert all(len(lane.counts) == 100 and lane.total == 1000 for lane in collected.lanes)


def test_page_holds_proofs_of_the_first_and_last_events(project: Project) -> None:
    project.write("a.ndjson", "".join(f'{{"time": {time}, "graph": ":a{time} a :A ."}}\n' for time in range(50)))
    data = write_report("c.yaml", "report.html", limits=ReportLimits(proofs=4))
    assert [event.time // 1_000_000 for event in data.events if event.proof is not None] == [0, 1, 48, 49]
    assert [event.proof for event in data.events if event.proof is not None] == [0, 1, 2, 3]
    for event in data.events[-2:]:
        assert event.proof is not None
        assert event.name in data.proofs[event.proof].text
    (anchor,) = data.proofs[3].premises
    (leaf,) = anchor.premises
    assert (leaf.text, leaf.place.rpartition("/")[2]) == (":a49 a :A", "a.ndjson:50")
    text = Text(page(data)).text
    assert "The proofs of 4 of 50 events: of each rule the first and the last ones." in text
    assert write_report("c.yaml", "report.html", limits=ReportLimits(proofs=0)).proofs == ()


def test_proofs_are_of_events_without_names_too(project: Project) -> None:
    project.change("r.dotr", "dotr_id a :Out ; :x ?x", "?x a :Out")
    project.write("a.ndjson", '{"time": 1, "graph": ":a a :A . :b a :A ."}\n')
    data = data_of("c.yaml")
    assert [(event.name, event.proof) for event in data.events] == [("", 0), ("", 1)]
    assert [":b" in proof.text for proof in data.proofs] == [False, True]


def test_rules_that_never_fired_have_a_reason(project: Project) -> None:
    rule = "rule {0} define {0}s = [ dotr_id a :{0} ] from A [ FILTER(?x = :{1}) ]\n"
    rules = "".join(rule.format(name, value) for name, value in (("R", "a"), ("N0", "c0"), ("N1", "c1"), ("N2", "c2")))
    project.write("r.dotr", f"PREFIX : <http://e/>\nquery A = [ SELECT ?x WHERE {{ ?x a :A }} ]\n{rules}")
    data = write_report("c.yaml", "report.html", limits=ReportLimits(unfired_rules=2))
    reasons = {rule.name: rule.reason_not_fired for rule in data.rules}
    assert reasons["R"] == ""
    assert reasons["N0"].startswith("0 anchors.\nN0: 0 anchors")
    assert "?x = :c0 is false" in reasons["N0"]
    assert reasons["N2"] == "0 anchors."
    assert "?x = :c1 is false" in Text(page(data)).text


def test_terms_without_an_element_are_named(project: Project) -> None:
    project.write("a.ndjson", '{"time": 1, "graph": ":a a :B ; :p 1 ."}\n')
    assert "Its anchor A has no fact. No element brought :A; the elements bring :B, :p." in Text(report(project)).text


def test_dead_letters_are_shown_by_reason_with_examples(project: Project) -> None:
    lines = ['{"time": 10, "graph": ":a a :A ."}', *['{"time": 1, "graph": ":b a :A ."}'] * 7, "nonsense"]
    project.write("a.ndjson", "\n".join(lines) + "\n")
    data = data_of("c.yaml")
    late, unreadable = data.rejected
    assert (late.reason, late.count, len(late.examples)) == (Reason.LATE, 7, 5)
    assert late.examples[0].place.endswith("a.ndjson:2")
    assert (unreadable.reason, unreadable.count) == (Reason.UNREADABLE, 1)
    assert unreadable.examples[0].text == "nonsense"
    text = Text(page(data)).text
    assert "an element of 10 came before this one of 1" in text
    assert "nonsense" in text


def test_rules_show_where_bindings_stopped(project: Project) -> None:
    rules = "PREFIX : <http://e/>\nquery A = [ SELECT ?x WHERE { ?x a :A } ]\nquery B = [ SELECT ?x WHERE { ?x a :B } ]\n"
    rules += "rule Two define Two = [ dotr_id a :Two ] from A and last B within 5 s from A if A.?x = B.?x\n"
    rules += "rule None define No = [ dotr_id a :No ] from B [ FILTER(?x = :c) ]\n"
    project.write("r.dotr", rules + "rule One define One = [ dotr_id a :One ] from A and not B within 5 s from A\n")
    lines = ((1, ":a a :A"), (2, ":b a :B"), (3, ":a a :A"), (30, ":a a :A"))
    project.write("a.ndjson", "".join(json.dumps({"time": time, "graph": f"{graph} ."}) + "\n" for time, graph in lines))
    data = data_of("c.yaml")
    found = {rule.name: (rule.anchors, rule.funnel, rule.events) for rule in data.rules}
    assert found == {"Two": (3, (("B", 1), ("if", 0)), 0), "None": (0, (), 0), "One": (3, (("not B", 2),), 2)}
    text = Text(page(data)).text
    assert "3 rules, those that never fired first" in text
    assert "1 after B, 0 after if" in text
    assert "dotr why-not c.yaml --rule Two" in text


def test_rules_and_units_show_errors_of_conditions(project: Project) -> None:
    rules = "PREFIX : <http://e/>\nquery A = [ SELECT ?v WHERE { ?x :v ?v } ]\n"
    rules += "rule Fall define Fall = [ [] :of 1 ] from A and last A as B [ FILTER(?v > A.?v) ] within 9 s from A if A.?v < 2\n"
    project.write("r.dotr", rules + "rule Late define Late = [ [] :of 1 ] from A delayed by A.?v at most 9 s\n")
    chain = "REGISTER QUERY Rise AS SELECT ?v WHERE { ?x :v ?u } SEQ { ?x :v ?v } FILTER(?v > ?u) WITHIN 1 min"
    project.write("q.epsparql", f"PREFIX : <http://e/>\n{chain}\n")
    project.change("c.yaml", "r.dotr", "r.dotr, q.epsparql")
    values = ((1, "5"), (2, '"n/a"'), (3, "4"), (4, "3"))
    project.write("a.ndjson", "".join(json.dumps({"time": time, "graph": f":a :v {value} ."}) + "\n" for time, value in values))
    data = data_of("c.yaml")
    assert {rule.name: rule.errors for rule in data.rules} == {"Fall": {"B": 1}, "Late": {"delayed by": 1}, "Rise": {"FILTER": 3}}
    text = Text(page(data)).text
    assert "(1 error at B)" in text
    assert "(3 errors at FILTER)" in text


def test_elements_that_fail_in_their_instant_are_dead_letters(project: Project) -> None:
    project.write("a.ndjson", '{"time": 1, "graph": ":a a :A ; :p :b ."}\n{"time": 2, "graph": ":c a :A ."}\n')
    project.change("c.yaml", "engine: local", "engine: local\nlimits: { triples: 1 }")
    data = data_of("c.yaml")
    (limit,) = data.rejected
    assert (limit.reason, limit.count, data.totals.elements) == (Reason.LIMIT, 1, 1)
    assert limit.examples[0].place.endswith("a.ndjson:1")
    assert ":a :p :b ." in limit.examples[0].text
    assert [each.rejected for each in data.inputs] == [1]


def test_growing_input_lags(project: Project) -> None:
    project.change("c.yaml", "output:", "  - { name: b, format: ndjson, path: 'more/*.ndjson', watch: true, lateness: 5 s }\noutput:")
    project.write("more/b.ndjson", '{"time": 3, "graph": ":b a :B ."}\n')
    project.write("a.ndjson", "".join(f'{{"time": {time}, "graph": ":a a :A ."}}\n' for time in (1, 30)))
    growing = {each.name: each for each in data_of("c.yaml").inputs}["b"]
    assert not growing.ended
    assert growing.lag is not None
    assert growing.lag > 0


def test_hostile_texts_are_escaped(project: Project) -> None:
    project.write("a.ndjson", json.dumps({"time": 1, "graph": f':s a :A ; :p "{HOSTILE}" .'}) + f"\n{HOSTILE}\n")
    rules = f'PREFIX : <http://e/>\nrule R "{HOSTILE}"\ndefine Out = [ dotr_id a :Out ; :x ?x ]\n'
    project.write("r.dotr", rules + f'from A = [ SELECT ?x WHERE {{ ?s a :A ; :p ?x FILTER(?x != "{HOSTILE}!") }} ]\nwith Out.?x = A.?x\n')
    project.change("c.yaml", "name: small", f"name: '{HOSTILE}'")
    text = report(project)
    found = Text(text)
    assert "img" not in found.elements
    assert found.elements.count("script") == 3
    assert HOSTILE in found.text
    assert HOSTILE in str(embedded(text)["texts"])
    assert "</script><script>alert" not in text
    assert "<img" not in text


def test_page_names_its_scripts_and_forbids_the_network(project: Project) -> None:
    text = report(project)
    (policy,) = re.findall(r'http-equiv="Content-Security-Policy" content="([^"]*)"', text)
    assert policy.startswith("default-src &#x27;none&#x27;; script-src &#x27;sha256-")
    assert "unsafe" not in policy
    assert re.findall(r'(?:src|href)="(?!#|data:,)', text) == []
    assert "Copyright (c) 2022 Leon Sorokin" in Text(text).text


def test_library_is_the_release_that_the_page_names() -> None:
    folder = ROOT / "dotr/commands/report/uplot"
    assert f"(v{UPLOT_VERSION})" in (folder / "uPlot.iife.min.js").read_text(encoding="utf-8").splitlines()[0]


def test_report_is_a_function_of_its_input(project: Project) -> None:
    assert report(project) == report(project)


def test_page_of_an_empty_stream_has_a_notice(project: Project) -> None:
    project.write("a.ndjson", "")
    text = Text(report(project)).text
    assert "There is nothing to show" in text
    assert "None: every element was taken." in text


def test_only_an_older_report_is_replaced(project: Project) -> None:
    report(project)
    report(project)
    project.write("report.html", "<!DOCTYPE html>\n<p>my notes")
    answer = project.refused("report", "c.yaml", "-o", "report.html")
    assert answer == "C306 report.html is there already, and is no report\nRemove it, or name another file.\n"
    assert project.read("report.html") == "<!DOCTYPE html>\n<p>my notes"
    assert "C306 . is a folder" in project.refused("report", "c.yaml", "-o", ".")


def test_wrong_input_is_refused_and_leaves_no_page(project: Project) -> None:
    assert "C302" in project.refused("report", "nowhere.yaml")
    assert "C102 t.yaml is a rule test" in project.refused("report", "t.yaml")
    project.write("r.dotr", "rule R")
    assert "r.dotr:1" in project.refused("report", "c.yaml")
    assert "report.html" not in project.files()


def test_page_can_be_written_to_standard_output(capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["report", str(ROOT / "configs/fire.yaml"), "-o", "/dev/stdout"]) == 0
    assert capfd.readouterr().out.endswith("</html>\n")


def test_folder_of_the_page_is_created(project: Project) -> None:
    assert project.dotr("report", "c.yaml", "-o", "out/pages/one.html", "--set", "name=other").code == 0
    assert "<title>other: dotr report</title>" in project.read("out/pages/one.html")
