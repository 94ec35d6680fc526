"""A checkpoint at a URL, without Spark: its description, its lease, its damage and its removal, on a server of objects."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from operator import attrgetter
from pathlib import Path

import pytest

pytest.importorskip("pyspark")

from dotr.errors.diagnostics import Refused
from dotr.evaluation.files import lease
from dotr.evaluation.files.caches import scratch_folder
from dotr.evaluation.files.stores import Location, configure_storage
from dotr.model.stream import Firing
from dotr.runtimes.pipeline.output_files import OutputLocks, Target, holder_of, lock_file, remove
from dotr.runtimes.spark.checkpoint.damage import check_logs, failure_in
from dotr.runtimes.spark.checkpoint.folder import Checkpoint, last_number
from dotr.runtimes.spark.exchange.job import Job
from dotr.runtimes.spark.exchange.positions import Offset
from dotr.runtimes.spark.exchange.rows import RowKind
from dotr.runtimes.spark.exchange.spilled_rows import FIRINGS, MergedRuns, SpillBuffer, remove_runs, run_folder, run_place
from tests.runtimes.spark.test_checkpoint_damage import LAYOUT
from tests.support.object_server import S3

FIRST_OFFSET = f'v1\n{{"batchWatermarkMs":0,"batchTimestampMs":1700000000500}}\n{Offset(5_000_000, ()).to_text()}'


@pytest.fixture
def home(s3: S3, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Location]:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    configure_storage(s3.settings())
    yield Location(f"s3a://{s3.bucket()}/checkpoints/fires")
    configure_storage({})


def opened(home: Location) -> Checkpoint:
    found = Checkpoint(str(home))
    found.claim(LAYOUT)
    return found


def keys(home: Location) -> list[str]:
    return [str(each.location)[len(str(home)) + 1 :] for each in home.list(recursive=True)]


def test_description_is_put_where_it_is_unchanged(home: Location) -> None:
    found = opened(home)
    found.create()
    assert keys(home) == ["dotr.json"]
    assert found.log == scratch_folder(str(home)) / "spark.log"
    other = Checkpoint(str(home))
    assert other.layout == LAYOUT
    found.switch(replace(LAYOUT, first=9))
    with pytest.raises(Refused, match="S185 another run has changed the checkpoint s3a://"):
        other.switch(replace(LAYOUT, first=10))
    assert Checkpoint(str(home)).layout == replace(LAYOUT, first=9)


def test_two_runs_do_not_both_make_it(home: Location) -> None:
    one, other = Checkpoint(str(home)), Checkpoint(str(home))
    one.claim(LAYOUT)
    with pytest.raises(Refused, match="S185"):
        other.claim(replace(LAYOUT, pipeline="q"))


def test_batches_are_read_from_the_logs_of_spark(home: Location) -> None:
    query = home / "query-2"
    opened(home)
    for name, text in (("offsets/0", FIRST_OFFSET), ("offsets/1", FIRST_OFFSET), ("commits/0", "v1\n{}"), ("metadata", '{"id":"x"}')):
        (query / name).put(text.encode())
    found = Checkpoint(str(home))
    assert (found.committed_batch(), found.planned_batch) == (0, 1)
    position = found.offset()
    assert position is not None
    assert position.time == 5_000_000
    assert found.written_at() == 1_700_000_000.5
    found.check()
    (query / "offsets/1").put(b"v1")
    with pytest.raises(Refused, match=r"S114 .*/query-2/offsets/1 is cut or is no such log\nIts batch is not written yet\. Remove s3a://"):
        found.check()
    (query / "offsets/1").remove()
    (query / "metadata").remove()
    with pytest.raises(Refused, match=r"query-2/metadata is missing\nIt holds an id and no more: write \{.*\} into s3a://"):
        check_logs(query)
    assert last_number(home / "none") is None


def test_file_that_spark_misses_is_named(home: Location) -> None:
    query = home / "query"
    missing = f"java.io.FileNotFoundException: No such file or directory: {query}/state/0/1/2.changelog"
    assert "query/state/0/1/2.changelog is missing" in str(failure_in(query, missing, Path("spark.log")))
    (query / "state/0/1/2.changelog").put(b"x")
    assert str(failure_in(query, missing, Path("spark.log"))).startswith("Spark stopped: FileNotFoundException: No such file")


def test_logs_without_a_description_are_refused(home: Location) -> None:
    (home / "query" / "metadata").put(b"{}")
    with pytest.raises(Refused, match=r"S102 .* there is no dotr\.json in it"):
        Checkpoint(str(home))


def test_store_that_is_not_reached_is_told(home: Location) -> None:
    with pytest.raises(Refused, match=r"S104 the checkpoint s3a://no-such-lake/fires cannot be reached: .*bucket"):
        Checkpoint("s3a://no-such-lake/fires")
    with pytest.raises(Refused, match=r"S104 the checkpoint ftp://lake/fires cannot be reached: no store has the scheme ftp"):
        Checkpoint("ftp://lake/fires")
    (problem,) = OutputLocks().acquire((Target("checkpoint", "s3a://no-such-lake/fires", checkpoint=True),), "p")
    assert problem.code == "S104"


def test_fresh_removes_what_a_run_made_and_no_more(home: Location) -> None:
    target = Target("checkpoint", str(home), checkpoint=True)
    opened(home)
    for name in ("query/offsets/0", "query-1/state/0/0/1.zip", "moved-1/0-0.json", "waiting/x.json", "progress.json", "lease.json"):
        (home / name).put(b"x")
    (home / "photos" / "a.jpg").put(b"x")
    with pytest.raises(Refused, match=r"C207 .*it was not made by a run \(it holds photos\)"):
        remove((target,))
    assert "dotr.json" in keys(home)
    (home / "photos").remove_below()
    remove((target,))
    assert keys(home) == ["lease.json"]
    (home / "query" / "offsets" / "0").put(b"x")
    with pytest.raises(Refused, match=r"there is no dotr\.json in it"):
        remove((target,))


def test_lease_keeps_a_second_run_out(home: Location, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of this machine by the lock file, of another one by the object; a killed run of this machine is known to be dead."""
    monkeypatch.setattr(lease, "_RENEWED_EVERY", 0.1)
    monkeypatch.setattr(lease, "_LOOKED_EVERY", 0.1)
    target = Target("checkpoint", str(home), checkpoint=True)
    lines: list[str] = []
    first, second = OutputLocks(), OutputLocks(lines.append)
    assert first.acquire((target,), "fires") == []
    (problem,) = second.acquire((target,), "fires")
    assert (problem.code, lines) == ("C216", [])
    found = holder_of(target)
    assert found is not None
    assert found.is_here
    lock_file(target).unlink()  # as on another machine
    (problem,) = second.acquire((target,), "fires")
    assert problem.message.startswith(f"another run is writing to {home}: pipeline fires, process ")
    assert [line.partition(", which")[0] for line in lines] == [f"{home} has a lease of the {found}"]
    first.confirm()
    first.release()
    assert keys(home) == []
    assert holder_of(target) is None

    killed = OutputLocks()
    assert killed.acquire((target,), "fires") == []
    (holder,) = killed._leases.values()
    holder._ended.set()
    holder._thread.join()
    left = lock_file(target).read_bytes()
    lock_file(target).unlink()
    lock_file(target).write_bytes(left)  # which no process has locked
    assert second.acquire((target,), "fires") == []
    assert len(lines) == 1, "nothing is waited for"
    with pytest.raises(Refused, match=r"S185 the lease of s3a://.* was taken over by another run"):
        killed.confirm()
    second.release()
    assert keys(home) == []


