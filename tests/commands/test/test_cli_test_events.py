"""`events:` of a rule test: the labels whose events are compared."""

from __future__ import annotations

import pytest

from tests.conftest import Project

pytestmark = pytest.mark.core

RULES = """\
PREFIX : <http://e/>
rule Rough define internal Level = [ [] :level ?x ] from A = [ SELECT ?x WHERE { ?x a :A } ] with Level.?x = A.?x
rule Loud define Page = [ [] :page ?x ] from Level with Page.?x = Level.?x
rule Log define Line = [ [] :line ?x ] from Level with Line.?x = Level.?x
"""
TEST = """\
rules: [r.dotr]
prefixes: {{ "": "http://e/" }}
{file}cases:
  - name: one
    {case}stream: [ {{ at: 1, graph: ":a a :A ." }} ]
    expect:
{expect}
"""
PAGE, LINE, LEVEL = (f'      - {{ at: 1, event: {label}, attributes: {{ x: ":a" }} }}' for label in ("Page", "Line", "Level"))


def write(project: Project, expect: list[str], file: str = "", case: str = "") -> None:
    project.write("r.dotr", RULES)
    project.write("t.yaml", TEST.format(file=file and f"events: {file}\n", case=case and f"events: {case}\n    ", expect="\n".join(expect)))


@pytest.mark.parametrize(
    ("expect", "file", "case"),
    [
        ([PAGE, LINE], "", ""),
        ([PAGE], "[Page]", ""),
        ([LINE], "[Page]", "[Line]"),
        ([PAGE, LINE, LEVEL], "[Page, Line, Level]", ""),
        ([LEVEL], "", "[Level]"),
        (["      - { at: 1, rule: Loud }"], "[Page]", ""),
        (["      - { at: 1 }"], "[Page]", ""),
    ],
)
def test_named_events_are_compared(project: Project, expect: list[str], file: str, case: str) -> None:
    write(project, expect, file, case)
    assert project.dotr("test", "t.yaml").code == 0
    assert project.dotr("check", "t.yaml").code == 0


def test_named_event_that_comes_unexpected_fails(project: Project) -> None:
    write(project, [PAGE], "[Page, Line]")
    answer = project.dotr("test", "t.yaml")
    assert answer.code == 1
    assert "+ got      at 1 Line by Log" in answer.out


@pytest.mark.parametrize(
    ("expect", "file", "case", "message"),
    [
        ([PAGE, LINE], "[Page]", "", "C269 Line is not compared: `events` does not name it"),
        ([PAGE, LEVEL], "", "", "C269 Level is not compared: it is internal"),
        (["      - { at: 1, rule: Rough }"], "", "", "C269 Level is not compared: it is internal"),
        (["      - { at: 1, rule: Log }"], "[Line]", "[Page]", "C269 Line is not compared: `events` does not name it"),
        (["      - { at: 1, event: Page, rule: Log }"], "[Page]", "", "C269 Line is not compared"),
        (["      - { at: 1, event: Pagee }"], "[Page]", "", "C269 Pagee is not compared"),
        ([PAGE], "[Pagee]", "[Page]", "C268 no event is called Pagee\n"),
        ([PAGE], "", "[Page, Pagee]", "C268 no event is called Pagee\n"),
        ([PAGE], "[]", "", "C268 events is an empty list"),
        ([PAGE], "", "[]", "C268 events is an empty list"),
        ([PAGE], "Page", "", "C203 events should be a list"),
    ],
)
def test_wrong_tests_are_refused(project: Project, expect: list[str], file: str, case: str, message: str) -> None:
    write(project, expect, file, case)
    for command in ("test", "check"):
        assert message in project.refused(command, "t.yaml")


def test_update_takes_entries_out(project: Project) -> None:
    write(project, [LINE, PAGE, LEVEL, "      - { at: 1, rule: Rough }"], "[Page]")
    answer = project.dotr("test", "t.yaml", "--update")
    assert (answer.code, answer.err) == (0, "")
    after = project.read("t.yaml")
    write(project, [PAGE], "[Page]")
    assert after == project.read("t.yaml")


def test_update_adds_no_entries_of_other_events(project: Project) -> None:
    write(project, ["      []"], "[Line]")
    assert project.dotr("test", "t.yaml", "--update").code == 0
    assert "Line" in project.read("t.yaml").partition("expect")[2]
    assert "Page" not in project.read("t.yaml")
