"""`dotr check`: all problems of all files, each once, with programs checked as a whole."""

from __future__ import annotations

import pytest

from tests.conftest import CONFIG, RULE, TEST, Project

pytestmark = pytest.mark.core

NO_PREFIX = RULE.replace("PREFIX : <http://e/>\n", "")


def test_correct_files_have_no_problems(project: Project) -> None:
    state = "State of c.yaml: none, every anchor is on its own\n"
    assert project.dotr("check", "c.yaml", "r.dotr", "t.yaml") == (0, state, "3 files checked: no errors, no warnings.\n")
    assert project.dotr("check", ".") == (0, state, "3 files checked: no errors, no warnings.\n")


CHAIN = """\
PREFIX : <http://e/>
query Temp = [ SELECT ?x WHERE { ?x a :Temp } ]
rule R
define Out = [ dotr_id a :Out ]
from Smoke = [ SELECT ?x WHERE { ?x a :Smoke } ] delayed by 30 s
and each A = [ SELECT ?x WHERE { ?x a :A FILTER(?x = Smoke.?x) } ] within 1 min from Smoke
and last Temp [ FILTER(?x = A.?x) ] within [0, 5 min) from A
and not Rain = [ SELECT ?x WHERE { ?x a :Rain FILTER(?x = Smoke.?x) } ] between Temp and Smoke
rule S
define Other = [ [] a :Other ]
from Out and last Temp within 3 min from Out and each Out as Twin within [0, 0] from Out
"""


def test_retained_state_is_reported(project: Project) -> None:
    project.write("chain.dotr", CHAIN)
    answer = project.dotr("check", "chain.dotr")
    assert answer.code == 0
    assert answer.out == (
        "State of chain.dotr, bounded by the longest chain of windows:\n"
        "  Smoke: kept 30 s (delayed by 30 s) in rule R\n"
        "  A: kept 1 min (1 min from Smoke) in rule R\n"
        "  Temp: kept less than 6 min (less than 5 min from A, 1 min from Smoke) in rule R; no longer in 1 other rule\n"
        "  Rain: kept less than 6 min (between Temp and Smoke, less than 5 min from A, 1 min from Smoke) in rule R\n"
        "  Out: kept for its own instant in rule S\n"
    )


QUERIES = """\
PREFIX : <http://e/>
REGISTER RSTREAM Hot AS SELECT ?x FROM NAMED WINDOW <w> ON <a> [RANGE 1m STEP 10s] FROM NAMED WINDOW <n> ON <a> [NOW]
WHERE { WINDOW <w> { ?x :v ?v } WINDOW <n> { ?x :w ?v } }
REGISTER ISTREAM Seen AS CONSTRUCT { ?x a :Seen } FROM WINDOW ON <a> [ELEMENTS 3] { ?x :v ?v }
"""
LARS = "PREFIX : <http://e/> Q(?x) :- :p(?x, 1) IN [5 s], :q(?x, ?y) AT ?t IN [3 s], EVENT Hot(?x) IN [LAST 2 PER ?x] . REPORT Q(?x) ."


def test_retained_state_of_queries_and_lars_files_is_reported(project: Project) -> None:
    project.write("q.rspql", QUERIES)
    project.write("l.lars", LARS)
    project.write("c.yaml", CONFIG.replace("rules: [r.dotr]", "rules: [r.dotr, q.rspql, l.lars]"))
    assert project.dotr("check", "c.yaml").out == (
        "State of c.yaml, bounded by the longest chain of windows:\n"
        "  Hot: window <w> keeps elements of 1 min\n"
        "  Hot: window <n> keeps nothing after its time\n"
        "  Seen: its window keeps 3 elements, and those of the same times\n"
        "  l.lars: :p: of each atom the last point of 5 s\n"
        "  l.lars: :q: each point of 3 s\n"
        "  l.lars: EVENT Hot: [LAST 2 PER ?x] of it\n"
    )


def test_retained_state_is_reported_once_for_programs_without_errors(project: Project) -> None:
    project.write("a.dotr", RULE)
    project.write("b.dotr", "PREFIX : <http://e/>\nrule S define Two = [ dotr_id a :Two ] from Out\n")
    out = project.dotr("check", "a.dotr", "b.dotr").out
    assert out == "State of a.dotr: none, every anchor is on its own\nState of a.dotr, b.dotr: none, every anchor is on its own\n"
    project.write("bad.dotr", "rule")
    assert project.dotr("check", "a.dotr", "bad.dotr").out == ""