def test_sorted_runs_are_objects(home: Location) -> None:
    job = Job("{}", (), (), "SECOND", False, 1, 1, 1, 1000, 2, str(home / "query"), scratch="/tmp/x")
    assert Job.from_json(job.to_json()) == job
    firings = [Firing(time, "R", "E", (), (), 0) for time in (5, 3, 4, 1, 2)]
    buffer = SpillBuffer(FIRINGS, job, run=2)
    for firing in firings:
        buffer.add([firing], 1)
    places = [run_place(row.payload) for row in buffer.rows(-1) if row.kind == RowKind.RUN]
    assert len(places) == len(keys(home)) == 3
    merged = MergedRuns(FIRINGS, [], places, fan_in=2)
    assert list(merged) == list(merged) == sorted(firings, key=attrgetter("time"))
    assert all(isinstance(place, Location) for place in places)
    remove_runs(run_folder(job))
    assert keys(home) == []


def test_totals_are_kept_there(home: Location) -> None:
    from dotr.runtimes.monitoring.totals import Totals
    from dotr.runtimes.spark.checkpoint.figures import StoredTotals, read_totals, write_totals

    assert read_totals(home) is None
    kept = StoredTotals().with_batch(0, Totals(elements=2), [])
    write_totals(home, kept)
    assert read_totals(home) == kept
    assert json.loads((home / "progress.json").read())["batch"] == 0
