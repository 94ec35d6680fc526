"""Background from tables of csv and json, and the ontologies that graphs import."""

from __future__ import annotations

import gzip
import json

import pytest

import dotr
from dotr.errors.diagnostics import ArgumentRefused, Refused
from dotr.runtimes.pipeline.config import read_config
from tests.conftest import Project

pytestmark = pytest.mark.core

CONFIG = """name: pumps
prefixes: { "": "http://e/" }
knowledge:
  tables:
    - { path: "pumps-*", format: csv, delimiter: ";", decimal: ",", map: "MAP" }
    - { path: halls.json, format: json, each: "halls[]", map: ":{name} :floor {floor} ." }
rules: [r.dotr]
input: [ { name: a, format: ndjson, path: a.ndjson } ]
output: [ { path: out.ndjson } ]
dead_letter: dead.ndjson
engine: local
""".replace("MAP", ":{pump} :in :{hall} ; :limit {limit:decimal} . [] :of :{pump}")
RULE = """PREFIX : <http://e/>
rule High define High = [ dotr_id a :High ; :floor ?f ]
from P = [ SELECT ?f WHERE { ?p :bar ?v ; :in ?h ; :limit ?l . ?h :floor ?f . ?tag :of ?p FILTER(?v > ?l) } ]
with High.?f = P.?f
"""
TEST = """KNOWLEDGEcases:
  - name: a pump above its own limit
    stream: [ { at: 1, graph: ":p1 :bar 7.2 . :p2 :bar 8 ." } ]
    expect: [ { at: 1, event: High, attributes: { f: 2 } } ]
"""


@pytest.fixture
def pumps(project: Project) -> Project:
    project.write("r.dotr", RULE)
    project.write("pumps-north.csv", "pump;hall;limit\np1;h1;7,1\n")
    (project.folder / "pumps-south.csv.gz").write_bytes(gzip.compress(b"pump;hall;limit\np2;h1;8,5\n"))
    project.write("halls.json", json.dumps({"halls": [{"name": "h1", "floor": 2}, {"name": "h2"}]}))
    project.write("a.ndjson", json.dumps({"time": 1, "graph": ":p1 :bar 7.2 . :p2 :bar 8 ."}) + "\n")
    project.write("c.yaml", CONFIG)
    return project


def test_rows_are_triples_of_the_background_for_every_command(pumps: Project) -> None:
    assert pumps.dotr("check", "--strict", "c.yaml").code == 0
    assert pumps.dotr("run", "c.yaml", "--fresh").code == 0
    assert json.loads(pumps.read("out.ndjson"))["attributes"] == {"f": '"2"^^<http://www.w3.org/2001/XMLSchema#integer>'}
    for knowledge in ("config: c.yaml\n", CONFIG.partition("\n")[2].partition("input:")[0]):
        pumps.write("t.yaml", TEST.replace("KNOWLEDGE", knowledge))
        assert pumps.dotr("test", "t.yaml").code == 0
    info = pumps.dotr("kb", "info", "c.yaml").out
    assert "triples    7: 7 loaded" in info
    assert "table      3 triples of 1 row of pumps-north.csv" in info
    why = pumps.dotr("why", "c.yaml", "--rule", "High", "--at", "1", "--depth", "9", "--background").out
    assert "pumps-north.csv:2" in why
    assert "halls.json" in why


def test_cells_that_are_left_out_are_counted_by_table(pumps: Project) -> None:
    pumps.change("c.yaml", "{limit:decimal}", "{limit:decimal?}")
    pumps.write("pumps-east.csv", "pump;hall;limit\np3;h1;?\np4;h2;n/a\np5;h2;\n")
    for _ in range(2):  # also where the background is compiled already
        info = pumps.dotr("kb", "info", "c.yaml").out
        assert "6 triples of 3 rows of pumps-east.csv\n           2 cells of limit of another type, left out\ntable      3 triples" in info