def test_all_problems_of_all_files_are_reported(project: Project) -> None:
    project.write("r.dotr", RULE.replace("?x = A.?x", "?y = A.?z") + RULE.replace("PREFIX : <http://e/>\n", "").replace(":A", "p:A"))
    project.write("d.dlog", "@prefix : <http://e/> .\n:a(?x) :- :b(?y) .\n:c(?x) :- :d(?z) .\n:e(?x) :- q:f(?x) .\n")
    project.write("c.yaml", CONFIG + "knowledge: { datalog: [d.dlog], graphs: [none.ttl, g.ttl] }\n")
    project.write("g.ttl", "nonsense")
    project.change("c.yaml", "a.ndjson", "none.ndjson")
    reported = project.refused("check", "c.yaml")
    for code in ("D201", "D207", "Q104", "C301 there is no file none.ttl", "C301 there is no file none.ndjson", "K104"):
        assert reported.count(code) == 1, code
    assert "d.dlog:4:11: " in reported


def test_unsafe_datalog_is_reported_beside_other_errors(project: Project) -> None:
    project.write("d.dlog", "@prefix : <http://e/> .\n:a(?x) :- :b(?y) .\n:c(?x) :- :d(?z) .\n")
    project.write("c.yaml", CONFIG + "knowledge: { datalog: [d.dlog] }\n")
    project.change("r.dotr", "from A", "form A")
    reported = project.refused("check", ".")
    assert reported.count("K301") == 2
    assert reported.count("D101") == 1
    assert reported.endswith("3 files checked: 3 errors, no warnings.\n") or "4 files checked: 3 errors" in reported


def test_problem_of_a_shared_file_is_reported_once(project: Project) -> None:
    project.change("r.dotr", "A.?x", "A.?y")
    project.write("c2.yaml", CONFIG.replace("small", "other"))
    assert project.refused("check", ".", "c.yaml", "r.dotr").count("D207") == 1


def test_rule_file_takes_prefixes_of_its_configuration(project: Project) -> None:
    project.write("rules/r.dotr", NO_PREFIX)
    (project.folder / "r.dotr").unlink()
    project.write("configs/c.yaml", CONFIG.replace("r.dotr", "../rules/r.dotr").replace("a.ndjson", "../a.ndjson"))
    project.write("tests/t.yaml", TEST.replace('rules: [r.dotr]\nprefixes: { "": "http://e/" }', "config: ../configs/c.yaml"))
    assert project.dotr("check", "rules", "configs").code == 0
    assert project.dotr("check", "configs", "rules/r.dotr").code == 0
    assert project.dotr("check", "rules", "tests").code == 0


READER = "PREFIX : <http://e/>\nrule S define Two = [ dotr_id a :Two ] from Out\n"


@pytest.fixture
def workspace(project: Project) -> Project:
    """A configuration and its rules in folders beside each other: none of the rule files is a program by itself."""
    for name in ("r.dotr", "c.yaml", "t.yaml"):
        (project.folder / name).unlink()
    project.write("rules/r.dotr", NO_PREFIX)
    project.write("rules/s.dotr", READER)
    project.write("rules/two.epsparql", "REGISTER QUERY Q AS SELECT ?x WHERE EVENT Out(?x)")
    project.write("rules/d.dlog", ":A(?x) :- :B(?x) .\n")
    config = CONFIG.replace("[r.dotr]", "[../rules/r.dotr, ../rules/s*, ../rules/two.epsparql]\nknowledge: { datalog: [../rules/d.dlog] }")
    project.write("configs/c.yaml", config.replace("a.ndjson", "../a.ndjson"))
    return project


def test_file_of_a_folder_is_checked_in_the_configuration_that_names_it(workspace: Project) -> None:
    given = ("rules", "rules rules/s.dotr", "configs rules", "configs/c.yaml rules", "rules configs/c.yaml rules/s.dotr", ".")
    for paths in map(str.split, given):
        answer = workspace.dotr("check", *paths)
        assert (answer.code, answer.out) == (0, "State of configs/c.yaml: none, every anchor is on its own\n"), answer
        assert answer.err.endswith(": no errors, no warnings.\n")
    # A file that is named is checked with those named beside it, as ever.
    assert "rules/s.dotr:2:" in workspace.refused("check", "rules/s.dotr")
    (workspace.folder / "configs/c.yaml").unlink()
    assert "rules/s.dotr:2:" not in workspace.dotr("check", "rules/r.dotr", "rules/s.dotr").err
    assert "E205 nothing makes events Out" in workspace.refused("check", "rules")


