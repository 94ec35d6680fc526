"""Events that a rule defines as internal: for other rules, and for outputs that name them."""

from __future__ import annotations

import json

import pytest

from dotr import Program
from dotr.engine.state.schema import state_schema
from dotr.languages.program_json import ParsedProgram
from dotr.languages.rules import compile_rules
from dotr.model.places import Document
from tests.conftest import Project

pytestmark = pytest.mark.core

RULES = """\
PREFIX : <http://e/>
rule Rough define internal Level = [ [] :level ?x ]
from A = [ SELECT ?x WHERE { ?x a :A } ] with Level.?x = A.?x
rule R define Out = [ dotr_id a :Out ; :x ?x ]
from Level with Out.?x = Level.?x
"""


def heads(text: str) -> list[tuple[str, bool]]:
    read = compile_rules([Document("r.dotr", text)], {})
    assert not read.errors, read.errors
    return [(rule.event, rule.internal) for rule in read.rules]


@pytest.mark.parametrize(
    ("head", "expected"),
    [
        ("define internal Level =", ("Level", True)),
        ("define INTERNAL internal =", ("internal", True)),
        ("define internal =", ("internal", False)),
        ("define internal # of a tank\n =", ("internal", False)),
        ("define # for the alarm\n internal # of a tank\n Level =", ("Level", True)),
        ("define internals =", ("internals", False)),
    ],
)
def test_one_word_of_look_ahead(head: str, expected: tuple[str, bool]) -> None:
    assert heads(f"{head} [ ] from A = [ SELECT ?x {{ ?x a <e:A> }} ]") == [expected]


def test_internal_is_a_label_everywhere_else() -> None:
    text = (
        "query internal = [ SELECT ?x { ?x a <e:A> } ] rule internal define Out = [ ] from internal as Internal and not internal within 5 s"
    )
    assert heads(f"{text} from Internal") == [("Out", False)]


def test_a_broken_rule_hides_no_other_one() -> None:
    text = "define internal Level = [ ] fro A\ndefine internal Other = [ ] from Level [ ]"
    read = compile_rules([Document("r.dotr", text)], {})
    assert [str(each.code) for each in read.errors] == ["D101"]


def test_unclosed_template_ends_at_the_next_internal_event() -> None:
    body = "from A = [ SELECT ?x { ?x a <e:A> } ]"
    text = f"define Out = [ [] a <e:A>\n{body}\ndefine internal Level = [ ] {body}"
    read = compile_rules([Document("r.dotr", text)], {})
    assert [(str(each.code), each.message) for each in read.errors] == [("D102", "'[' is never closed")]


def test_session_returns_internal_events_where_they_are_wanted(project: Project) -> None:
    project.write("r.dotr", RULES)
    session = Program.load(["r.dotr"]).session(record=True)
    assert [event.type for event in session.advance(1, "<http://e/a> a <http://e/A> .")] == ["Out"]
    events = session.advance(2, "<http://e/b> a <http://e/A> .", internal=True)
    assert [event.type for event in events] == ["Out", "Level"]
    assert session.why(events[1]).text.startswith("Level (rule Rough, internal) at 2: x :b")


def test_finish_returns_them_too(project: Project) -> None:
    project.write(
        "r.dotr", RULES.replace("from A = [ SELECT ?x WHERE { ?x a :A } ]", "from A = [ SELECT ?x WHERE { ?x a :A } ] delayed by 5 s")
    )
    loaded = Program.load(["r.dotr"])
    found = []
    for internal in (False, True):
        session = loaded.session()
        session.advance(1, "<http://e/a> a <http://e/A> .")
        found.append([event.type for event in session.finish(internal=internal)])
    assert found == [["Out"], ["Out", "Level"]]


def test_state_is_kept_where_an_event_becomes_internal(project: Project) -> None:
    project.write("r.dotr", RULES)
    project.write("before.dotr", RULES.replace("internal ", ""))
    now, before = Program.load(["r.dotr"]), Program.load(["before.dotr"])
    digests = [[rule.digest for rule in state_schema(each, knowledge="-").rules] for each in (now, before)]
    assert digests[0] == digests[1]


def test_json_of_the_program_has_the_word(project: Project) -> None:
    project.write("r.dotr", RULES)
    loaded = Program.load(["r.dotr"])
    parsed = ParsedProgram.from_json(ParsedProgram.of(loaded).to_json(loaded.spec), loaded.spec)
    assert [rule.internal for rule in parsed.rules] == [True, False]


def test_commands_show_internal_events_as_internal(project: Project) -> None:
    project.write("r.dotr", RULES)
    assert "Rule Rough -> internal Level" in project.dotr("explain", "c.yaml").out
    assert project.dotr("why", "c.yaml", "--rule", "Rough").out.startswith("Level (rule Rough, internal) at 1: x :a")
    assert json.loads(project.dotr("why", "c.yaml", "--rule", "Rough", "--format", "json").out)["internal"] is True
    project.write("other.yaml", project.read("c.yaml").replace("r.dotr", "other.dotr"))
    project.write("other.dotr", RULES.replace("?x a :A", "?x a :B"))
    assert "Rough (internal): 1 -> 0 events" in project.dotr("replay", "c.yaml", "--against", "other.yaml").out
    assert project.dotr("report", "c.yaml", "-o", "report.html").code == 0
    page = project.read("report.html")
    assert "Level (internal)" in page
