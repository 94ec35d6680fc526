"""`dotr explain` and `dotr new`."""

from __future__ import annotations

import re
from pathlib import Path
from xml.dom import minidom

import pytest

from dotr.workbench.new import FILES
from tests.conftest import Project

ROOT = Path(__file__).parent.parent


def explained(project: Project, path: str | Path, *options: str) -> str:
    answer = project.dotr("explain", str(path), *options)
    assert (answer.code, answer.err) == (0, "")
    return answer.out


def test_rule_r(project: Project) -> None:
    text = explained(project, ROOT / "configs/fire.yaml")
    assert "Background: 3 triples, and 0 derived from them once; entailment none; 1 Datalog rule." in text
    assert "Query 1: Smoke of R\n  asked      from what the instant brings\n  wakes on   a :Smoke\n  Datalog    " in text
    assert text[text.index("Rule R") :] == (
        'Rule R -> Fire: "Smoke in a room within five minutes after a high temperature there is a fire."\n'
        "  from Smoke (query 1)\n"
        "  last HighTemp (query 2) within (0, 5 min] from Smoke\n"
        "    where    ?room2 = Smoke.?room1\n"
        "  with       Fire.?room = Smoke.?room1\n"
        "  consuming  HighTemp\n"
        "  partition  by the value of Smoke.?room1 = HighTemp.?room2\n"
        "  layer      0\n"
        "  state      HighTemp: ?read2, ?room2: kept 5 min\n"
    )


def test_the_city_has_layers_and_rules_on_one_core(project: Project) -> None:
    text = explained(project, ROOT / "configs/city.yaml")
    rules = dict(re.findall(r"^Rule (\w+) .*\n((?:  .*\n)*)", text, re.MULTILINE))
    assert set(rules) == {"SuddenSlowDown", "WarnNeighbours", "SpreadingSlowDown", "SlowInStrongWind", "SlowNearFullCarPark"}
    assert "  from SlowDown (event SlowDown)\n" in rules["WarnNeighbours"]
    assert "  if         Reading.?speed < (0.6 * Before.?speed)\n" in rules["SuddenSlowDown"]
    assert "  partition  one partition, on one core: no constraint equates" in rules["SlowInStrongWind"]
    assert "  layer      0\n" in rules["WarnNeighbours"]
    assert "  layer      1\n" in rules["SpreadingSlowDown"]


def test_a_query_that_rules_share_and_one_that_costs_the_background(project: Project) -> None:
    project.write(
        "two.dotr",
        "PREFIX : <http://e/>\n"
        "query A = [ SELECT ?x WHERE { ?x a :A } ]\n"
        "query B = [ SELECT ?y WHERE { ?y :p ?z . FILTER NOT EXISTS { ?q :r ?y } } ORDER BY ?z LIMIT 1 ]\n"
        "query Idle = [ SELECT ?y WHERE { ?y a :Idle } ]\n"
        "rule One define O = [ ?x a :O ] from A with O.?x = A.?x\n"
        "rule Two define P = [ ?x a :P ] from A and each B within 1 h 30 s from A with P.?x = B.?y\n",
    )
    text = explained(project, "two.dotr")
    assert "Query 1: A of One, Two, asked once for all of them\n" in text
    assert "Read by no rule, and asked by rule tests alone: Idle\n" in text
    assert "  each B (query 2) within (0, 1 h 30 s] from A\n" in text
    assert "  partition  any: each anchor is on its own\n  layer      0\n  state      none\n" in text


@pytest.mark.parametrize("config", ["fire", "city"])
def test_drawings(project: Project, config: str) -> None:
    path = ROOT / f"configs/{config}.yaml"
    text = explained(project, path)
    rules, queries = re.findall(r"^Rule (\w+)", text, re.MULTILINE), re.findall(r"^Query (\d+)", text, re.MULTILINE)
    flow = explained(project, path, "--format", "mermaid")
    assert flow.startswith("flowchart LR\n")
    assert all(re.search(rf'^  r\d+\[\["{rule}<br/>', flow, re.MULTILINE) for rule in rules)
    assert all(f"  q{number}[" in flow for number in queries)
    assert all(line.count('"') % 2 == 0 and "<b" not in line.replace("<br/>", "") for line in flow.splitlines())
    drawn = minidom.parseString(explained(project, path, "--format", "svg"))
    said = [node.firstChild.data for node in drawn.getElementsByTagName("text") if isinstance(node.firstChild, minidom.Text)]
    assert set(rules) <= set(said)
    boxes = [
        (float(r.getAttribute("x")), float(r.getAttribute("y")), float(r.getAttribute("width")), float(r.getAttribute("height")))
        for r in drawn.getElementsByTagName("rect")[1:]
    ]
    width = float(drawn.documentElement.getAttribute("width")) if drawn.documentElement else 0
    assert all(x >= 0 and x + w <= width for x, _, w, _ in boxes)
    apart = [
        a[0] + a[2] <= b[0] or b[0] + b[2] <= a[0] or a[1] + a[3] <= b[1] or b[1] + b[3] <= a[1] for a in boxes for b in boxes if a is not b
    ]
    assert all(apart)


@pytest.mark.parametrize("path", sorted((ROOT / "tests/cases").glob("*.yaml")), ids=lambda path: path.name)
@pytest.mark.parametrize("form", ["text", "mermaid", "svg"])
def test_every_case_can_be_explained(project: Project, path: Path, form: str) -> None:
    assert explained(project, path, "--format", form)


def test_what_cannot_be_explained(project: Project) -> None:
    assert "C302 cannot read none.yaml" in project.refused("explain", "none.yaml")
    assert "C303 a.ndjson is nothing that dotr explains" in project.refused("explain", "a.ndjson")
    project.change("r.dotr", "from A", "form A")
    assert "r.dotr:4:1: D101" in project.refused("explain", "r.dotr")
    assert "r.dotr:4:1: D101" in project.refused("explain", "c.yaml")
    assert "invalid choice: 'png'" in project.refused("explain", "c.yaml", "--format", "png")


def test_a_new_project_works(project: Project) -> None:
    answer = project.dotr("new", "deep/plant")
    assert answer.code == 0
    assert answer.out.split() == [f"deep/plant/{name}" for name in FILES]
    run = project.dotr("run", "deep/plant/config.yaml")
    assert (run.code, run.err) == (0, "5 elements, 5 instants, 5 facts, 1 event -> deep/plant/out/alarms.ndjson\n")
    test = project.dotr("test", "deep/plant")
    assert test.code == 0
    assert test.out.endswith("2 passed, 0 failed\n")
    assert project.dotr("check", "deep/plant", "--strict").code == 0
    assert "  partition  by the value of Reading.?machine = Before.?machine" in explained(project, "deep/plant/config.yaml")


def test_a_new_project_takes_no_folder_that_is_in_use(project: Project) -> None:
    before = project.files()
    assert "C305 . holds files already" in project.refused("new", ".")
    assert "C305 a.ndjson is a file" in project.refused("new", "a.ndjson")
    assert "C304 cannot write a.ndjson/x" in project.refused("new", "a.ndjson/x")
    assert "C304 cannot write /proc/none" in project.refused("new", "/proc/none/x")
    assert project.files() == before
    (project.folder / "empty").mkdir()
    assert project.dotr("new", "empty").code == 0
    assert 'name: "empty"' in project.read("empty/config.yaml")
