"""Comments `# dotr: allow CODE (reason)`: the warnings that they suppress, and C222 for useless ones."""

from __future__ import annotations

import pytest

from tests.conftest import CONFIG, Project

pytestmark = pytest.mark.core

RULES = """\
PREFIX : <http://e/>
# The rooms of the plan.
# dotr: allow D501 (the plan names few rooms)

# It is asked at every instant.
query Room = [ SELECT ?room WHERE { ?room a :Room } ]
rule Fire "Smoke, and heat anywhere."
define Fire = [ [] :in ?room ]
from Smoke = [ SELECT ?room WHERE { ?s a :Smoke ; :in ?room } ]
and last Heat = [ SELECT ?room WHERE { ?h a :Heat ; :in ?room } ] within 1 h from Smoke
and not Room within [0, 1 s] from Smoke
with Fire.?room = Smoke.?room
"""
ALLOWED = RULES.replace("rule Fire", "# dotr: allow D321 (one fire is enough)\nrule Fire")


@pytest.fixture
def rooms(project: Project) -> Project:
    project.write("c.yaml", CONFIG + "knowledge: { graphs: [g.ttl] }\n")
    project.write("g.ttl", "<http://e/hall> a <http://e/Room> .")
    project.write("r.dotr", ALLOWED)
    return project


def messages(project: Project, *arguments: str) -> list[str]:
    """The first lines of all problems, and the last line of `dotr check`."""
    lines = project.dotr("check", *arguments).err.splitlines()
    return [line for line in lines if " warning: " in line or line == lines[-1]]


def test_comment_suppresses_the_warnings_of_its_statement(rooms: Project) -> None:
    rooms.write("r.dotr", RULES.replace("# dotr: allow", "# allow"))
    assert [line.partition(" warning:")[0] for line in messages(rooms, "c.yaml")] == [
        "r.dotr:10:10: D321",
        "r.dotr:11:9: D501",
        "1 file checked: no errors, 2 warnings.",
    ]
    assert "2 warnings of the rules" in rooms.dotr("run", "c.yaml").err
    rooms.write("r.dotr", ALLOWED)
    assert messages(rooms, "c.yaml", "--strict") == ["1 file checked: no errors, no warnings (2 accepted)."]
    assert "warning" not in rooms.dotr("run", "c.yaml").err


def test_comment_above_the_rule_or_the_shared_query_that_it_reads(rooms: Project) -> None:
    rooms.write("r.dotr", ALLOWED.replace("# dotr: allow D501 (the plan names few rooms)\n", "").replace("allow D321", "allow D321, D501"))
    assert messages(rooms, "c.yaml") == ["1 file checked: no errors, no warnings (2 accepted)."]
    rooms.write("r.dotr", ALLOWED + "rule Other define Other = [ [] a :Other ] from Room\n")
    assert messages(rooms, "c.yaml") == ["1 file checked: no errors, no warnings (3 accepted)."]


@pytest.mark.parametrize(
    ("comment", "problem"),
    [
        ("# dotr: allow D315 (never)", "there is no D315 to allow here\nLeave the comment out."),
        ("# dotr: allow D502 (never)", "there is no D502 to allow here\nLeave the comment out."),
        ("# dotr: allow D399 (typo)", "there is no code D399\nDid you mean D319?"),
        ("# dotr: allow nothing (typo)", "there is no code nothing\ndocs/errors.md has all codes."),
        ("# dotr: allow D315", "D315 is allowed without a reason\nWrite why: # dotr: allow D315 (the reason)"),
        ("# dotr: allow D315 ( )", "D315 is allowed without a reason\nWrite why: # dotr: allow D315 (the reason)"),
        ("# dotr: alow D315 (x)", "this comment cannot be read\nIt is: # dotr: allow D501 (the links are few)"),
        ("# dotr: allow (x)", "this comment cannot be read\nIt is: # dotr: allow D501 (the links are few)"),
    ],
)
def test_useless_comment_is_reported(rooms: Project, comment: str, problem: str) -> None:
    rooms.write("r.dotr", ALLOWED.replace("rule Fire", f"{comment}\nrule Fire"))
    answer = rooms.dotr("check", "c.yaml", "--strict")
    message, hint = problem.split("\n")
    excerpt = f"  8 | {comment}\n    | {'^' * len(comment.rstrip())}"
    last = "1 file checked: no errors, 1 warning (2 accepted)."
    assert (answer.code, answer.err) == (2, f"r.dotr:8:1: C222 warning: {message}\n{excerpt}\n{hint}\n\n{last}\n")


