"""Tests of `dotr why-not --triple`."""

from __future__ import annotations

import json

import pytest

from dotr.commands import main
from tests.support.paths import ROOT

pytestmark = pytest.mark.core


@pytest.fixture(autouse=True)
def _in_the_repository(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)


def answered(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code = main(["why-not", *arguments])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_a_triple_that_holds(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = answered(capsys, "configs/fire.yaml", "--triple", ":s2 :is_in_room :roomA")
    assert (code, out) == (0, ":s2 :is_in_room :roomA holds at 3 of 6 instants: 12, 13, 25\n")


def test_a_triple_that_does_not_hold_at_a_time(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = answered(capsys, "configs/fire.yaml", "--triple", ":s2 :is_in_room :roomA", "--at", "10")
    assert code == 1
    assert out.splitlines() == [
        ":s2 :is_in_room :roomA does not hold at 1 instant; it holds at 12, 13, 25",
        "  kb/building.dlog:4 gives :is_in_room(?A, ?B): at 10: nothing is :is_at_location(:s2, ?C): it is known of :s1",
    ]


def test_json(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = answered(capsys, "configs/fire.yaml", "--triple", ":s2 :is_in_room :roomA", "--at", "10", "--format", "json")
    found = json.loads(out)
    assert code == 1
    assert (found["instants"], found["holds"], found["elsewhere"], found["rules"][0]["rule"]) == (1, [], [12, 13, 25], "kb/building.dlog:4")


def test_all_cases_of_a_test_have_their_names(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = answered(capsys, "tests/cases/rule_r.yaml", "--triple", ":s1 :is_in_room :roomA")
    assert code == 0
    assert out.startswith("smoke after heat in one room is a fire:\n:s1 :is_in_room :roomA holds at")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--triple", ":s2 :is_in_room"], "C219 :s2 :is_in_room is not one triple\n"),
        (["--triple", "x:s2 a :S"], "C219 x:s2 a :S is not one triple: unknown prefix x:\n"),
        (["--triple", ":s2 a :S", "--at", "soon"], "C219 --at: "),
        (["--triple", ":s2 a :S", "--all"], "C219 --where and --all are of a rule"),
        (["--triple", ":s2 a :S", "--rule", "R"], "usage: "),
        ([], "usage: "),
    ],
)
def test_wrong_questions(capsys: pytest.CaptureFixture[str], arguments: list[str], message: str) -> None:
    code, out, err = answered(capsys, "configs/fire.yaml", *arguments)
    assert (code, out) == (2, "")
    assert err.startswith(message)
