"""Lines of `dotr run` about its rules: those that never fired, and where each stopped."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dotr.commands import main
from dotr.engine.stream_terms import StreamTerms
from dotr.model.stream import Element

pytestmark = pytest.mark.core

PREFIXES = "PREFIX b: <http://e/b#>\n"

RULES = """
query Temp = [ SELECT ?room ?v WHERE { ?r b:value ?v ; b:of ?room } ]
query Place = [ SELECT ?room WHERE { ?r b:of ?room } ]
rule Jump define Jump = [ dotr_id a b:Jump ] from Temp as Now and last Temp as Before within 5 min from Now if Now.?v > Before.?v
rule Stuffy define Stuffy = [ dotr_id a b:Stuffy ] from Place and last Temp [ FILTER(?v > 25) ] within 5 min from Place
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    write(RULES, [f"[] b:valeu {n}{' ; b:of b:room' if n < 14 else ''} ." for n in range(16)])
    return tmp_path


def write(rules: str, graphs: list[str], settings: str = "") -> None:
    Path("bms.dotr").write_text(PREFIXES + rules)
    Path("a.ndjson").write_text("".join(json.dumps({"time": 60 * n, "graph": graph}) + "\n" for n, graph in enumerate(graphs)))
    Path("bms.yaml").write_text(
        "name: bms\nrules: [bms.dotr]\nprefixes: { b: 'http://e/b#' }\ninput: [{ name: a, format: ndjson, path: a.ndjson }]\n"
        f"output: [{{ path: out/alerts.ndjson }}]\nengine: local\nreport: {{ accept: [D501, D502, D503] }}\n{settings}"
    )


def summary_lines(capsys: pytest.CaptureFixture[str], *options: str, code: int = 0) -> list[str]:
    """The lines of a run on stderr, without those about warnings of the rules."""
    assert main(["run", "bms.yaml", "--fresh", *options]) == code
    out, err = capsys.readouterr()
    assert not out
    return [line for line in err.splitlines() if "of the rules: dotr check" not in line]