def test_compiled_background_holds_them_until_a_row_changes(pumps: Project) -> None:
    assert "It was not compiled yet" in pumps.dotr("kb", "info", "c.yaml").err
    assert "It was not compiled yet" not in pumps.dotr("kb", "info", "c.yaml").err
    pumps.write("c.yaml", pumps.read("c.yaml").replace(":limit {limit:decimal}", ":least {limit:decimal}"))
    assert "It was not compiled yet" in pumps.dotr("kb", "info", "c.yaml").err
    pumps.write("pumps-north.csv", "pump;hall;limit\np1;h1;7,3\n")
    assert "It was not compiled yet" in pumps.dotr("kb", "info", "c.yaml").err


@pytest.mark.parametrize(
    ("rows", "reported"),
    [
        (
            "pump;hall;limit\np1;h1;7,1\np3;off;off\n",
            ["pumps-north.csv:3:8: K104 limit: 'off' is no decimal", "  3 | p3;off;off\n    |        ^^^"],
        ),
        ("pump;hall;limit\np1;h1\np2\n", ["pumps-north.csv:2:1: K104 it has 2 columns", "pumps-north.csv:3:1: K104 it has 1 column "]),
        ("pump;hall;limit\np1;h1;1\np2;h2;off\n".replace("p1", '"p\n1"'), ["pumps-north.csv:4:7: K104 limit: 'off'"]),
        ("pump;hall;limit\n" + "p1;h1\n" * 12, ["and 2 more rows"]),
    ],
)
def test_unreadable_rows_are_errors_with_their_place(pumps: Project, rows: str, reported: list[str]) -> None:
    pumps.write("pumps-north.csv", rows)
    for command in (("check", "c.yaml"), ("run", "c.yaml", "--fresh")):
        result = pumps.dotr(*command)
        assert result.code == 2
        assert [each for each in reported if each not in result.err] == []
    assert not (pumps.folder / "out.ndjson").exists()


def test_value_of_a_json_row_is_shown_at_its_place(pumps: Project) -> None:
    pumps.write("halls.json", '{"halls": [{"name": "h1", "floor": 2},\n {"name": "h2", "floor": "roof"}]}')
    pumps.write("c.yaml", pumps.read("c.yaml").replace("{floor}", "{floor:integer}"))
    assert "floor: 'roof' is no integer" in pumps.dotr("check", "c.yaml").err


@pytest.mark.parametrize(
    ("old", "new", "reported"),
    [
        ("{limit:", "{limt:", "c.yaml:5:7: I103 pumps-north.csv has no column limt, which map names"),
        ("{limit:", "{limt:", "Did you mean limit?"),
        ("halls.json", "hall.json", "C301 there is no file hall.json"),
        (":{name} :floor", "x:{name} :floor", "c.yaml:6:64: T103"),
        ('each: "halls[]"', 'each: "halls[]", time: at', "A row of a table holds at every instant."),
        ('each: "halls[]"', 'each: "halls[]", delimiter: ";"', "C204 delimiter belongs to csv, not to json"),
        ("format: json", "format: parquet", "C203 knowledge.tables.1.format should be csv or json"),
        (', map: ":{name} :floor {floor} ."', "", "C202 knowledge.tables.1.map is missing"),
        (":floor {floor}", ":floor {$topic}", "T107 $topic is a property of messages of a broker, not of files"),
    ],
)
def test_wrong_declarations_are_refused(pumps: Project, old: str, new: str, reported: str) -> None:
    config = pumps.read("c.yaml")
    assert old in config
    pumps.write("c.yaml", config.replace(old, new))
    result = pumps.dotr("run", "c.yaml")
    assert result.code == 2
    assert reported in result.err


def test_output_over_a_table_is_refused(pumps: Project) -> None:
    assert "named by knowledge.tables" in pumps.dotr("run", "c.yaml", "--set", "output.0.path=halls.json", "--fresh").err


