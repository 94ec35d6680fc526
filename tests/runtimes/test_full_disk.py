"""A full disk: a plain message and exit code 1; once there is space, the same command loses and doubles nothing."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from dotr.runtimes.spark.checkpoint.message_spool import MessageSpool
from dotr.streams.connectors.receivers import deliver
from dotr.streams.formats.segments import Segments
from dotr.streams.merge.feeds import SegmentsFeed
from dotr.streams.records import Format, InputFile, Message
from tests.conftest import Project
from tests.support.small_disk import SmallDisk, small_disk

KIB = 1024
CONFIG = """
name: full
prefixes: {{ "": "http://e/" }}
rules: [r.dotr]
input: [{{ name: a, format: ndjson, path: a.ndjson }}]
output: [{{ path: {output} }}]
dead_letter: {dead}
spark: {{ master: "local[1]", batch: 300, checkpoint: {checkpoint}, conf: {{ spark.ui.enabled: false }} }}
"""
RULE = """
PREFIX : <http://e/>
rule R define Out = [ [] :x ?x ] from A = [ SELECT ?x WHERE { ?s :v ?x } ] with Out.?x = A.?x
"""


@pytest.fixture
def disk(project: Project) -> Iterator[SmallDisk]:
    """A disk of 4 MiB, mounted at `d` of the project, which has 900 elements and 300 broken lines."""
    lines = (f"broken {at}" if at % 4 == 3 else json.dumps({"time": at, "graph": f":s{at} :v {at} ."}) for at in range(1_200))
    project.write("a.ndjson", "\n".join(lines) + "\n")
    project.write("r.dotr", RULE)
    with small_disk(project.folder / "d", 4096 * KIB) as found:
        yield found


def run(project: Project, engine: str, **places: str) -> tuple[int, str]:
    project.write("c.yaml", CONFIG.format(**{"output": "out", "dead": "dead", "checkpoint": "checkpoint", **places}))
    answer = project.dotr("run", "c.yaml", "--engine", engine, "--quiet", *(["--fresh"] if engine == "local" else []))
    return answer.code, answer.err


def content(path: Path) -> str:
    files = sorted(path.glob("0*")) if path.is_dir() else [path]
    return "".join(file.read_text() for file in files)


def letters(path: Path) -> list[int]:
    return sorted(json.loads(line)["line"] for line in content(path).splitlines())


@pytest.mark.parametrize(("key", "name"), [("output", "d/out"), ("dead", "d/dead"), ("output", "d/new/out"), ("output", "d/out.gz")])
def test_run_in_process_ends_on_a_full_disk(project: Project, disk: SmallDisk, key: str, name: str) -> None:
    disk.leave(16 * KIB if not name.endswith("gz") else 4 * KIB)
    code, err = run(project, "local", **{key: name})
    assert code == 1
    assert f"The run failed: cannot write {name}: no space left on device (the output before that is kept)\n" in err
    disk.empty()
    code, _ = run(project, "local", **{key: name})
    assert code == 0
    assert letters(project.folder / ("d/dead" if key == "dead" else "dead")) == list(range(4, 1_201, 4))


@pytest.mark.spark
@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize(
    ("key", "name", "free", "reported"),
    [
        ("output", "d/out", 60 * KIB, "no space left on device (the batches before that are kept: the same command goes on from them)"),
        ("dead", "d/dead", 16 * KIB, "no space left on device (the batches before that are kept: the same command goes on from them)"),
        ("checkpoint", "d/checkpoint", 40 * KIB, "no space left on device"),
    ],
)
def test_run_on_spark_goes_on_once_there_is_space(project: Project, disk: SmallDisk, key: str, name: str, free: int, reported: str) -> None:
    assert run(project, "local", output="expected", dead="expected-dead")[0] == 0
    disk.leave(free)
    code, err = run(project, "spark", **{key: name})
    assert code == 1, err
    assert reported in err.lower()
    disk.empty()
    code, err = run(project, "spark", **{key: name})
    assert code == 0, err
    assert content(project.folder / ("d/out" if key == "output" else "out")) == content(project.folder / "expected")
    assert letters(project.folder / ("d/dead" if key == "dead" else "dead")) == letters(project.folder / "expected-dead")


@pytest.mark.parametrize("free", [0, 4 * KIB, 8 * KIB, 12 * KIB, 16 * KIB, 40 * KIB])
def test_spool_on_a_full_disk_keeps_what_it_acknowledged(disk: SmallDisk, free: int) -> None:
    like = InputFile("in", "http://127.0.0.1:8081/in", Format.NDJSON)
    folder = disk.folder / "spool"
    folder.mkdir()
    disk.leave(free)
    spool, sent = MessageSpool(like, folder, 1 << 30), 0
    while deliver(spool, [_message(sent)], 0.5):
        sent += 1
    assert "no space left on device (once that is mended, the same command goes on)" in str(spool.failure)
    spool.close()
    disk.empty()
    spool = MessageSpool(like, folder, 1 << 30)
    assert deliver(spool, [_message(10_000)], 10)
    spool.close()
    feed, found = SegmentsFeed(Segments(like, folder)), list[int]()
    while (chunk := feed.read(1_000)) is not None:
        found += [(record.time or 0) // 1_000_000 for record in chunk.records]
    feed.close()
    # the message that was written when the disk was full had no answer: it may be there, once
    assert found in ([*range(sent), 10_000], [*range(sent + 1), 10_000])


def _message(number: int) -> Message:
    return Message(b'{"time": %d, "graph": ""}' % number + b" " * 700, 0)
