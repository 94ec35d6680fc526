"""Renamed rules: found by their digests, and printed by `dotr plan`."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from dotr.commands import main
from dotr.engine.program import CompiledProgram
from dotr.engine.spec import ProgramSpec
from dotr.engine.state.schema import StateSchema, renamed_rules, state_schema
from dotr.languages.programs import compile_program
from dotr.model.places import Document
from tests.support.stored_program import HOME
from tests.support.stored_spark_folders import project, unpack

pytestmark = pytest.mark.core

HEADER = """PREFIX : <http://e/>
query Air = [ SELECT ?room ?v WHERE { ?r :room ?room ; :value ?v } ]
"""
JAM = """rule DirtyJam define DirtyJam = [ [] :at ?room ] from Air as Now
and last Air as Old [ FILTER(?room = Now.?room) ] within 20 s from Now with DirtyJam.?room = Now.?room
"""
WAVE = """rule Wave define Wave = [ [] :wave ?room ] from DirtyJam
and last DirtyJam as Old [ FILTER(?room = DirtyJam.?room) ] within 20 s from DirtyJam with Wave.?room = DirtyJam.?room
"""
AGAIN = """rule Again define Again = [ [] :again ?room ] from Air as Now
and last Again as Old [ FILTER(?room = Now.?room) ] within 20 s from Now with Again.?room = Now.?room
rule Once define Again = [ [] :again ?room ] from Air with Again.?room = Air.?room
"""


def compiled(*rules: str) -> CompiledProgram:
    return compile_program(ProgramSpec((Document("r.dotr", HEADER + "".join(rules)),)))


def stored(*rules: str) -> StateSchema:
    """The schema as a checkpoint has it."""
    return StateSchema.of_json(state_schema(compiled(*rules), knowledge="").to_json())


@pytest.mark.parametrize(
    ("before", "after", "found"),
    [
        (JAM, JAM.replace("DirtyJam", "FoulJam"), {"FoulJam": "DirtyJam"}),
        (JAM, JAM.replace("rule DirtyJam", "rule FoulJam"), {"FoulJam": "DirtyJam"}),
        (JAM, JAM.replace("rule DirtyJam ", "").replace("DirtyJam", "FoulJam"), {"FoulJam": "DirtyJam"}),
        (
            JAM,
            JAM.replace("rule DirtyJam", 'rule FoulJam "other words"').replace("20 s", "20 sec"),
            {"FoulJam": "DirtyJam"},
        ),
        (JAM, JAM.replace("DirtyJam", "FoulJam").replace("20 s", "21 s"), {}),
        (JAM, JAM + JAM.replace("DirtyJam", "FoulJam"), {}),
        (JAM, JAM, {}),
        (JAM + WAVE, (JAM + WAVE).replace("DirtyJam", "FoulJam"), {"FoulJam": "DirtyJam"}),
        (JAM + WAVE, (JAM + WAVE).replace("DirtyJam", "FoulJam").replace("Wave", "Tide"), {"FoulJam": "DirtyJam", "Tide": "Wave"}),
        (JAM + WAVE, (JAM + WAVE.replace("Wave", "Tide")).replace("= Now.?room) ]", "= Now.?room && ?v > 1) ]"), {"Tide": "Wave"}),
        (AGAIN, AGAIN.replace("Again", "Repeated"), {"Repeated": "Again"}),
    ],
)
def test_renamed_rules_are_found_by_their_digests(before: str, after: str, found: dict[str, str]) -> None:
    assert renamed_rules(compiled(after), stored(before)) == found


@pytest.mark.parametrize("packed", sorted(HOME.glob("spark-*.tar.xz")), ids=lambda path: str(path.name))
def test_plan_names_the_rules_that_are_only_renamed(
    packed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    unpack(packed, tmp_path)
    project("whole", on_spark=True)
    assert main(["plan", "whole.yaml"]) == 0
    assert " means what " not in capsys.readouterr().out
    rules = Path("whole.dotr")
    text = rules.read_text(encoding="utf-8")
    rules.write_text(re.sub(r"\bQuiet\b", "Still", text).replace("rule Keyed", "rule Found"), encoding="utf-8")
    assert main(["plan", os.path.relpath("whole.yaml")]) == 0
    output = capsys.readouterr().out
    assert "rule Quiet is dropped: the program no longer has the rule\n" in output
    assert "rule Still starts empty: it is new\n" in output
    assert "\nFound means what Keyed meant: under its old name it keeps its state.\n" in output
    assert "\nStill means what Quiet meant: under its old name it keeps its state.\n" in output
