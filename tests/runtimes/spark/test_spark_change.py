"""Changed rules between two runs on Spark: unchanged rules continue, the others start empty."""

from __future__ import annotations

import json
import logging
import os
from dataclasses import replace
from pathlib import Path

import pytest

from dotr.commands import main
from dotr.engine.state.migration import StateFate
from dotr.engine.state.schema import state_schema
from dotr.errors.diagnostics import Refused
from dotr.languages.programs import fingerprint
from dotr.runtimes.local.run import run_local
from dotr.runtimes.monitoring.progress import RunProgress
from dotr.runtimes.monitoring.totals import Totals
from dotr.runtimes.pipeline.build import build
from dotr.runtimes.pipeline.config import read_config
from dotr.runtimes.spark.checkpoint.folder import Checkpoint, required_layout
from tests.runtimes.spark.test_spark_run import WHOLE, pipeline, results, write_inputs
from tests.support.stored_program import HOME
from tests.support.stored_spark_folders import project, unpack

pytestmark = pytest.mark.spark

SECOND = 1_000_000
RULE = "\nrule "


def events(folder: Path, out: str) -> list[str]:
    return results(folder, out)[0].splitlines()


def lines_of_rules(lines: list[str], rules: set[str], after: int = -1) -> list[str]:
    return [line for line in lines if (event := json.loads(line))["rule"] in rules and event["time"] > after]


