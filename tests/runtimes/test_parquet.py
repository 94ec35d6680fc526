"""Parquet outputs in process: columns, bytes, and files that are complete or absent."""

from __future__ import annotations

import errno
from datetime import UTC, datetime
from pathlib import Path

import pytest

from dotr.model.stream import Firing
from dotr.model.time import Clock
from dotr.streams.sinks import parquet as sink
from dotr.streams.sinks.files import WriteFailed
from dotr.streams.sinks.parquet import ParquetBatch, ParquetFile
from tests.conftest import Project

pytestmark = pytest.mark.core

parquet = pytest.importorskip("pyarrow.parquet")

OPTIONS = ("--set", "output.0.format=parquet", "--set", "output.0.path=out.parquet")


def firing(number: int) -> Firing:
    return Firing(number * 1_000_000, "R", "Out", (("x", f"<http://e/{number}>"),), (("<e:a>", "<e:p>", f'"{number}"'),), 0)


def test_columns_of_integer_times(project: Project) -> None:
    project.write("a.ndjson", '{"time": 1, "graph": ":a a :A . :b a :A ."}\n{"time": 3, "graph": ":c a :A ."}\n')
    project.change("r.dotr", "with Out.?x = A.?x", 'with Out.?x = A.?x, Out.?time = "7"')
    project.change("r.dotr", ":x ?x ]", ":x ?x ; :time ?time ]")
    answer = project.dotr("run", "c.yaml", *OPTIONS)
    assert answer.err == "2 elements, 2 instants, 3 facts, 3 events -> out.parquet\n"
    table = parquet.read_table(project.folder / "out.parquet")
    assert [(field.name, str(field.type)) for field in table.schema] == [
        ("time", "int64"),
        ("rule", "string"),
        ("event", "string"),
        ("graph", "string"),
        ("attribute_time", "string"),
        ("x", "string"),
    ]
    rows = table.to_pylist()
    assert [(row["time"], row["rule"], row["event"], row["attribute_time"], row["x"]) for row in rows] == [
        (1, "R", "Out", "7", "http://e/a"),
        (1, "R", "Out", "7", "http://e/b"),
        (3, "R", "Out", "7", "http://e/c"),
    ]
    assert [line.partition(" ")[2] for line in rows[2]["graph"].splitlines()] == [
        "<http://www.w3.org/1999/02/22-rdf-syntax-ns#type> <http://e/Out> .",
        "<http://e/x> <http://e/c> .",
        '<http://e/time> "7" .',
    ]
    assert {path for path in project.files() if "parquet" in path} == {"out.parquet"}


def test_column_of_date_times(project: Project) -> None:
    project.write("a.ndjson", '{"time": "2024-03-01T10:00:00.5Z", "graph": ":a a :A ."}\n')
    assert project.dotr("run", "c.yaml", *OPTIONS).code == 0
    table = parquet.read_table(project.folder / "out.parquet")
    assert str(table.schema.field("time").type) == "timestamp[us, tz=UTC]"
    assert table.column("time").to_pylist() == [datetime(2024, 3, 1, 10, 0, 0, 500_000, tzinfo=UTC)]


def test_same_bytes_again_and_fresh_removes_an_older_file(project: Project) -> None:
    assert project.dotr("run", "c.yaml", *OPTIONS).code == 0
    first = (project.folder / "out.parquet").read_bytes()
    assert "I201 out.parquet and dead.ndjson are there already" in project.refused("run", "c.yaml", *OPTIONS)
    assert project.dotr("run", "c.yaml", "--fresh", *OPTIONS).code == 0
    assert (project.folder / "out.parquet").read_bytes() == first
    parquet.write_table(parquet.read_table(project.folder / "out.parquet", columns=["rule"]).replace_schema_metadata({}), "out.parquet")
    assert "C207" in project.refused("run", "c.yaml", "--fresh", *OPTIONS)


def test_run_without_events_has_a_table_without_rows(project: Project) -> None:
    project.write("a.ndjson", "")
    assert project.dotr("run", "c.yaml", *OPTIONS).code == 0
    assert parquet.read_table(project.folder / "out.parquet").num_rows == 0


def test_row_groups_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sink, "_ROWS", 10)
    whole, pieces, path = (tmp_path / name for name in ("whole", "pieces", "a.parquet"))
    with ParquetFile(str(whole), Clock(), ["x"]) as file:
        file.write_items([firing(number) for number in range(25)])
    with ParquetFile(str(pieces), Clock(), ["x"]) as file:
        for number in range(25):
            file.write_items([firing(number)])
    groups = parquet.ParquetFile(whole).metadata
    assert [groups.row_group(number).num_rows for number in range(groups.num_row_groups)] == [10, 10, 5]
    assert whole.read_bytes() == pieces.read_bytes()
    monkeypatch.setattr(sink, "_TEXT", 1)
    with ParquetFile(str(path), Clock(), ["x"]) as file:
        file.write_items([firing(1), firing(2)])
    assert parquet.ParquetFile(path).metadata.num_row_groups == 2


def test_file_is_absent_where_it_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.parquet"
    monkeypatch.setattr(sink, "_ROWS", 1)

    def full(*arguments: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    def write() -> None:
        with ParquetFile(str(path), Clock(), ["x"]) as file:
            file.write_items([firing(1)])
            monkeypatch.setattr(sink._ParquetRows, "_write_group", full)
            file.write_items([firing(2)])

    with pytest.raises(WriteFailed, match="no space left"):
        write()
    assert list(tmp_path.iterdir()) == []


def test_batch_is_whole_or_absent(tmp_path: Path) -> None:
    folder = tmp_path / "out"
    with ParquetBatch(str(folder), 3, Clock(), ["x"]) as batch:
        batch.write_items([firing(1)])
        batch.write_items([])
        assert not (folder / "000000000003.parquet").exists()
    first = (folder / "000000000003.parquet").read_bytes()
    assert parquet.read_table(folder / "000000000003.parquet").column("x").to_pylist() == ["http://e/1"]

    def fail() -> None:
        with ParquetBatch(str(folder), 4, Clock(), ["x"]) as batch:
            batch.write_items([firing(1)])
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert not (folder / "000000000004.parquet").exists()
    with ParquetBatch(str(folder), 3, Clock(), ["x"]) as batch:  # again, after a crash
        batch.write_items([firing(1)])
    assert (folder / "000000000003.parquet").read_bytes() == first
    with ParquetBatch(str(folder), 3, Clock(), ["x"]):
        pass
    assert not (folder / "000000000003.parquet").exists()


def test_missing_package_and_unfit_paths_are_refused(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    refused = project.refused("run", "c.yaml", "--set", "output.0.format=parquet", "--set", "output.0.path=/dev/stdout")
    assert "C204 a Parquet output is a file that is read from its end and compressed by itself, and /dev/stdout is none" in refused
    monkeypatch.setattr(sink, "find_spec", lambda name: None)
    refused = project.refused("run", "c.yaml", *OPTIONS)
    assert "I203 out.parquet is to be Parquet, and pyarrow is not installed" in refused
    assert "Run pip install 'dotr[parquet]'." in refused
    assert "out.parquet" not in project.files()


def test_stopped_run_leaves_a_whole_file(project: Project) -> None:
    project.write("a.ndjson", "".join(f'{{"time": {at}, "graph": ":a a :A ."}}\n' for at in range(5)))
    assert project.dotr("run", "c.yaml", "--head", "2", *OPTIONS).code == 0
    assert parquet.read_table(project.folder / "out.parquet").column("time").to_pylist() == [0, 1]
