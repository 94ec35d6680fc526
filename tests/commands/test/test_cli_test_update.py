"""`dotr test --update`: expectations are rewritten from the output; comments and layout are preserved."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest

from dotr.commands.test.cases import load_test
from dotr.commands.test.updates import updated as updated_test
from dotr.model.places import Document
from dotr.syntax.yaml import read_tree
from tests.conftest import Project
from tests.support.paths import TESTS

HEAD = """\
# the rules of the house
rules: [r.dotr]   # one file
prefixes: { "": "http://e/" }
cases:
"""
STREAM = '[ { at: 1, graph: ":a a :A ." }, { at: 2, graph: ":b a :A ." } ]'


def updated(project: Project, case: str, *, passes: bool = True) -> str:
    """The text of a case after the update. Asserts that the shown diff has the changed lines."""
    project.write("t.yaml", HEAD + case)
    before = project.read("t.yaml")
    answer = project.dotr("test", "t.yaml", "--update")
    after = project.read("t.yaml")
    if passes:
        assert (answer.code, answer.err) == (0, ""), answer
        assert answer.out.startswith("update t.yaml: one\n")
        assert "\n--- t.yaml\n+++ t.yaml\n@@ " in answer.out
        assert answer.out.endswith("0 passed, 0 failed, 1 updated\n")
        assert project.dotr("test", "t.yaml").code == 0
        shown = [line[1:] for line in answer.out.splitlines() if line[:1] == "+" and line[:3] != "+++"]
        assert shown == [line for line in after.splitlines() if line not in before.splitlines()]
    assert after.startswith(HEAD)
    return after.removeprefix(HEAD)


def test_changed_attribute_is_replaced(project: Project) -> None:
    case = f"""\
  - name: one  # of two
    stream: {STREAM}
    expect:
      # the first
      - {{ at: 1, event: Out, attributes: {{ x: ":z" }} }}  # wrong
      - at: 2
        event: Out
        attributes:
          x: ":b"  # right
"""
    assert updated(project, case) == case.replace('":z"', '":a"')


def test_missing_and_additional_outputs_of_a_block(project: Project) -> None:
    case = f"""\
  - name: one
    stream: {STREAM}
    expect:
      # before
      - {{ at: 2, event: Out, attributes: {{ x: ":b" }} }}  # kept
      - at: 3
        event: Out   # goes
      # after
  # the end
"""
    assert (
        updated(project, case)
        == f"""\
  - name: one
    stream: {STREAM}
    expect:
      # before
      - {{ at: 1, event: Out, attributes: {{ x: ":a" }} }}
      - {{ at: 2, event: Out, attributes: {{ x: ":b" }} }}  # kept
      # after
  # the end
"""
    )


def test_empty_list_becomes_a_block(project: Project) -> None:
    case = f"  - name: one\n    stream: {STREAM}\n    expect: []  # nothing\n"
    assert updated(project, case) == (
        f"  - name: one\n    stream: {STREAM}\n    expect:  # nothing\n"
        '      - { at: 1, event: Out, attributes: { x: ":a" } }\n'
        '      - { at: 2, event: Out, attributes: { x: ":b" } }\n'
    )
    assert updated(project, case.removesuffix("\n").replace("  # nothing", "")).endswith(':b" } }\n')


def test_block_becomes_an_empty_list(project: Project) -> None:
    case = (
        '  - name: one\n    stream: [ { at: 1, graph: ":a a :B ." } ]\n    expect:  # events\n      - { at: 1, event: Out }\n      # none\n'
    )
    assert updated(project, case) == case.replace("expect:  #", "expect: []  #").replace("      - { at: 1, event: Out }\n", "")


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("[ { at: 1, event: Out } ]", "[ { at: 1, event: Out }, { at: 2, event: Out } ]"),
        ("[ { at: 2, event: Out } ]", "[ { at: 1, event: Out }, { at: 2, event: Out } ]"),
        ("[ { at: 0, event: Out }, { at: 1, event: Out }, { at: 2, event: Out } ]", "[ { at: 1, event: Out }, { at: 2, event: Out } ]"),
        ("[ { at: 1, event: Out }, { at: 2, event: Out }, { at: 3, event: Out } ]", "[ { at: 1, event: Out }, { at: 2, event: Out } ]"),
        ("[ { at: 3, event: Out } ]", "[ { at: 1, event: Out }, { at: 2, event: Out } ]"),
        (
            "[\n      { at: 0, event: Out }, # a\n      { at: 1, event: Out }, # b\n      { at: 3, event: Out }, # c\n    ]",
            "[\n      { at: 1, event: Out },\n      { at: 2, event: Out }, # b\n    ]",
        ),
    ],
)
def test_lists_in_brackets(project: Project, before: str, after: str) -> None:
    case = f"  - name: one\n    stream: {STREAM}\n    expect: {before}\n"
    assert updated(project, case) == case.replace(before, after)


def test_case_in_braces_stays_in_braces(project: Project) -> None:
    case = f"  - {{ name: one, stream: {STREAM}, expect: [] }}\n"
    assert updated(project, case) == case.replace(
        "[] }", '[ { at: 1, event: Out, attributes: { x: ":a" } }, { at: 2, event: Out, attributes: { x: ":b" } } ] }'
    )


def test_graphs_are_written_as_turtle(project: Project) -> None:
    case = """\
  - name: one
    stream: [ { at: 1, graph: ":a a :A ." } ]
    expect:
      - at: 1
        graph: |
          [] a :Other ;
             :x :a .

      # the end
