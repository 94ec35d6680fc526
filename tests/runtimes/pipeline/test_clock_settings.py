"""The keys `clock` and `record`: what they refuse, and what they make needless."""

from __future__ import annotations

from pathlib import Path

import pytest

from dotr.errors.diagnostics import Diagnostic, Refused
from dotr.model.time import Clock, Unit
from dotr.runtimes.pipeline.build import build, check_files
from dotr.runtimes.pipeline.config import Config, read_config
from dotr.runtimes.pipeline.inputs import read_inputs

pytestmark = pytest.mark.core

RULE = "define B = [ ?x a :B ] from A = [ SELECT ?x WHERE { ?x a :A } ] with B.?x = A.?x"
GROWS = "{ name: a, format: ndjson, path: '-' }"
ENDS = "{ name: b, format: ndjson, path: b.ndjson }"


def configured(folder: Path, inputs: str, *keys: str) -> Config:
    (folder / "r.dotr").write_text(RULE)
    (folder / "b.ndjson").write_text('{"time": 1, "graph": ""}\n')
    lines = ["name: x", "prefixes: { '': 'http://e/' }", "rules: [r.dotr]", f"input: [{inputs}]", "output: [{ path: out.ndjson }]"]
    (folder / "c.yaml").write_text("\n".join([*lines, "engine: local", *keys, ""]))
    return read_config(str(folder / "c.yaml"))


def problems(config: Config) -> list[str]:
    found: list[Diagnostic] = []
    try:
        read_inputs(config, found)
    except Refused as refused:
        found += refused.diagnostics
    return [f"{each.code} {each.message}" for each in found]


@pytest.mark.parametrize(
    ("inputs", "clock", "expected"),
    [
        (GROWS, "10 s", []),
        (f"{GROWS}, {ENDS}", "10 s", []),
        (ENDS.replace("}", ", pace: 60 }"), "10 s", []),
        (
            ENDS.replace("}", ", pace: 60, lateness: 1 min }"),
            "10 s",
            ["C204 input b may be 1 min late, and clock lets it be 10 s behind only"],
        ),
        (ENDS, "10 s", ["C204 no input grows: files that are there in full do not wait for a clock"]),
        (GROWS, "soon", ["C205 clock: 'soon' is no length of time: write 0 s, 30 s or 5 min"]),
        (GROWS, "0 s", ["C205 clock: an element takes time to arrive, so a clock of 0 would reject all"]),
        (
            GROWS.replace("}", ", lateness: 1 min }"),
            "10 s",
            ["C204 input a may be 1 min late, and clock lets it be 10 s behind only"],
        ),
        (GROWS.replace("}", ", lateness: 10 s }"), "10 s", []),
        (f"{GROWS}, {ENDS.replace('}', ', lateness: 1 h }')}", "10 s", []),
        (GROWS.replace("}", ", idle: never }"), "10 s", ["C204 idle: never waits without end, and clock does not"]),
        (GROWS.replace("}", ", idle: 1 s }"), "10 s", []),
        (
            f"{ENDS.replace('}', ', pace: 60 }')}, {GROWS}",
            "10 s",
            ["C204 input a has no pace, another has pace 60, and one clock is at one time"],
        ),
        (
            f"{ENDS.replace('}', ', pace: 60 }')}, {GROWS.replace('}', ', pace: 1 }')}",
            "10 s",
            ["C204 input a has pace 1, another has pace 60, and one clock is at one time"],
        ),
    ],
)
def test_conflicts_of_the_clock(tmp_path: Path, inputs: str, clock: str, expected: list[str]) -> None:
    assert problems(configured(tmp_path, inputs, f"clock: {clock}")) == expected


def test_a_conflict_has_its_place(tmp_path: Path) -> None:
    found: list[Diagnostic] = []
    read_inputs(configured(tmp_path, GROWS.replace("}", ", idle: never }"), "clock: 1 min"), found)
    [place] = [each.span for each in found]
    assert place is not None
    assert place.document.text[place.start : place.end] == "idle"


def test_the_delay_is_in_the_pipeline(tmp_path: Path) -> None:
    pipeline = build(configured(tmp_path, f"{GROWS}, {ENDS}", "clock: 1 min"), fresh=False, on_spark=False)
    assert pipeline.clock_delay == 60_000_000
    assert build(configured(tmp_path, ENDS), fresh=False, on_spark=False).clock_delay is None


@pytest.mark.parametrize(
    ("inputs", "unit", "expected"),
    [
        (GROWS, "s", Clock(Unit.SECOND, dated=True)),
        (GROWS, "{ unit: min }", Clock(Unit.MINUTE, dated=False)),
        (f"{GROWS}, {ENDS}", "s", Clock(Unit.SECOND, dated=False)),
    ],
)
def test_the_form_of_times_is_not_waited_for(tmp_path: Path, inputs: str, unit: str, expected: Clock) -> None:
    keys = ["clock: 10 s"] if unit == "s" else ["clock: 10 s", f"time: {unit}"]
    pipeline = build(configured(tmp_path, inputs, *keys), fresh=False, on_spark=False)
    assert (pipeline.clock, pipeline.clock_pending) == (expected, False)


def test_no_warning_of_silence_with_a_clock(tmp_path: Path) -> None:
    received = "{ name: a, format: ndjson, http: { listen: 8081, open: true } }"
    warned = [each.code for each in check_files(configured(tmp_path, received), [])]
    assert "I113" in warned
    for keys in (["clock: 10 s"],):
        assert "I113" not in [each.code for each in check_files(configured(tmp_path, received, *keys), [])]
    never = configured(tmp_path, received.replace("open: true }", "open: true }, idle: never"))
    assert "I113" not in [each.code for each in check_files(never, [])]


def test_a_recording_is_of_a_run_in_process(tmp_path: Path) -> None:
    config = configured(tmp_path, GROWS, "record: out/run.ndjson")
    assert [each for each in check_files(config, []) if each.code == "C204"] == []
    assert build(config, fresh=False, on_spark=False, wait=False).recording == str(tmp_path / "out/run.ndjson")
    with pytest.raises(Refused, match="C204 record is of a run in process, and this one is on Spark"):
        build(config, fresh=False, on_spark=True)


def test_a_recording_is_no_output(tmp_path: Path) -> None:
    config = configured(tmp_path, GROWS, "record: out.ndjson")
    with pytest.raises(Refused, match=r"C206 the recording .* stand in each other's way"):
        build(config, fresh=False, on_spark=False)
