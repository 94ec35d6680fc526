"""Edge cases of runs on Spark: messages on the terminal, all records rejected, damaged checkpoints,
parallel runs."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.conftest import Project

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("spark")]
SETTINGS = ("--engine", "spark", "--set", "spark.checkpoint=ck", "--set", "spark.master=local[2]")


def ndjson(elements: int) -> str:
    return "".join(f'{{"time": {number}, "graph": ":a{number} a :A ."}}\n' for number in range(elements))


def test_run_that_rejects_every_record_fails(project: Project) -> None:
    project.write("a.ndjson", "broken\n" * 2)
    answer = project.dotr("run", "c.yaml", *SETTINGS)
    last = "The run failed: it rejected every element that it read (2 unreadable); dead.ndjson holds them."
    assert (answer.code, answer.err.splitlines()[-1]) == (1, last)
    assert project.dotr("run", "c.yaml", *SETTINGS).code == 0, "this one read nothing"


def test_checkpoint_is_on_the_disk_where_a_cluster_has_another_file_system(project: Project) -> None:
    """As on YARN, whose default is HDFS: a path is one on the disk, for Spark's part of the checkpoint as for ours."""
    from pyspark.sql import SparkSession

    project.write("a.ndjson", ndjson(3))
    session = SparkSession.builder.getOrCreate()
    session.conf.set("fs.defaultFS", "viewfs://nowhere/")
    try:
        answer = project.dotr("run", "c.yaml", *SETTINGS)
    finally:
        session.conf.unset("fs.defaultFS")
    assert answer.code == 0, answer
    assert Path("ck/query/commits/0").exists()


def test_plan_of_batch_without_closed_instants(project: Project) -> None:
    """A batch may have dead letters alone, and close no instant."""
    project.write("a.ndjson", ndjson(1))
    assert project.dotr("run", "c.yaml", *SETTINGS).code == 0
    offset = sorted(Path("ck/query/offsets").glob("[0-9]*"))[-1]
    lines = offset.read_text().splitlines()
    place = json.loads(lines[-1])
    lines[-1] = json.dumps({**place, "time": -4611686018427387904})
    offset.write_text("\n".join(lines))
    offset.with_name(f".{offset.name}.crc").unlink()
    answer = project.dotr("plan", "c.yaml", *SETTINGS[2:])
    assert (answer.code, answer.out) == (0, "No instant has closed yet in the checkpoint ck: all rules start empty.\n")
    assert project.dotr("status", "ck", "--quick").code == 0


def test_damaged_log_is_named_and_its_repair_works(project: Project) -> None:
    """Damage of a planned batch, of a written one, and of the query id; nothing is lost or
    repeated."""
    project.write("a.ndjson", ndjson(100))
    settings = (*SETTINGS, "--set", "spark.batch=40", "--quiet")
    assert project.dotr("run", "c.yaml", *settings).code == 0
    query = Path("ck/query")
    last = max(int(path.name) for path in (query / "offsets").glob("[0-9]*"))

    def outputs() -> str:
        return "".join(path.read_text() for path in sorted(Path("out.ndjson").glob("*.ndjson")))

    whole = outputs()
    assert len(whole.splitlines()) == 100
    for names in (["offsets"], ["offsets", "commits"], ["commits"], ["metadata"]):
        if names == ["offsets"]:  # as if the run had stopped before the batch was written
            for path in (query / f"commits/{last}", query / f"commits/.{last}.crc"):
                path.unlink()
        damaged = query / "metadata" if names == ["metadata"] else query / names[0] / str(last)
        damaged.write_bytes(damaged.read_bytes()[:20])
        message = project.refused("run", "c.yaml", *settings)
        assert f"S114 the checkpoint is damaged: {damaged.absolute()} is cut" in message
        assert project.refused("plan", "c.yaml", *settings[2:-1]) == message or names == ["metadata"], "there the id is a new one each time"
        if names == ["metadata"]:
            (text,) = re.findall(r"write (\{.*\}) into", message)
            damaged.write_text(text)
            damaged.with_name(".metadata.crc").unlink()
        else:
            for removed in re.findall(r"/\S*?/(?:offsets|commits)/\.?[0-9]+(?:\.crc)?", message.splitlines()[-1]):
                Path(removed).unlink()
            if names == ["commits"]:
                damaged.unlink()
        answer = project.dotr("run", "c.yaml", *settings)
        assert (answer.code, answer.err) == (0, ""), names
        assert outputs() == whole, names


def test_damaged_state_is_named(project: Project) -> None:
    project.change("r.dotr", "with", "and last B = [ SELECT ?y WHERE { ?y a :B } ] within 5 s from A\nwith")
    project.write("a.ndjson", ndjson(100))
    settings = (*SETTINGS, "--set", "spark.batch=40", "--quiet")
    assert project.dotr("run", "c.yaml", *settings).code == 0
    last = max(int(path.name) for path in Path("ck/query/offsets").glob("[0-9]*"))
    for path in (Path(f"ck/query/commits/{last}"), Path(f"ck/query/commits/.{last}.crc")):
        path.unlink()
    for state in Path("ck/query/state").rglob(f"{last}.changelog"):
        state.write_bytes(state.read_bytes()[:7])
    for state in Path("ck/query/state").rglob("*.zip"):
        state.write_bytes(b"")
    message = project.refused("run", "c.yaml", *settings)
    assert "S114 the checkpoint is damaged: " in message
    assert "/ck/query/state/" in message
    assert "Put the folder back from a copy, or start over with --fresh" in message