def test_comment_without_a_statement_is_reported(rooms: Project) -> None:
    for text in (
        ALLOWED.replace("and last Heat", "# dotr: allow D321 (here?)\nand last Heat"),
        ALLOWED.replace("rule Fire", "rule Fire # dotr: allow D321 (here?)\n"),
        ALLOWED + "# dotr: allow D321 (here?)\n",
    ):
        rooms.write("r.dotr", text)
        first, _ = messages(rooms, "c.yaml")
        assert first.endswith(": C222 warning: this comment is above nothing")


def test_comment_without_a_reason_suppresses_nothing(rooms: Project) -> None:
    rooms.write("r.dotr", ALLOWED.replace(" (one fire is enough)", ""))
    assert [line.partition(" warning:")[0] for line in messages(rooms, "c.yaml")] == [
        "r.dotr:11:10: D321",
        "r.dotr:7:1: C222",
        "1 file checked: no errors, 2 warnings (1 accepted).",
    ]


def test_comments_for_codes_of_the_data_are_checked_only_with_a_configuration(rooms: Project) -> None:
    assert messages(rooms, "r.dotr") == ["1 file checked: no errors, no warnings (1 accepted)."]
    rooms.write("g.ttl", "")
    assert messages(rooms, "r.dotr") == ["1 file checked: no errors, no warnings (1 accepted)."]
    assert [line.partition(" warning:")[2] for line in messages(rooms, "c.yaml")] == [" there is no D501 to allow here", ""]
    rooms.write("r.dotr", ALLOWED + "rule Wrong define")
    assert "C222" not in rooms.dotr("check", "c.yaml").err


def test_comment_is_useful_if_one_of_several_programs_has_the_warning(rooms: Project) -> None:
    rooms.write("d.yaml", CONFIG)
    assert messages(rooms, "c.yaml", "d.yaml") == ["2 files checked: no errors, no warnings (2 accepted)."]
    assert messages(rooms, "d.yaml")[0].endswith("there is no D501 to allow here")


def test_comments_in_yaml(rooms: Project) -> None:
    case = """\
rules: [r.dotr]
prefixes: { "": "http://e/" }
cases:
  # dotr: allow C210 (it is to come)
  - name: one
    stream: []
    expect:
      - { at: 1, event: Alarm, attributes: {} }
  - name: two
    stream: []
    # dotr: allow C210 (so is this)
    expect:
      - { at: 1, event: Alarm, attributes: {} }
"""
    rooms.write("t.yaml", case)
    assert messages(rooms, "t.yaml") == ["1 file checked: no errors, no warnings (3 accepted)."]
    rooms.write("t.yaml", case.replace("Alarm", "Fire").replace("attributes: {}", "attributes: { room: ':x' }"))
    found = messages(rooms, "t.yaml")
    assert [line.partition(" warning:")[0] for line in found[:-1]] == ["t.yaml:4:3: C222", "t.yaml:11:5: C222"]


def test_comments_in_datalog(rooms: Project) -> None:
    rooms.write("c.yaml", CONFIG + "knowledge: { graphs: [g.ttl], datalog: [d.dlog] }\n")
    rooms.write(
        "d.dlog", "@prefix : <http://e/> .\n# dotr: allow D501 (none here)\n:a(?x) :- :b(?x) .\n# dotr: allow D501\n:b(?x) :- :c(?x) .\n"
    )
    assert [line.partition(" warning:")[2] for line in messages(rooms, "c.yaml")[:-1]] == [
        " there is no D501 to allow here",
        " D501 is allowed without a reason",
    ]
    assert [line.partition(" warning:")[2] for line in messages(rooms, "d.dlog")[:-1]] == [" D501 is allowed without a reason"]