def test_check_knows_the_terms_of_tables(pumps: Project) -> None:
    pumps.write("pumps-north.csv", "pump;hall;limit\np1;h1;7,1\np3;h1;7\np4;h1;6\n")
    pumps.write("r.dotr", RULE.replace(":limit ?l", ":limmit ?l"))
    assert "the predicate :limmit occurs once, and :limit 5 times" in pumps.dotr("check", "c.yaml").err
    other = "\nrule Again define Again = [ [] a :Again ] from Q = [ SELECT ?x { ?x :bar 1 ; :limit ?a ; :limit ?b } ]\n"
    pumps.write("r.dotr", RULE + other)
    assert pumps.dotr("check", "--strict", "--data", "c.yaml").code == 0
    pumps.change("c.yaml", ":limit {", ":limt {")
    assert "c.yaml:5:97: C223 warning: the predicate :limt occurs once, and :limit 3 times" in pumps.dotr("check", "c.yaml").err


def test_settings_decide_the_state_of_a_checkpoint(pumps: Project) -> None:
    def meaning() -> str:
        from dotr.engine.state.schema import knowledge_digests
        from dotr.languages.programs import compile_program

        return knowledge_digests(compile_program(read_config(str(pumps.folder / "c.yaml")).program())).meaning

    before = meaning()
    assert meaning() == before
    pumps.write("c.yaml", pumps.read("c.yaml").replace(":limit {", ":bound {"))
    assert meaning() != before


# From Python


def test_program_takes_tables_and_imports(pumps: Project) -> None:
    pumps.write("site.ttl", "<http://e/site> <http://www.w3.org/2002/07/owl#imports> <http://e/model> .")
    pumps.write("model.ttl", "<http://e/h1> <http://e/floor> 3 .")
    rows = {
        "path": pumps.folder / "pumps-north.csv",
        "format": "csv",
        "delimiter": ";",
        "map": ":{pump} :in :{hall} ; :limit 7 . [] :of :{pump} .",
    }
    program = dotr.Program.load(
        text=RULE,
        graphs=pumps.folder / "site.ttl",
        tables=[rows],
        imports={"http://e/model": pumps.folder / "model.ttl"},
        prefixes={"": "http://e/"},
    )
    assert "background of 1 RDF file, 1 table and no Datalog files" in repr(program)
    assert [event.values for event in program.session().advance(1, ":p1 :bar 8 .")] == [{"f": 3}]
    assert program.warnings == ()


@pytest.mark.parametrize(
    ("key", "value", "reported"),
    [
        ("path", "none.csv", "C301 there is no file none.csv"),
        ("map", ":{pmp} :in :{hall} .", "I103 "),
        ("formt", "csv", "C201 unknown key formt"),
        ("format", "xlsx", "C203 knowledge.tables.0.format should be csv or json"),
    ],
)
def test_program_refuses_wrong_tables(pumps: Project, key: str, value: object, reported: str) -> None:
    rows = {"path": pumps.folder / "pumps-north.csv", "format": "csv", "delimiter": ";", "map": ":{pump} :in :{hall} ."}
    with pytest.raises(Refused) as caught:
        dotr.Program.load(text=RULE, tables=[rows | {key: value}], prefixes={"": "http://e/"})
    assert reported in str(caught.value)
    assert "Program.load:" in str(caught.value)


# Imports


OWL = "@prefix owl: <http://www.w3.org/2002/07/owl#> . @prefix : <http://e/> . "
IMPORTS = CONFIG.replace(
    "  tables:\n",
    "  graphs: [site.ttl]\n  imports: { 'http://e/model': model.ttl, http://e/parts: parts.ttl, http://e/unused: other.ttl }\n  tables:\n",
)


@pytest.fixture
def site(pumps: Project) -> Project:
    pumps.write("site.ttl", OWL + ":site a owl:Ontology ; owl:imports :model, :site .")
    pumps.write("model.ttl", OWL + ":model a owl:Ontology ; owl:imports :parts, :site . [] :part :p1 .")
    pumps.write("parts.ttl", OWL + ":v7 a owl:Ontology ; owl:imports :model, :parts . [] :part :p2 .")
    pumps.write("other.ttl", "broken")
    pumps.write("r.dotr", RULE.replace("?p :bar", "?of :part ?p . ?p :bar"))
    pumps.write("c.yaml", IMPORTS)
    return pumps