def test_problem_of_a_workspace_is_told_in_the_files_asked_for(workspace: Project) -> None:
    workspace.change("configs/c.yaml", "../a.ndjson", "../none.ndjson")
    assert workspace.dotr("check", "rules").err == "4 files checked: no errors, no warnings.\n"
    assert "C301" in workspace.refused("check", "configs", "rules")
    workspace.change("rules/s.dotr", "from Out", "from Outt")
    reported = workspace.refused("check", "rules")
    assert reported.count("D205") == 1
    assert "rules/s.dotr:2:45: D205 no query and no event is called Outt\n" in reported
    assert "4 files checked: 1 error, no warnings.\n" in reported
    # What is asked for may be good, and its program is not: nothing else would tell why it cannot run.
    workspace.write("other/x.dlog", ":A(?x) :- :C(?x) .\n")
    workspace.change("configs/c.yaml", "d.dlog]", "d.dlog, ../other/x.dlog]")
    assert "rules/s.dotr:2:45: D205" in workspace.refused("check", "other")


def test_problem_of_some_programs_names_their_configurations(workspace: Project) -> None:
    other = workspace.read("configs/c.yaml").replace("name: small", "name: other").replace(", ../rules/two.epsparql", "")
    workspace.write("configs/b.yaml", other)
    workspace.write("rules/r.dotr", NO_PREFIX + "query Shared = [ SELECT ?x WHERE { ?x a :C } ]\n")
    workspace.write("rules/use.dotr", "rule U define U = [ [] a :U ] from Shared\n")
    workspace.change("configs/b.yaml", "../rules/r.dotr,", "../rules/r.dotr, ../rules/use.dotr,")
    warned = workspace.dotr("check", "rules")
    assert warned.code == 0
    assert warned.err.count("D220") == 1
    assert "rules/r.dotr:5:7: D220 warning: no rule reads Shared (in configs/c.yaml)\n" in warned.err
    assert workspace.dotr("check", "configs", "rules").err.count("D220") == 1
    assert "D220 warning: no rule reads Shared\n" in workspace.dotr("check", "configs/c.yaml").err
    workspace.change("rules/r.dotr", "from A", "form A")
    assert workspace.refused("check", "rules").count("D101") == 1
    assert "(in " not in workspace.refused("check", "rules")  # every program that has the file has the problem


def test_file_that_no_configuration_names_is_checked_in_its_rule_tests(workspace: Project) -> None:
    (workspace.folder / "configs/c.yaml").unlink()
    case = TEST.replace("[r.dotr]", "[../rules/r.dotr, ../rules/s.dotr, ../rules/two.epsparql]")
    workspace.write("tests/t.yaml", case.replace("cases:", "knowledge: { datalog: [../rules/d.dlog] }\ncases:"))
    assert workspace.dotr("check", "rules").err == "4 files checked: no errors, no warnings.\n"


def test_unreadable_configuration_is_told_where_it_alone_names_a_file(workspace: Project) -> None:
    workspace.write("else/.hidden/x.yaml", "rules: [")
    workspace.write("else/compose.yaml", "input: { rules: none }\n")
    assert workspace.dotr("check", "rules").code == 0
    workspace.change("configs/c.yaml", "name: small", "nmae: small")
    assert "configs/c.yaml:1:1: C2" in workspace.refused("check", "rules")


def test_unknown_prefix_is_reported_once_in_a_file_without_prefixes(project: Project) -> None:
    project.write("r.dotr", NO_PREFIX)
    reported = project.refused("check", "r.dotr")
    assert reported.count("unknown prefix") == 1
    assert "r.dotr:2:26: T103 unknown prefix :\n" in reported
    assert "Declare it here (PREFIX : <…>), or check the file with the configuration that names it" in reported