@pytest.mark.usefixtures("spark")
def test_restart_with_changed_rules_keeps_state_of_unchanged_ones(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    from dotr.runtimes.spark.run import run_spark

    write_inputs(tmp_path)
    header, *rules = WHOLE.split(RULE)
    first = RULE.join([header, *(rule for rule in rules if not rule.startswith("Silent"))])
    then = RULE.join([header, *(rule for rule in rules if not rule.startswith("Quiet"))]).replace("1 min) from", "50 s) from")
    (tmp_path / "first.dotr").write_text(first)
    (tmp_path / "then.dotr").write_text("# Other words, and a further layer.\n" + then)
    for out, files in (("all", "first.dotr"), ("new", "then.dotr, jumps.dotr")):
        run_local(pipeline(tmp_path, out, on_spark=False, rules=files), lambda totals: None)

    seen: list[Totals] = []

    def stop(totals: Totals) -> None:
        seen.append(totals)
        if len(seen) == 4:
            raise ZeroDivisionError("enough")

    with pytest.raises(Exception, match="enough"):
        run_spark(pipeline(tmp_path, "spark", 120, rules="first.dotr"), stop)
    folder = str(tmp_path / "spark" / "checkpoint")
    position = Checkpoint(folder).offset()
    assert position is not None
    now = position.time // SECOND

    pipeline(tmp_path, "spark", 120, rules="then.dotr, jumps.dotr")
    assert main(["plan", os.path.relpath(tmp_path / "spark.yaml")]) == 0
    plan = capsys.readouterr().out
    assert "rule Further keeps its state\n" in plan
    assert "rule Flow keeps All; High starts empty: its window has changed; Low starts empty: its window has changed\n" in plan
    assert "rule Jump starts empty: it is new\n" in plan
    assert "rule Quiet is dropped: the program no longer has the rule\n" in plan
    assert "rule Used keeps its state\n" in plan
    assert Checkpoint(folder).layout == (before := Checkpoint(folder).layout)
    assert before is not None
    assert before.generation == 0

    def crash(*rest: object) -> None:
        raise ZeroDivisionError("enough")

    with monkeypatch.context() as patch:  # the moved state is written, and not yet the current one
        patch.setattr(Checkpoint, "switch", crash)
        with pytest.raises(ZeroDivisionError, match="enough"):
            run_spark(pipeline(tmp_path, "spark", 120, rules="then.dotr, jumps.dotr"), lambda totals: None)
    assert Checkpoint(folder).layout == before
    assert Checkpoint(folder).offset() == position

    (tmp_path / "meanwhile.dotr").write_text(RULE.join(rule for rule in then.split(RULE) if not rule.startswith("Flow")))
    with pytest.raises(Exception, match="enough"):  # moved state is moved again, before a batch has been processed with it
        run_spark(pipeline(tmp_path, "spark", 120, rules="meanwhile.dotr"), crash)
    assert Checkpoint(folder).offset() == position
    capsys.readouterr()
    assert main(["status", folder, "--format", "json"]) == 0
    status = json.loads(capsys.readouterr().out)
    assert (status["batch"], status["under_way"], status["closed"]) == (2, 3, now)
    assert status["state"]["source"] == "moved"
    assert {"Reading", "Run"} <= {each["label"] for each in status["state"]["held"] if each["events"]}
    assert status["totals"]["elements"] == seen[-1].elements  # the batch that was cut off counts once
    assert main(["status", folder]) == 0
    assert "Last batch: 2, and the state moved " in capsys.readouterr().out

    reported: list[RunProgress] = []
    with caplog.at_level(logging.WARNING, "dotr"):
        caplog.clear()
        run_spark(pipeline(tmp_path, "spark", 120, rules="then.dotr, jumps.dotr"), lambda totals: None, reported.append)
    assert sum(each.events for each in reported[0].stored) > 0
    assert {progress.batch.number for progress in reported if progress.batch} <= set(range(3, 20))
    assert "rule Flow starts empty: it is new" in caplog.text
    assert "rule Further" not in caplog.text
    layout = Checkpoint(folder).layout
    assert layout is not None
    assert (layout.generation, layout.first) == (2, 3)
    assert sorted(path.name for path in Path(folder).iterdir() if path.is_dir()) == ["moved-2", "query-2"]

    got, uninterrupted, anew = events(tmp_path, "spark"), events(tmp_path, "all"), events(tmp_path, "new")
    kept = {"Start", "Further"}
    assert lines_of_rules(got, kept) == lines_of_rules(uninterrupted, kept)
    assert any(json.loads(line)["rule"] == "Further" and json.loads(line)["time"] > now for line in got)
    changed = {"Flow", "Jump", "Pair", "Silent"}
    assert lines_of_rules(got, changed, now + 60) == lines_of_rules(anew, changed, now + 60)
    new = {"Jump", "Pair", "Silent"}
    assert not [line for line in lines_of_rules(got, new) if json.loads(line)["time"] <= now]
    early = lines_of_rules(got, {"Jump"}, now)
    assert set(early) <= set(lines_of_rules(anew, {"Jump"}, now))
    assert early
    assert len(lines_of_rules(anew, changed, now + 60)) > 10
    dead = results(tmp_path, "spark")[2]
    assert dead == results(tmp_path, "new")[2]
    assert main(["status", folder, "--quick", "--format", "json"]) == 0
    status = json.loads(capsys.readouterr().out)
    assert status["batch"] == max(int(path.stem) for path in (tmp_path / "spark" / "jumps.ndjson").iterdir())
    in_process = run_local(pipeline(tmp_path, "again", on_spark=False, rules="then.dotr, jumps.dotr"), lambda totals: None)
    assert status["totals"]["elements"] == in_process.elements
    assert sum(status["totals"]["dead"].values()) == len(dead)


def test_checkpoint_without_state_schema_continues_with_the_same_program(tmp_path: Path) -> None:
    write_inputs(tmp_path, 3)
    made = pipeline(tmp_path, "old").program
    layout = {"format": 1, "pipeline": "jumps", "program": fingerprint(made.spec), "inputs": [], "layers": 2, "buckets": 2, "partitions": 2}
    (tmp_path / "dotr.json").write_text(json.dumps(layout))
    checkpoint = Checkpoint(str(tmp_path))
    assert not checkpoint.state_change(made).moves
    with pytest.raises(Refused, match=r"S102 .* belongs to another program(.|\n)*a run of the unchanged program does"):
        checkpoint.state_change(pipeline(tmp_path, "new", rules="whole.dotr").program)


def test_plan_without_checkpoint_is_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_inputs(tmp_path, 3)
    pipeline(tmp_path, "none")
    assert main(["plan", os.path.relpath(tmp_path / "none.yaml")]) == 0
    assert "yet: all rules start empty." in capsys.readouterr().out


def test_plan_of_refused_change_exits_with_2(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_inputs(tmp_path, 3)
    made = pipeline(tmp_path, "other").program
    folder = tmp_path / "other" / "checkpoint"
    folder.mkdir(parents=True)
    layout = {"format": 1, "pipeline": "leaps", "program": fingerprint(made.spec), "inputs": [], "layers": 2, "buckets": 2, "partitions": 2}
    (folder / "dotr.json").write_text(json.dumps(layout))
    assert main(["plan", os.path.relpath(tmp_path / "other.yaml")]) == 2
    assert "it belongs to the pipeline leaps, this one is jumps" in capsys.readouterr().err


def test_changed_time_unit_is_refused(tmp_path: Path) -> None:
    write_inputs(tmp_path, 3)
    made = pipeline(tmp_path, "unit")
    layout = required_layout(made)
    checkpoint = Checkpoint(str(tmp_path / "kept"))
    checkpoint.create()
    checkpoint.claim(replace(layout, holdings=state_schema(made.program)))
    checkpoint.preview(layout, made.program)
    other = build(read_config(str(tmp_path / "unit.yaml"), ["time.unit=ms"]), fresh=False, on_spark=True)
    with pytest.raises(Refused, match=r"S102 .* the time unit .* is another one than when it was made"):
        checkpoint.preview(required_layout(other), other.program)
    knowing = tmp_path / "rooms.ttl"
    knowing.write_text(knowing.read_text() + " :r99 a :Room .")
    found = checkpoint.preview(layout, pipeline(tmp_path, "unit").program)
    assert not found.moves
    assert found.knowledge_warning is not None
    checkpoint.claim(layout, found)
    assert Checkpoint(str(tmp_path / "kept")).preview(layout, made.program).knowledge_warning is None


def test_plan_does_not_wait_for_inputs(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Standard input is open, the folder is empty, and the checkpoint has no time format."""
    monkeypatch.chdir(tmp_path)
    write_inputs(tmp_path, 3)
    (tmp_path / "d").mkdir()
    pipeline(tmp_path, "waits")
    text = (tmp_path / "waits.yaml").read_text()
    text = text.replace("path: a*.ndjson", 'path: "d/*.ndjson", watch: true, settle: 1 h').replace("path: c.csv.gz", 'path: "-"')
    (tmp_path / "waits.yaml").write_text(text.replace("path: b.ndjson", 'path: "b*.ndjson", watch: true, settle: 1 h'))
    reader, writer = os.pipe()
    kept = os.dup(0)
    os.dup2(reader, 0)
    try:
        assert main(["plan", "waits.yaml"]) == 0
    finally:
        os.dup2(kept, 0)
        for number in (reader, writer, kept):
            os.close(number)
    assert "yet: all rules start empty." in capsys.readouterr().out


@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize("packed", sorted(HOME.glob("spark-*.tar.xz")), ids=lambda path: str(path.name))
def test_checkpoint_folder_of_every_release_continues(packed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from dotr.runtimes.spark.run import run_spark

    monkeypatch.chdir(tmp_path)
    unpack(packed, tmp_path)
    run_local(project("all", on_spark=False), lambda totals: None)
    checkpoint = Checkpoint(str(tmp_path / "checkpoint"))
    position = checkpoint.offset()
    assert position is not None
    prepared = project("rest", on_spark=True, batch=1000)
    found = checkpoint.state_change(prepared.program)
    assert {verdict.fate for verdict in found.verdicts} == {StateFate.KEPT}
    assert {verdict.rule for verdict in found.verdicts} == {rule.name for rule in prepared.program.rules.rules}
    assert not found.moves
    assert found.knowledge_warning is None
    totals = run_spark(prepared, lambda totals: None, lambda progress: None)
    after = position.time // SECOND
    for kind in ("", "-dead.ndjson"):
        written = [line for path in sorted((tmp_path / f"rest{kind}").iterdir()) for line in path.read_text().splitlines()]
        everything = (tmp_path / f"all{kind}").read_text().splitlines()
        assert written == [line for line in everything if json.loads(line)["time"] > after]
        assert written
    rules = {json.loads(line)["rule"] for path in (tmp_path / "rest").iterdir() for line in path.read_text().splitlines()}
    assert rules == {rule.name for rule in prepared.program.rules.rules}
    layout = Checkpoint(str(tmp_path / "checkpoint")).layout
    assert layout is not None
    assert layout.generation == 0
    assert totals.elements > 0