def test_a_run_names_the_rules_that_never_fired_and_the_clause_that_stopped_them(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert summary_lines(capsys) == [
        "16 elements, 16 instants, 14 facts, 0 events -> out/alerts.ndjson",
        "Rule Jump never fired: its anchor Temp has no fact. No element brought b:value; the elements bring b:of, b:valeu.",
        "Rule Stuffy never fired: 14 anchors, 0 after Temp. dotr why-not bms.yaml --rule Stuffy",
    ]


def test_every_rule_has_a_line_on_request(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(RULES, ["[] b:value 20 ; b:of b:room .", "[] b:value 27 ; b:of b:room ."])
    assert summary_lines(capsys, "--rules")[1:] == [
        "Rule Jump: 2 anchors, 1 event.",
        "Rule Stuffy never fired: 2 anchors, 0 after Temp. dotr why-not bms.yaml --rule Stuffy",
    ]
    assert summary_lines(capsys, "--rules", "--quiet") == []


FALLS = """
query Temp = [ SELECT ?room ?v WHERE { ?r b:value ?v ; b:of ?room } ]
rule Fall define Fall = [ dotr_id a b:Fall ] from Temp and ?max = max(Past.?v) of Temp as Past within 3 min from Temp
if Temp.?v < 0.5 * ?max || ?max > 90
rule Drop define Drop = [ dotr_id a b:Drop ] from Temp as Now and each Temp as Past [ FILTER(?v > Now.?v + 20) ] within 3 min from Now
rule Rise define Rise = [ dotr_id a b:Rise ] from Temp as Now and last Temp as Past [ FILTER(?v < Now.?v - 5) ] within 1 min from Now
"""


def test_errors_of_conditions_are_counted_and_the_first_is_told(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    values = ["20", '"n/a"', "19", "18", "17", "16", "30"]
    write(FALLS, [f"[] b:value {value} ; b:of b:room ." for value in values])
    assert summary_lines(capsys)[1:] == [
        'Rule Fall never fired: 7 anchors, 0 after if, 5 of them by errors, first at 60: "n/a" is text. '
        "dotr why-not bms.yaml --rule Fall --at 60",
        'Rule Drop never fired: 7 anchors, 0 after Past, 4 of them by errors, first at 60: "n/a" is text. '
        "dotr why-not bms.yaml --rule Drop --at 60",
        'Rule Rise: 7 anchors, 1 event; 2 by errors at Past, first at 60: "n/a" is text. dotr why-not bms.yaml --rule Rise --at 60',
    ]
    assert main(["run", "bms.yaml", "--fresh", "--progress", "json"]) == 0
    rules = [json.loads(line) for line in capsys.readouterr().err.splitlines() if line.startswith("{")][-1]["rules"]
    assert [each.get("errors") for each in rules] == [{"if": 5}, {"Past": 4}, {"Past": 2}]


CHAINS = """
REGISTER QUERY Half AS SELECT ?v WHERE { ?x b:value ?u } SEQ { ?y b:value ?v } FILTER(?v < 0.5 * ?u) WITHIN 1 h
REGISTER QUERY Both AS SELECT ?v WHERE { { ?x b:value ?u } AND { ?y b:value ?v } } FILTER(?u > 19 && ?v < 18) WITHIN 1 h POLICY RECENT
REGISTER QUERY Left AS SELECT ?v WHERE { { ?x b:value ?u FILTER(?u > 1) } OPTIONALSEQ { ?y b:value ?v FILTER(?v < 18) } } WITHIN 1 min
REGISTER QUERY Or AS SELECT ?v WHERE { ?x b:value ?u } SEQ { ?y b:value ?v } FILTER(?v < ?u || BOUND(?v)) WITHIN 1 h
"""


def test_errors_of_chains_are_counted_by_unit(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(RULES, [f"[] b:value {value} ." for value in ("20", '"n/a"', "19", "18", "17")])
    Path("a.epsparql").write_text(PREFIXES + CHAINS)
    Path("bms.yaml").write_text(Path("bms.yaml").read_text().replace("bms.dotr", "a.epsparql"))
    lines = summary_lines(capsys, "--rules")[1:]
    why = "dotr why-not bms.yaml --rule"
    assert lines[0] == f'Half never came; 4 by errors at FILTER, first at 60: "n/a" is text. {why} Half --at 60', "a pair that it is in"
    # Under a policy a FILTER is tested at the end of its chain: of the value with itself.
    assert lines[1] == f'Both never came; 1 by errors at FILTER, first at 60: "n/a" is text. {why} Both --at 60'
    assert lines[2:] == ["Left: 1 event.", "Or: 10 events."]
    assert summary_lines(capsys)[1:] == lines[:2]
    assert main(["run", "bms.yaml", "--fresh", "--progress", "json"]) == 0
    units = [json.loads(line) for line in capsys.readouterr().err.splitlines() if line.startswith("{")][-1]["rules"]
    assert [each.get("errors") for each in units] == [{"FILTER": 4}, {"FILTER": 1}, None, None]


def test_labels_of_other_languages_have_lines_too(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Units of three languages, and a rule that depends on one of them as it on the rule."""
    write(
        """
define Echo = [ ?x b:echo ?v ] from Temp = [ SELECT ?x ?v { ?x b:value ?v } ] and last Rise within 9 min from Temp
with Echo.?x = Temp.?x, Echo.?v = Temp.?v""",
        [f"b:r b:value {value} ." for value in (20, 27, 30)],
    )
    Path("a.lars").write_text(
        f"{PREFIXES}Hot(?x) :- b:value(?x, ?v), FILTER(?v > 25) .\nREPORT Hot(?x) .\nREPORT ENDED Hot(?x) AS Cool .\n"
    )
    Path("a.epsparql").write_text(
        f"{PREFIXES}REGISTER QUERY Rise AS SELECT ?v\n"
        "WHERE { { ?x b:value ?u } SEQ { ?x b:value ?v } FILTER(?v > ?u) } UNION { EVENT Echo(?x) SEQ { ?x b:never ?v } } WITHIN 1 min\n"
    )
    window = "FROM NAMED WINDOW <w> ON <Echo> [RANGE 1 min STEP 1 min]"
    Path("a.rspql").write_text(f"{PREFIXES}REGISTER RSTREAM Values AS SELECT ?v\n{window}\nWHERE {{ WINDOW <w> {{ ?x b:echo ?v }} }}\n")
    config = Path("bms.yaml").read_text()
    Path("bms.yaml").write_text(config.replace("bms.dotr]", "bms.dotr, a.lars, a.epsparql, a.rspql]"))
    lines = summary_lines(capsys, "--rules")[1:]
    assert lines == ["Rule Echo: 3 anchors, 1 event.", "Values: 1 event.", "Hot: 2 events.", "Cool: 1 event.", "Rise: 2 events."]
    write(RULES, ["b:r b:value 20 ."])
    Path("bms.yaml").write_text(Path("bms.yaml").read_text().replace("bms.dotr]", "bms.dotr, a.lars]"))
    assert summary_lines(capsys)[-2:] == [f"{label} never came. dotr why-not bms.yaml --rule {label}" for label in ("Hot", "Cool")]


@pytest.mark.parametrize(
    ("rule", "line"),
    [
        ("from Temp and last Temp as B within 5 min from Temp if B.?v > 90", "2 anchors, 0 after if."),
        ("from Temp and not Temp as B within [0, 5 min] from Temp", "2 anchors, 0 after not B."),
        ("from Temp [ FILTER(?v > 90) ]", "0 anchors."),
        ("from Temp and each Temp as B within 5 min from Temp and last B as C within 5 min from B", None),
        ("from Never", "its anchor Never has no event."),
        ("from Temp delayed by 1 min and not Temp as B within 9 min from Temp", "2 anchors, 0 after not B."),
    ],
)
def test_the_clause_at_which_the_last_binding_is_lost_is_named(
    rule: str, line: str | None, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if line is None:
        rule, line = rule.replace("last B as C", "last Place as C [ FILTER(?room = 7) ]"), "2 anchors, 0 after C."
    never = "rule Never define Never = [ [] a b:N ] from Temp [ FILTER(?v > 99) ]\n"
    write(RULES + never + f"rule X define X = [ dotr_id a b:X ] {rule}", ["[] b:value 20 ; b:of b:room .", "[] b:value 27 ; b:of b:room ."])
    assert f"Rule X never fired: {line} dotr why-not bms.yaml --rule X" in summary_lines(capsys)


def test_ten_rules_are_named_and_the_others_counted(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rules = "".join(f"rule R{n} define E{n} = [ [] a b:E ] from Temp [ FILTER(?v > {90 + n}) ]\n" for n in range(12))
    write(RULES.split("rule")[0] + rules, ["[] b:value 20 ; b:of b:room ."])
    lines = summary_lines(capsys)
    assert lines[10] == "Rule R9 never fired: 0 anchors. dotr why-not bms.yaml --rule R9"
    assert lines[11:] == ["2 more rules have never fired: --rules shows every rule."]


def test_progress_has_the_counts_of_every_rule(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    last = json.loads(summary_lines(capsys, "--progress", "json")[-1])
    assert last["rules"] == [{"rule": "Jump", "anchors": 0, "events": 0}, {"rule": "Stuffy", "anchors": 14, "events": 0}]


# --- terms without an element ---


def unfed(capsys: pytest.CaptureFixture[str], query: str, graphs: list[str], settings: str = "") -> str:
    """The remark of the summary on a rule with a query whose anchor has no fact."""
    write(f"rule X define X = [ dotr_id a b:X ] from A = [ SELECT ?r WHERE {{ {query} }} ]", graphs, settings)
    line = summary_lines(capsys)[-1]
    start = "Rule X never fired: its anchor A has no fact. "
    assert line.startswith(start)
    return line[len(start) :]


COMMAND = "dotr why-not bms.yaml --rule X"


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("?r a b:Thing ; b:of ?x", "No element brought b:Thing; the elements bring b:Other, b:of."),
        ("?r b:on ?x ; b:at ?y", "No element brought b:at or b:on; the elements bring b:Other, b:of."),
        ("?r b:of 7", COMMAND),
        ("{ ?r b:on ?x } UNION { ?r b:of 7 }", COMMAND),
        ("{ ?r b:on ?x } UNION { ?r b:at ?x }", "No element brought b:at or b:on; the elements bring b:Other, b:of."),
        ("?r b:of 7 OPTIONAL { ?r b:on ?x }", COMMAND),
        ("?r b:of/b:on* 7", COMMAND),
        ("?r b:of/^b:on ?x", "No element brought b:on; the elements bring b:Other, b:of."),
        ("?r ?p 7", COMMAND),
    ],
)
def test_terms_that_the_query_lacks_are_named(query: str, expected: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert unfed(capsys, query, ["[] a b:Other ; b:of 5 ."]) == expected


def test_premises_of_datalog_are_named_instead_of_its_conclusions(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("k.dlog").write_text("PREFIX b: <http://e/b#>\nb:Hot(?r) :- b:Warm(?r), b:value(?r, ?v) .\nb:Warm(?r) :- b:valeu(?r, ?v) .\n")
    settings = "knowledge: { datalog: [k.dlog] }\n"
    assert unfed(capsys, "?r a b:Hot", ["[] b:valeu 5 ."], settings) == "No element brought b:value; the elements bring b:valeu."
    assert unfed(capsys, "?r a b:Hot ; b:value 7", ["[] b:valeu 5 ; b:value 5 ."], settings) == COMMAND


def test_terms_of_the_background_are_not_reported_as_missing(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("k.ttl").write_text("@prefix b: <http://e/b#> . b:s b:senses b:room ; a b:Sensor .")
    query = "?r b:by ?s . ?s b:senses ?x ; a b:Sensor"
    assert (
        unfed(capsys, query, ["[] b:form b:s ."], "knowledge: { graphs: [k.ttl] }\n")
        == "No element brought b:by; the elements bring b:form."
    )


def test_terms_that_an_entailment_derives_are_not_reported_as_missing(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("k.ttl").write_text(
        "@prefix b: <http://e/b#> . @prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .\n"
        "b:Thermometer rdfs:subClassOf b:Sensor . b:measures rdfs:domain b:Thermometer ."
    )
    settings = "knowledge: { graphs: [k.ttl], entailment: rdfs }\n"
    assert unfed(capsys, "?r a b:Sensor ; b:measures 7", ["[] b:measures 5 ."], settings) == COMMAND
    without = "knowledge: { graphs: [k.ttl] }\n"
    assert unfed(capsys, "?r a b:Sensor", ["[] b:measures 5 ."], without) == "No element brought b:Sensor; the elements bring b:measures."


def test_the_most_similar_of_many_terms_are_listed(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    graphs = [f"[] b:x{n} 1 ; b:valeu 1 ." for n in range(20)]
    text = unfed(capsys, "?r b:value ?v", graphs)
    assert text.startswith("No element brought b:value; the elements bring b:valeu, b:x")
    assert text.endswith(" and 11 more.")


def test_terms_are_no_longer_collected_once_none_is_missing() -> None:
    terms = StreamTerms(["<p>", "<q>"])
    terms.note([Element(0, (("<s>", "<p>", "<o>"),))])
    assert terms.wanted == {"<q>"}
    terms.note([Element(1, tuple(("<s>", f"<p{n}>", "<o>") for n in range(1000)))])
    assert terms.wanted == set(), "there are more terms than are noted"


# --- a run over the first elements ---


def test_head_stops_at_the_end_of_an_instant(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(RULES, ["[] b:of 1 ."] * 3)
    times = [0, 0, 5, 5, 5, 9]
    Path("a.ndjson").write_text("".join(json.dumps({"time": time, "graph": "[] b:of 1 ."}) + "\n" for time in times))
    assert [summary_lines(capsys, "--head", str(n))[0].partition(" facts")[0] for n in (1, 2, 3, 6, 7)] == [
        "2 elements, 1 instant, 2",
        "2 elements, 1 instant, 2",
        "5 elements, 2 instants, 5",
        "6 elements, 3 instants, 6",
        "6 elements, 3 instants, 6",
    ]


def test_the_output_of_head_is_the_beginning_of_the_whole_output(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    delayed = "rule Late define Late = [ [] a b:Late ] from Temp delayed by 1 min and not Temp as Other within [0, 1 min) from Temp\n"
    plain = "rule Now define Now = [ [] a b:Now ] from Temp\n"
    write(RULES.split("rule")[0] + delayed + plain, ["[] b:value 20 ; b:of b:room ."] * 5)
    summary_lines(capsys)
    whole = Path("out/alerts.ndjson").read_text()
    summary_lines(capsys, "--head", "3")
    part = Path("out/alerts.ndjson").read_text()
    assert part
    assert whole.startswith(part)
    assert part != whole


@pytest.mark.parametrize("number", ["0", "-1", "many"])
def test_head_needs_a_number(number: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "bms.yaml", "--head", number]) == 2
    assert f"{number} is no whole number of at least 1" in capsys.readouterr().err


def test_head_is_refused_on_spark(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from dotr.runtimes.spark.start import installation

    if installation.java_problem() is not None:
        pytest.skip("without Java the run goes on in process")
    assert main(["run", "bms.yaml", "--engine", "spark", "--head", "3"]) == 2
    assert "S115 --head stops a run in process only" in capsys.readouterr().err


def test_a_run_tells_what_once_has_held_back_and_which_delays_are_errors(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(
        """
query Temp = [ SELECT ?room ?v WHERE { ?r b:value ?v OPTIONAL { ?r b:of ?room } } ]
rule Page define Page = [ dotr_id a b:Page ] from Temp with Page.?room = Temp.?room once in 10 min per ?room
rule Late define Late = [ dotr_id a b:Late ] from Temp delayed by Temp.?v at most 1 min
rule Never define Never = [ dotr_id a b:Never ] from Temp [ FILTER(?v > 99) ] delayed by Temp.?v at most 1 min
""",
        ["[] b:value 20 ; b:of b:room .", "[] b:value 27 ; b:of b:room .", "[] b:value 30 .", "[] b:value 100 .", "[] b:value 'warm' ."],
    )
    assert summary_lines(capsys)[1:] == [
        "Rule Page: 5 anchors, 2 events, 3 firings held back by once, 3 firings with an unbound key.",
        "Rule Late: 3 anchors, 3 events; 2 events whose delay is an error, first at 180: its value is no delay. "
        "dotr why-not bms.yaml --rule Late --at 180",
        "Rule Never never fired: 0 anchors, 1 event whose delay is an error, first at 180: its value is no delay. "
        "dotr why-not bms.yaml --rule Never --at 180",
    ]