def test_every_unknown_prefix_is_reported_in_a_file_with_prefixes(project: Project) -> None:
    project.write("r.dotr", RULE.replace("a :Out", "a p:Out").replace(":x ?x", "p:x ?x"))
    assert project.refused("check", "r.dotr").count("unknown prefix p:") == 2


def test_rule_files_with_mutual_labels_are_checked_together(project: Project) -> None:
    project.write("a.dotr", RULE)
    project.write("b.dotr", "PREFIX : <http://e/>\nrule S define Two = [ dotr_id a :Two ] from Out\n")
    assert project.dotr("check", "a.dotr", "b.dotr").code == 0
    assert "b.dotr:2:" in project.refused("check", "b.dotr")
    # Two programs in one folder may use the same names.
    project.write("c.dotr", RULE)
    assert project.dotr("check", "a.dotr", "c.dotr").code == 0


def test_labels_of_missing_rule_files_are_not_reported(project: Project) -> None:
    project.write("b.dotr", "PREFIX : <http://e/>\nrule S define Two = [ dotr_id a :Two ] from Out\n")
    project.change("c.yaml", "[r.dotr]", "[none.dotr, b.dotr]")
    reported = project.refused("check", "c.yaml")
    assert reported.count(" C301 ") == 1
    assert reported.endswith("1 file checked: 1 error, no warnings.\n")


def test_rule_tests_are_checked(project: Project) -> None:
    project.change("t.yaml", ":a a :A .", ":a a")
    project.change("t.yaml", "at: 1, event", "at: soon, event")
    project.change("t.yaml", '":a" }', '":a :b" }')
    reported = project.refused("check", "t.yaml")
    assert "t.yaml:5:31: C208 this graph cannot be read" in reported
    assert "t.yaml:6:21: C205 this is no time: 'soon'" in reported
    assert "t.yaml:6:56: C208 :a :b is no RDF term" in reported


def test_unknown_names_in_expectations_are_reported(project: Project) -> None:
    project.write(
        "t.yaml",
        TEST.replace("event: Out, attributes: { x:", "event: Otu, attributes: { x:")
        + """\
  - name: two
    stream: [ { at: 1, graph: ":a a :A ." } ]
    expect: [ { at: 1, event: Out, rule: RR, attributes: { xx: ":a" } }, { at: 2, rule: R } ]
    facts: [ { at: 1, fact: B, attributes: { y: ":a" } }, { at: 1, fact: A, attributes: { y: ":a", "?x": ":a" } } ]
""",
    )
    answer = project.dotr("check", "t.yaml")
    assert answer.code == 0
    for reported in (
        "t.yaml:6:31: C210 warning: no rule defines the event Otu",
        "Did you mean Out?",
        "C210 warning: there is no rule RR",
        "C210 warning: Out has no attribute xx",
        "Out has x. Did you mean x?",
        "C210 warning: no query is called B",
        "C210 warning: A has no attribute y",
    ):
        assert reported in answer.err
    assert answer.err.endswith("1 file checked: no errors, 5 warnings.\n")
    assert project.dotr("test", "t.yaml").code == 1


def test_misspelt_keys_of_a_rule_test_are_refused(project: Project) -> None:
    project.change("t.yaml", "at: 1, event", "at: 1, evnt")
    assert "C201 unknown key evnt" in (reported := project.refused("check", "t.yaml"))
    assert "Did you mean event?" in reported


def test_warnings_fail_only_with_strict(project: Project) -> None:
    project.change("r.dotr", "from A", "from B = [ SELECT ?y WHERE { ?y a :B } ]\nand each A")
    project.change("r.dotr", "with Out.?x = A.?x", "within 5 s from B with Out.?x = A.?x consuming A")
    answer = project.dotr("check", "c.yaml")
    assert answer.code == 0
    assert "D502 warning: rule R cannot be partitioned" in answer.err
    assert answer.err.endswith("1 file checked: no errors, 1 warning.\n")
    assert project.dotr("check", "c.yaml", "--strict").code == 2
    assert "1 warning of the rules: dotr check c.yaml shows them.\n" in project.dotr("run", "c.yaml").err


def test_stateless_rule_has_no_single_core_warning(project: Project) -> None:
    project.change("r.dotr", "from A", "from B = [ SELECT ?y WHERE { ?y a :B } ]\nand each A")
    project.change("r.dotr", "with", "within [0, 0] from B with")
    assert project.dotr("check", "c.yaml", "--strict").code == 0
    assert "any: each instant is on its own, for nothing is remembered\n" in project.dotr("explain", "c.yaml").out