def test_imports_are_resolved_in_circles_and_each_once(site: Project) -> None:
    assert site.dotr("check", "--strict", "c.yaml").code == 0
    assert site.dotr("run", "c.yaml", "--fresh").code == 0
    assert json.loads(site.read("out.ndjson"))["time"] == 1
    assert "triples    18: 18 loaded" in site.dotr("kb", "info", "c.yaml").out
    assert "model.ttl" in site.dotr("why", "c.yaml", "--rule", "High", "--at", "1", "--depth", "9", "--background").out


def test_unresolved_import_is_told_once(site: Project) -> None:
    site.write("model.ttl", OWL + ":model owl:imports :sensors, :site, :old . :x a owl:Ontology ; owl:versionIRI :old .")
    site.write("parts.ttl", OWL + ":parts owl:imports :sensors .")
    site.write("site.ttl", OWL + ":site a owl:Ontology ; owl:imports :model, :parts, :sensors .")
    told = site.dotr("check", "c.yaml").err
    assert told.count("K139") == 2  # with its way out
    assert "K139 warning: <http://e/model> imports <http://e/sensors>, which no graph holds" in told
    assert site.dotr("run", "c.yaml", "--fresh").code == 0
    site.write("site.ttl", OWL + ":site a owl:Ontology ; owl:imports <http://e/model#> .")
    assert "Did you mean http://e/model# in knowledge.imports, where http://e/model is?" in site.dotr("check", "c.yaml").err


@pytest.mark.parametrize(
    ("old", "new", "reported"),
    [
        ("parts.ttl", "part.ttl", "C301 there is no file part.ttl"),
        ("http://e/parts:", "a b:", "C203 a b is no IRI"),
        ("parts: parts.ttl", "parts: other.ttl", "K104"),
    ],
)
def test_wrong_imports_are_refused(site: Project, old: str, new: str, reported: str) -> None:
    site.write("c.yaml", site.read("c.yaml").replace(old, new))
    result = site.dotr("check", "c.yaml")
    assert result.code == 2
    assert reported in result.err


# Texts


def test_text_of_a_language_is_a_program() -> None:
    stream = "PREFIX : <http://e/> REGISTER STREAM :hot AS CONSTRUCT { ?r a :Hot } "
    stream += "FROM NAMED WINDOW :w ON :t [RANGE PT5S STEP PT5S] WHERE { WINDOW :w { ?r :v 7 } }"
    program = dotr.Program.load(text=stream, language="rspql", unit="s")
    assert [unit.name for unit in program.units] == ["hot"]
    both = dotr.Program.load(text={"q.rspql": stream, "r.dotr": RULE})
    assert [rule.name for rule in both.rules.rules] == ["High"]
    assert [unit.name for unit in both.units] == ["hot"]


@pytest.mark.parametrize(
    ("arguments", "reported"),
    [
        ({}, "C202 rules or text is missing"),
        ({"text": RULE, "language": "sparql"}, "C203 language should be dotr, rspql, lars or epsparql, not 'sparql'"),
        ({"text": {"q.txt": ""}}, "C319 q.txt is no rule file"),
        ({"text": "rule R define"}, "text.dotr:1:"),
        ({"rules": RULE}, "C319 rules is a text, and no path\nGive it as text: Program.load(text=…)."),
    ],
)
def test_wrong_texts_are_refused(arguments: dict[str, str], reported: str) -> None:
    with pytest.raises(Refused) as caught:
        dotr.Program.load(**arguments)  # type: ignore[arg-type]
    assert reported in str(caught.value)
    assert isinstance(caught.value, ArgumentRefused | Refused)