"""
    assert updated(project, case) == case.replace("|\n          [] a :Other ;\n             :x :a .\n", '"[] a :Out ; :x :a ."\n')


def test_facts_are_updated_too(project: Project) -> None:
    case = f"  - name: one\n    stream: {STREAM}\n    facts: [ {{ at: 1, fact: A, attributes: {{ y: 1 }} }} ]\n"
    assert updated(project, case) == case.replace("{ y: 1 } }", '{ x: ":a" } }, { at: 2, fact: A, attributes: { x: ":b" } }')


@pytest.mark.parametrize(
    ("term", "scalar"),
    [("50", "50"), ("'50'^^<http://www.w3.org/2001/XMLSchema#decimal>", "'\"50\"^^xsd:decimal'"), ("true", "true"), ("'it''s'", None)],
)
def test_terms_read_back(project: Project, term: str, scalar: str | None) -> None:
    project.change("r.dotr", "?x a :A", "?s :v ?x")
    stream = (
        f'[ {{ at: 1, graph: ":a :v {term.replace("{", "")} ." }} ]' if scalar else '[ { at: 1, graph: ":a :v \\"it\'s \\\\\\\\ \\" ." } ]'
    )
    case = f"  - name: one\n    stream: {stream}\n    expect: [ {{ at: 1, event: Out, attributes: {{ x: 1 }} }} ]\n"
    expected = scalar if scalar is not None else "'\"it''s \\\\ \"'"
    assert updated(project, case) == case.replace("x: 1 }", f"x: {expected} }}")


def test_line_ends_and_byte_order_mark_are_preserved(project: Project) -> None:
    text = (HEAD + f"  - name: one\n    stream: {STREAM}\n    expect: []\n").replace("\n", "\r\n")
    project.write("t.yaml", b"\xef\xbb\xbf" + text.encode())
    assert project.dotr("test", "t.yaml", "--update").code == 0
    written = (project.folder / "t.yaml").read_bytes()
    assert written.startswith(b"\xef\xbb\xbf# the rules")
    assert written.count(b"\r\n") == written.count(b"\n") == text.count("\n") + 2


def test_other_cases_are_unchanged(project: Project) -> None:
    other = "  - name: two\n    stream: []\n    expect: [ { at: 9, event: Out } ]\n"
    project.write("t.yaml", HEAD + f"  - name: one\n    stream: {STREAM}\n    expect: []\n" + other)
    assert project.dotr("test", "t.yaml", "--update", "--filter", "one").code == 0
    assert project.read("t.yaml").endswith(other)
    assert project.dotr("test", "t.yaml", "--update").out.endswith("1 passed, 0 failed, 1 updated\n")


def test_alias_is_not_rewritten(project: Project) -> None:
    text = HEAD + (
        f"  - name: one\n    stream: {STREAM}\n    expect: &both [ {{ at: 1, event: Out }}, {{ at: 2, event: Out }} ]\n"
        '  - name: two\n    stream: [ { at: 1, graph: ":a a :A ." } ]\n    expect: *both\n'
    )
    project.write("t.yaml", text)
    answer = project.dotr("test", "t.yaml", "--update")
    assert answer.code == 1
    assert "       note: its expectations cannot be rewritten in place\n" in answer.out
    assert project.read("t.yaml") == text


def test_failing_rule_is_no_expectation(project: Project) -> None:
    answer = project.dotr("test", "t.yaml", "--update", "--watch")
    assert answer.code == 2
    report = json.loads(project.dotr("test", "t.yaml", "--update", "--format", "json").out)
    assert (report["passed"], report["updated"]) == (1, 0)


def test_deleted_expectations_of_all_cases_are_restored(tmp_path: Path) -> None:
    """Emptied, and with every time changed, the lists are rewritten so that all cases pass."""
    shutil.copytree(TESTS / "cases", tmp_path / "cases")
    for path in sorted((tmp_path / "cases").glob("*.yaml")):
        text = path.read_text()
        for changed in (emptied(text), re.sub(r"at: (\d+), (event|fact)", r"at: 9\1, \2", text)):
            path.write_text(changed)
            test = load_test(str(path))
            for number in range(len(test.cases)):
                if not test.run(number).passed:
                    after = updated_test(test, number)
                    assert after is not None, (path.name, test.cases[number].name, changed == emptied(text))
                    test = after
            assert all(test.run(number).passed for number in range(len(test.cases)))


def emptied(text: str) -> str:
    """A test with all lists of expectations empty."""
    spans = read_tree(Document("t.yaml", text)).spans
    lists = [span for location, span in spans.items() if len(location) == 3 and location[-1] in ("expect", "facts")]
    for span in sorted(lists, key=lambda span: -span.start):
        rest = text[span.end :]
        end = "" if span.text.startswith("[") else "\n" + " " * (len(span.text) - len(span.text.rstrip(" ")))
        text = text[: span.start].rstrip() + " []" + end + rest
    return text