def test_rule_of_a_replicated_clause_has_no_single_core_warning(project: Project) -> None:
    """Unless its query selects everything: then every core processes all events."""
    project.change("r.dotr", "from A", "from B = [ SELECT ?y WHERE { ?y a :B } ]\nand each A")
    project.change("r.dotr", "with", "within 5 s from B with")
    assert project.dotr("check", "c.yaml", "--strict").code == 0
    for pattern, is_selective in (
        ("?x :p ?y", False),
        ("?x :p/:q ?y", False),
        ("?x :p ?y . OPTIONAL { ?y :q ?z }", False),
        ("?x :p :a", True),
        (":a :p ?x", True),
        ("?x :p ?y . FILTER (?y > 3)", True),
        ("VALUES ?x { :a :b } ?x :p ?y", True),
        ("?x :p ?y . MINUS { ?x :q ?y . FILTER (?y > 1) }", True),
    ):
        project.change("r.dotr", "?x a :A", pattern)
        answer = project.dotr("check", "r.dotr", "c.yaml", "--strict")
        is_warned = "r.dotr:5:10: D510 warning: every core takes in every event of A: no equality ties it to rule R" in answer.err
        assert (answer.code == 0) == is_selective == (not is_warned), answer.err
        project.change("r.dotr", pattern, "?x a :A")


def test_folders_are_checked_without_other_files(project: Project) -> None:
    project.write("compose.yaml", "version: 3\nservices: {}\n")
    project.write(".venv/bad.dotr", "nonsense")
    project.write("deep/deeper/x.dlog", "@prefix : <http://e/> .\n:a(?x) :- :b(?x) .\n")
    answer = project.dotr("check", ".")
    assert answer.err == "4 files checked (1 YAML file neither configuration nor rule test, left out): no errors, no warnings.\n"
    assert "compose.yaml:1:1: C201 unknown key version" in project.refused("check", "compose.yaml")


@pytest.mark.parametrize(
    ("path", "reported"),
    [
        ("none", "C301 there is no file none\n"),
        ("a.ndjson", "C303 a.ndjson is nothing that dotr checks\n"),
        ("empty", "C303 there is nothing below empty that dotr checks\n"),
    ],
)
def test_wrong_path_is_refused(project: Project, path: str, reported: str) -> None:
    (project.folder / "empty").mkdir()
    assert reported in project.refused("check", "c.yaml", path)


def test_unsupported_query_is_refused_with_its_place(project: Project) -> None:
    project.write("c.yaml", CONFIG + "knowledge: { datalog: [d.dlog] }\n")
    project.write("d.dlog", "@prefix : <http://e/> .\n:a(?x) :- :b(?x), NOT :c(?x) .\n")
    answer = project.dotr("check", "c.yaml")
    if answer.code:  # until it is
        assert "d.dlog:2:" in answer.err


@pytest.mark.parametrize("text", ["# to be written\n", "", "\ufeff\n", "# soon\nPREFIX : # here\n<http://e/> # and\n"])
@pytest.mark.parametrize("kind", ["dotr", "rspql", "lars", "epsparql", "dlog"])
def test_file_of_comments_only_is_the_same_warning_in_every_language(project: Project, kind: str, text: str) -> None:
    project.write(f"o.{kind}", text)
    project.write("c.yaml", CONFIG.replace("[r.dotr]", f"[r.dotr{'' if kind == 'dlog' else f', o.{kind}'}]"))
    if kind == "dlog":
        project.change("c.yaml", "engine: local", "engine: local\nknowledge: { datalog: [o.dlog] }")
    for path in (f"o.{kind}", "c.yaml"):
        answer = project.dotr("check", path)
        assert answer.code == 0
        assert answer.err.startswith(f"o.{kind}:1:1: C209 warning: this file holds no statement\n")
        assert answer.err.endswith("1 file checked: no errors, 1 warning.\n")
    assert project.dotr("explain", "c.yaml").code == 0
    assert project.dotr("run", "c.yaml").code == 0
    assert project.read("out.ndjson").count("Out") == 2


