"""Graphs of the background with a declared format, and with declared contexts of JSON-LD."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dotr.engine.spec import ProgramSpec
from dotr.runtimes.pipeline.config import read_config
from tests.conftest import Project

pytestmark = pytest.mark.core

CONFIG = """name: kb
prefixes: { "": "http://e/" }
knowledge: { graphs: [lamp.json, { path: "*.data", format: turtle }], contexts: { "https://e/td": kb/td.jsonld } }
rules: [r.dotr]
input: [ { name: a, format: ndjson, path: a.ndjson } ]
output: [ { path: out.ndjson } ]
engine: local
"""
RULE = """PREFIX : <http://e/>
rule Lit define Lit = [ :l :title ?l ] from S = [ SELECT ?l WHERE { ?x :on true ; :title ?l ; :in :hall } ] with Lit.?l = S.?l
"""
TEST = """KNOWLEDGEcases:
  - name: a lamp
    stream: [ { at: 1, graph: "<urn:lamp> :on true ." } ]
    expect: [ { at: 1, event: Lit, attributes: { l: '"Lamp"' } } ]
"""


@pytest.fixture
def lamp(project: Project) -> Project:
    project.write("r.dotr", RULE)
    project.write("kb/td.jsonld", '{"@context": {"id": "@id", "title": "http://e/title"}}')
    project.write("lamp.json", '{"@context": "https://e/td", "id": "urn:lamp", "title": "Lamp"}')
    project.write("hall.data", "( 1 ) a <http://e/Plan> . <urn:lamp> <http://e/in> <http://e/hall> .")
    project.write("a.ndjson", json.dumps({"time": 1, "graph": "<urn:lamp> <http://e/on> true ."}) + "\n")
    project.write("c.yaml", CONFIG)
    return project


def test_every_command_reads_them(lamp: Project) -> None:
    assert lamp.dotr("check", "--strict", "c.yaml").code == 0
    assert lamp.dotr("run", "c.yaml", "--fresh").code == 0
    assert json.loads(lamp.read("out.ndjson"))["attributes"] == {"l": '"Lamp"'}
    assert "Lamp" in lamp.dotr("facts", "c.yaml", "--at", "1").out
    assert "lamp.json" in lamp.dotr("why", "c.yaml", "--rule", "Lit", "--at", "1", "--depth", "9", "--background").out
    assert "5 triples" in lamp.dotr("explain", "c.yaml").out
    for knowledge in ("config: c.yaml\n", "\n".join(CONFIG.splitlines()[1:4]) + "\n"):
        lamp.write("t.yaml", TEST.replace("KNOWLEDGE", knowledge))
        assert lamp.dotr("test", "t.yaml").code == 0


@pytest.mark.parametrize(
    ("old", "new", "reported"),
    [
        (', contexts: { "https://e/td": kb/td.jsonld }', "", "K107 "),
        ("kb/td.jsonld }", "kb/none.jsonld }", "C301 cannot read kb/none.jsonld: no such file"),
        ("kb/td.jsonld }", "hall.data }", "C203 hall.data is no JSON-LD context: "),
        ("format: turtle", "format: turtel", "C203 knowledge.graphs.1.format should be turtle, "),
        ("format: turtle", "syntax: turtle", "C201 unknown key syntax\n"),
        ('path: "*.data", format', "format", "C202 knowledge.graphs.1.path is missing\n"),
        ("*.data", "*.none", "C301 no file matches *.none\n"),
        (", format: turtle", "", "K102 "),
    ],
)
def test_wrong_declarations_are_refused(lamp: Project, old: str, new: str, reported: str) -> None:
    lamp.change("c.yaml", old, new)
    assert reported in lamp.refused("check", "c.yaml")
    assert reported in lamp.refused("run", "c.yaml")


def test_declarations_are_part_of_the_program(lamp: Project) -> None:
    spec = read_config("c.yaml").program()
    assert spec.graphs == (str(lamp.folder / "lamp.json"), str(lamp.folder / "hall.data"))
    assert spec.reading.formats == ((str(lamp.folder / "hall.data"), "turtle"),)
    assert ProgramSpec.from_json(spec.to_json()) == spec
    keys = {spec.sources.key()}
    lamp.change("kb/td.jsonld", "http://e/title", "http://e/name")
    keys.add(read_config("c.yaml").program().sources.key())
    lamp.change("c.yaml", "turtle", "trig")
    keys.add(read_config("c.yaml").program().sources.key())
    assert len(keys) == 3


def test_program_without_declarations_is_stored_as_in_older_releases(lamp: Project) -> None:
    lamp.write("c.yaml", CONFIG.replace(CONFIG.splitlines()[2], "knowledge: { graphs: [{ path: a.ttl }] }"))
    lamp.write("a.ttl", "")
    spec = read_config("c.yaml").program()
    assert "reading" not in json.loads(spec.to_json())
    assert ProgramSpec.from_json(spec.to_json()) == spec


def test_output_does_not_replace_a_declared_graph(lamp: Project) -> None:
    lamp.change("c.yaml", "out.ndjson", "hall.data")
    assert "C206" in lamp.refused("run", "c.yaml", "--fresh")
    assert Path("hall.data").read_text().startswith("( 1 )")
