"""Each benchmark at a hundredth of its size, dotr alone and in process, against the definition by brute force."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from benchmarks.field.measuring import ALIKE, Case, Effort, Participant, difference, measure
from benchmarks.field.peers import Command, Missing, ours
from benchmarks.field.serve import run_once
from benchmarks.field.works import Scale, works


@pytest.mark.parametrize("name", works())
def test_counts_are_those_of_the_definition(name: str, tmp_path: Path) -> None:
    cases = list(works()[name].cases(Scale.HUNDREDTH, tmp_path))
    if not cases and name in ("citybench", "aarhus"):
        pytest.skip("the data set is not here")
    assert cases
    assert any(case.expected for case in cases)
    for case in cases:
        count, rows = run_once(*case.own)
        assert (case.name, count) == (case.name, case.expected)
        assert not case.rows or (case.name, difference(rows or [], case.rows)) == (case.name, None)
        assert not case.against or case.against in {other.name for other in cases}


def _as_it_is(command: Command) -> Command:
    return command


def one_case(tmp_path: Path, expected: int | None = None, **others: Command) -> Case:
    case = next(iter(works()["field"].cases(Scale.HUNDREDTH, tmp_path)))
    return Case(
        "small",
        {},
        "event",
        case.units,
        case.expected if expected is None else expected,
        case.own,
        {name: partial(_as_it_is, command) for name, command in others.items()},
        effort=Effort(repeats=2, warm_runs=3),
    )


def test_a_system_is_measured_cold_warm_and_repeatedly(tmp_path: Path) -> None:
    (found,) = measure(one_case(tmp_path), lambda line: None)
    assert found.reason is None
    assert found.cold is not None
    assert found.cold.process > 0
    assert len(found.repeats) == 2
    assert 3 <= len(found.warm_up) <= Effort().own_warm_runs
    last = [each.work for each in found.warm_up[-3:]]
    assert found.is_warm == (max(last) < ALIKE * min(last))
    assert found.peak_megabytes > 1


def test_another_count_has_no_time(tmp_path: Path) -> None:
    (found,) = measure(one_case(tmp_path, expected=7), lambda line: None)
    assert found.reason is not None
    assert found.reason.startswith("wrong: ")
    assert found.reason.endswith(" of 7")
    assert found.repeats == ()


def test_a_peer_that_fails_or_is_missing_is_named(tmp_path: Path) -> None:
    def not_here() -> Command:
        raise Missing("Java is not installed")

    case = one_case(tmp_path, broken=ours("benchmarks.field.nothing:here"))
    case = Case(case.name, {}, "event", case.units, case.expected, case.own, {**case.others, "absent": not_here}, {"mute": "no windows"})
    reasons = {each.system: each.reason for each in measure(case, lambda line: None)}
    assert reasons["dotr"] is None
    assert reasons["broken"] == "failed: ModuleNotFoundError: No module named 'benchmarks.field.nothing'"
    assert reasons["absent"] == "missing: Java is not installed"
    assert reasons["mute"] == "cannot say it: no windows"


def test_a_participant_stops_when_its_input_ends(tmp_path: Path) -> None:
    case = one_case(tmp_path)
    participant = Participant("dotr", ours(*case.own), tmp_path)
    participant.wait_until_ready()
    assert participant.run(case.expected).thread is not None
    participant.stop()