def test_inconsistent_background_is_reported(project: Project) -> None:
    project.write("g.ttl", "@prefix : <http://e/> . :B <http://www.w3.org/2002/07/owl#disjointWith> :C . :x a :B, :C .")
    project.write("c.yaml", CONFIG + "knowledge: { graphs: [g.ttl], entailment: owl2rl }\n")
    answer = project.dotr("check", "c.yaml")
    assert answer.code == 0
    assert answer.err.startswith("K401 warning: the background contradicts itself (cax-dw): <http://e/B>")


def test_other_kinds_of_files_are_refused(project: Project) -> None:
    assert "C102 r.dotr is no configuration\n" in project.refused("run", "r.dotr")
    assert "t.yaml:3:1: C102 t.yaml is a rule test, and no configuration\n" in project.refused("run", "t.yaml")
    assert "C202 r.dotr is no rule test\n" in project.refused("test", "r.dotr")


def test_single_core_rule_is_reported_without_a_configuration(project: Project) -> None:
    project.change("r.dotr", "from A", "from B = [ SELECT ?y WHERE { ?y a :B } ]\nand each A")
    project.change("r.dotr", "with Out.?x = A.?x", "within 5 s from B with Out.?x = A.?x consuming A")
    assert "r.dotr:4:6: D502 warning: rule R cannot be partitioned" in project.dotr("check", "r.dotr").err
    assert project.dotr("check", "r.dotr", "--strict").code == 2
    assert project.dotr("check", "r.dotr", "c.yaml").err.count("D502") == 1


def test_accepted_warnings_are_left_out(project: Project) -> None:
    project.change("r.dotr", "from A", "from B = [ SELECT ?y WHERE { ?y a :B } ]\nand each A")
    project.change("r.dotr", "with Out.?x = A.?x", "within 5 s from B with Out.?x = A.?x consuming A")
    project.change("c.yaml", "engine: local", "engine: local\nreport: { accept: [D502] }")
    answer = project.dotr("check", "c.yaml", "--strict")
    assert (answer.code, answer.err) == (0, "1 file checked: no errors, no warnings (1 accepted).\n")
    assert "warning" not in project.dotr("run", "c.yaml").err
    project.change("c.yaml", "D502", "D50")
    assert "C203 report.accept cannot be used: D50 is no code" in project.refused("check", "c.yaml")


UNREAD = """PREFIX : <http://e/>
query A = [ SELECT ?x ?v WHERE { ?x :v ?v } ]
rule Up define Up = [ [] :v ?v ] from A with Up.?v = A.?v, Up.?x = A.?x
"""


@pytest.mark.parametrize(
    ("outputs", "shown"), [("{ path: o.ndjson }", False), ("{ format: csv, path: o.csv }", False), ("{ format: trig, path: o.trig }", True)]
)
def test_unread_attribute_is_warned_of_where_no_output_shows_it(project: Project, outputs: str, shown: bool) -> None:
    project.write("r.dotr", UNREAD)
    project.write("a.ndjson", "")
    config = CONFIG[: CONFIG.index("output:")] + f"output: [ {outputs} ]\nengine: local\n"
    project.write("c.yaml", config)
    assert ("D217" in project.dotr("check", "c.yaml").err) == shown
    assert ("1 warning of the rules" in project.dotr("run", "c.yaml").err) == shown
    assert "D217" in project.dotr("check", "r.dotr").err


def test_attribute_that_another_unit_reads_is_no_unused_one(project: Project) -> None:
    project.write("r.dotr", UNREAD)
    project.write("l.lars", "PREFIX : <http://e/> Seen(?x) :- EVENT Up(?x AS ?x) IN [3 s] . REPORT NEW Seen(?x) .")
    assert "D217" not in project.dotr("check", "r.dotr", "l.lars").err


def test_set_changes_the_configurations(project: Project) -> None:
    assert project.dotr("check", "c.yaml", "t.yaml", "--set", "input.0.lateness=3 s").code == 0
    assert "C301 there is no file b.ndjson" in project.refused("check", "c.yaml", "--set", "input.0.path=b.ndjson", "--strict")
    assert "C201 unknown key inputs" in project.refused("check", ".", "--set", "inputs.0.path=b.ndjson")
    assert "C218 --set changes a configuration, and none is among the files" in project.refused(
        "check", "r.dotr", "t.yaml", "--set", "name=x"
    )
