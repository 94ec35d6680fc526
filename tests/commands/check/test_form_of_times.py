"""Differences of times as numbers, where the form of times is known: `check --data`, `test`, `run`."""

from __future__ import annotations

import pytest

from tests.conftest import Project

pytestmark = pytest.mark.core

RULES = """\
PREFIX : <http://e/>
query In = [ SELECT ?x { ?x :is :in } ]
query Gone = [ SELECT ?x { ?x :is :gone } ]
rule Stay
define Stay = [ ?x a :Stay ]
from Gone and last In [ FILTER(?x = Gone.?x) ] within 1 d from Gone
if time(Gone) - time(In) > 90
with Stay.?x = Gone.?x
"""
CERTAIN = "is an error: times are date-times"
POSSIBLE = "is an error where times are date-times"
FORMS = [("2024-03-01T10:00:00Z", "2024-03-01T10:02:00Z", CERTAIN), ("0", "120", "")]


def configured(project: Project, first: str, last: str, more: str = "") -> None:
    project.write("r.dotr", RULES)
    project.write("a.csv", f"at,x,is\n{first},a,in\n{last},a,gone\n")
    project.write(
        "c.yaml",
        'name: n\nprefixes: { "": "http://e/" }\nrules: [r.dotr]\n'
        "input: [ { name: a, format: csv, path: a.csv, time: at, map: ':{x} :is :{is} .' } ]\n"
        f"output: [ {{ path: out.ndjson }} ]\nengine: local\n{more}",
    )


@pytest.mark.parametrize(("first", "last", "told"), FORMS)
def test_data_decide(project: Project, first: str, last: str, told: str) -> None:
    configured(project, first, last)
    assert POSSIBLE in project.dotr("check", "c.yaml").err
    with_data = project.dotr("check", "--data", "c.yaml").err
    assert POSSIBLE not in with_data
    assert (CERTAIN in with_data) == bool(told)


@pytest.mark.parametrize(("first", "last", "told"), FORMS)
def test_start_of_run_decides(project: Project, first: str, last: str, told: str) -> None:
    configured(project, first, last)
    err = project.dotr("run", "c.yaml").err
    assert (CERTAIN in err) == bool(told)
    assert "1 warning of the rules" not in err
    configured(project, first, last, "report: { accept: [D326] }\n")
    assert CERTAIN not in project.dotr("run", "--fresh", "c.yaml").err


@pytest.mark.parametrize(("first", "last", "told"), FORMS)
def test_unit_of_configuration_says_integers(project: Project, first: str, last: str, told: str) -> None:
    configured(project, first, last, "time: { unit: s }\n")
    assert "D326" not in project.dotr("check", "c.yaml").err
    for answer in (project.dotr("check", "--data", "c.yaml"), project.dotr("run", "c.yaml")):
        assert (CERTAIN in answer.err) == bool(told)


@pytest.mark.parametrize("unit", ["", "time: { unit: s }\n"])
@pytest.mark.parametrize(("first", "last", "told"), FORMS)
def test_stream_of_test_decides(project: Project, first: str, last: str, told: str, unit: str) -> None:
    project.write("r.dotr", RULES)
    project.write(
        "s.yaml",
        unit + 'rules: [r.dotr]\nprefixes: { "": "http://e/" }\ncases:\n  - name: one\n    stream:\n'
        f"      - {{ at: {first}, graph: ':a :is :in .' }}\n      - {{ at: {last}, graph: ':a :is :gone .' }}\n"
        f"    expect: [ {{ at: {last}, event: Stay }} ]\n",
    )
    answer = project.dotr("test", "s.yaml")
    assert (answer.code, CERTAIN in answer.out + answer.err) == ((1, True) if told else (0, False))
