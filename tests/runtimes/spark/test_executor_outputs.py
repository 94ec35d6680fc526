"""Outputs that executors write: tables and files of tasks have the events of a run in process, also where a batch is written again."""

from __future__ import annotations

import json
import os
import shutil
from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import pytest

from dotr.commands import main
from dotr.errors.diagnostics import Refused
from dotr.runtimes.local.run import run_local
from dotr.runtimes.monitoring.totals import Totals
from dotr.runtimes.pipeline.build import Pipeline, build
from dotr.runtimes.pipeline.config import read_config
from tests.runtimes.frames import test_run
from tests.runtimes.spark.test_spark_run import write_inputs
from tests.support.kafka_broker import Broker
from tests.support.outputs import joined

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("spark")]

INPUTS: Final = """
name: jumps
prefixes: {{ "": "http://e/" }}
knowledge: {{ graphs: [rooms.ttl] }}
rules: [{rules}]
input:
  - {{ name: sorted, format: ndjson, path: a*.ndjson }}
  - {{ name: loose, format: ndjson, path: b.ndjson, lateness: 4 s }}
output:
{outputs}
dead_letter: {dead}
spark: {{ master: "local[2]", checkpoint: {out}/checkpoint, batch: {batch} }}
"""
LOCAL: Final = "  - { path: local/jumps.ndjson }\n  - { format: trig, path: local/jumps.trig }\n"
STATELESS: Final = """
PREFIX : <http://e/>
rule High define High = [ [] :high ?room ; :value ?v ]
from Reading = [ SELECT ?room ?v WHERE { ?r :room ?room ; :value ?v } ]
if Reading.?v > 60
with High.?room = Reading.?room, High.?v = Reading.?v
"""


def pipeline(
    folder: Path, out: str, outputs: str, dead: str, *, rules: str = "jumps.dotr", batch: int = 150, on_spark: bool = True
) -> Pipeline:
    config = folder / f"{out}.yaml"
    config.write_text(INPUTS.format(out=out, outputs=outputs, dead=dead, rules=rules, batch=batch))
    return build(read_config(os.path.relpath(config)), fresh=False, on_spark=on_spark)


def run(folder: Path, out: str, outputs: str, dead: str, **others: Any) -> Totals:
    from dotr.runtimes.spark.run import run_spark

    return run_spark(pipeline(folder, out, outputs, dead, **others), lambda totals: None)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("jumps")
    write_inputs(folder)
    (folder / "high.dotr").write_text(STATELESS)
    for rules in ("jumps", "high"):
        local = LOCAL.replace("local/", f"{rules}/")
        run_local(pipeline(folder, rules, local, f"{rules}/rejected.ndjson", rules=f"{rules}.dotr", on_spark=False), lambda totals: None)
    return folder


def lines(files: Iterable[Path]) -> list[Any]:
    return [json.loads(line) for file in files for line in file.read_text().splitlines()]


def session() -> Any:
    from pyspark.sql import SparkSession

    return SparkSession.builder.getOrCreate()  # that of this process: a thread of another test may have been the active one's


def in_process(folder: Path, rules: str = "jumps") -> Counter[str]:
    """The events of the run in process, as rows of a table."""
    return Counter(
        json.dumps([each["time"], each["rule"], each["event"], each["attributes"], each["graph"]], sort_keys=True)
        for each in lines([folder / rules / "jumps.ndjson"])
    )


def of_table(rows: Iterable[Mapping[str, Any]]) -> Counter[str]:
    """The rows of a table, with times in seconds."""
    return Counter(
        json.dumps([seconds(row["time"]), row["rule"], row["event"], dict(row["attributes"]), row["graph"]], sort_keys=True) for row in rows
    )


def seconds(time: datetime) -> int:
    return int(time.replace(tzinfo=time.tzinfo or UTC).timestamp())


def letters(folder: Path, rules: str = "jumps") -> Counter[tuple[object, ...]]:
    return Counter(
        (each["time"], each["reason"], each["error"], each["input"], each["text"]) for each in lines([folder / rules / "rejected.ndjson"])
    )


def letter_of(row: Mapping[str, Any]) -> tuple[object, ...]:
    return row["time"] and seconds(row["time"]), row["reason"], row["error"], row["input"], row["record"]


def read(path: Path, form: str = "parquet") -> list[dict[str, Any]]:
    return [row.asDict() for row in session().read.format(form).load(str(path)).collect()]


def repeat_last_batch(folder: Path, out: str) -> None:
    """Takes the commit of the last batch back, as a run has it that was killed before it."""
    commits = folder / out / "checkpoint" / "query" / "commits"
    last = max((each for each in commits.iterdir() if each.name.isdigit()), key=lambda each: int(each.name))
    last.unlink()
    (commits / f".{last.name}.crc").unlink(missing_ok=True)


def files(folder: Path) -> dict[str, bytes]:
    return {each.name: each.read_bytes() for each in sorted(folder.iterdir())}


class TestTables:
    def test_table_of_files_has_the_events_once(self, folder: Path) -> None:
        outputs = "  - { spark: { format: parquet, path: tables/events } }\n"
        dead = "{ spark: { format: parquet, path: tables/rejected } }"
        totals = run(folder, "tables", outputs, dead)
        found = read(folder / "tables" / "events")
        assert of_table(found) == in_process(folder)
        assert totals.events == len(found) > 20
        assert len({row["batch"] for row in found}) > 2  # a folder a batch
        rejected = read(folder / "tables" / "rejected")
        assert Counter(map(letter_of, rejected)) == letters(folder)
        assert sum(totals.dead_letters.values()) == len(rejected) > 10
        repeat_last_batch(folder, "tables")
        run(folder, "tables", outputs, dead)
        assert of_table(read(folder / "tables" / "events")) == in_process(folder)
        assert len(read(folder / "tables" / "rejected")) == len(rejected)

    def test_table_that_is_not_there_is_made(self, folder: Path) -> None:
        session().sql(f"CREATE SCHEMA made LOCATION '{folder}/made-schema'")
        outputs, dead = "  - { spark: { format: orc, table: made.events } }\n", "{ spark: { format: orc, table: made.rejected } }"
        try:
            run(folder, "made", outputs, dead)
            assert of_table([row.asDict() for row in session().table("made.events").collect()]) == in_process(folder)
            assert Counter(letter_of(row.asDict()) for row in session().table("made.rejected").collect()) == letters(folder)
            session().sql("DROP SCHEMA made CASCADE")  # as a catalog in memory ends
            session().sql(f"CREATE SCHEMA made LOCATION '{folder}/made-schema'")
            (folder / "made-schema" / "events").mkdir(parents=True)
            (folder / "made-schema" / "events" / "part-0.orc").write_bytes(b"")
            with pytest.raises(Refused, match=r"S175.* table made\.events is not in the catalog, and its files are there"):
                run(folder, "made", outputs, dead)
        finally:
            session().sql("DROP SCHEMA made CASCADE")


class TestFilesOfTasks:
    @pytest.mark.parametrize("rules", ["jumps", "high"])
    def test_files_of_tasks_have_the_events_in_order(self, folder: Path, rules: str) -> None:
        out = f"files-{rules}"
        outputs = f"  - {{ path: {out}/ndjson, by: executors }}\n  - {{ format: trig, path: {out}/trig, by: executors }}\n"
        outputs += f"  - {{ format: parquet, path: {out}/parquet, by: executors }}\n  - {{ path: {out}/driver }}\n"
        totals = run(folder, out, outputs, f"{out}/rejected", rules=f"{rules}.dotr")
        here = folder / out
        assert len({each.name[:12] for each in (here / "ndjson").iterdir()}) > 2
        assert any(each.name.endswith("-00001.ndjson") for each in (here / "ndjson").iterdir())
        for each in (here / "ndjson").iterdir():
            times = [line["time"] for line in lines([each])]
            assert times == sorted(times)
        told = (folder / rules / "jumps.ndjson").read_text().splitlines()
        assert sorted(joined(sorted((here / "ndjson").iterdir())).splitlines()) == sorted(told)
        assert joined(sorted((here / "driver").iterdir())).splitlines() == told
        assert totals.events == len(told) == len(read(here / "parquet"))
        before = {name: files(here / name) for name in ("ndjson", "trig", "parquet", "driver")}
        repeat_last_batch(folder, out)
        last = max(before["ndjson"])[:12]
        shutil.copy(here / "ndjson" / max(before["ndjson"]), here / "ndjson" / f"{last}-00077.ndjson")  # of a task that is no more
        run(folder, out, outputs, f"{out}/rejected", rules=f"{rules}.dotr")
        assert {name: files(here / name) for name in before} == before


class TestRefused:
    @pytest.mark.parametrize(
        ("output", "code", "message"),
        [
            (
                "{ spark: { format: parquet, table: gold.events } }",
                "S175",
                "table gold.events is not there and cannot be made: [SCHEMA_NOT_FOUND]",
            ),
            ("{ spark: { format: nothing, table: no_table } }", "S176", "is of the format nothing, which this Spark does not have"),
            ("{ spark: { format: parquet, path: 's3a://lake/x' } }", "S179", "as Spark has no file system for its URL: "),
            ("{ spark: { format: nothing, path: refused/x } }", "S176", "is of the format nothing, which this Spark does not have"),
            ("{ spark: { format: jdbc, table: e, options: { url: 'jdbc:nothing:x' } } }", "S176", "is of the format jdbc"),
        ],
    )
    def test_table_that_cannot_be_written_is_refused_at_the_start(self, folder: Path, output: str, code: str, message: str) -> None:
        with pytest.raises(Refused) as refused:
            run(folder, "refused", f"  - {output}\n", "refused/rejected")
        (diagnostic,) = refused.value.diagnostics
        assert diagnostic.code == code
        assert message in diagnostic.message
        assert diagnostic.hint
        assert diagnostic.span is not None
        shutil.rmtree(folder / "refused", ignore_errors=True)


class TestDatabases:
    def test_rows_of_a_database_hold_attributes_as_text(self, folder: Path) -> None:
        url, driver = f"jdbc:derby:{folder}/database;create=true", session()._jvm.java.sql.DriverManager
        columns = "time TIMESTAMP, rule VARCHAR(99), event VARCHAR(99), attributes CLOB, graph CLOB"
        driver.getConnection(url).createStatement().execute(f"CREATE TABLE fires ({columns})")
        output = "".join(f"  - {{ spark: {{ format: jdbc, table: {name}, options: {{ url: '{url}' }} }} }}\n" for name in ("FIRES", "MADE"))
        run(folder, "database-runs", output, "database-runs/rejected")
        for name in ("FIRES", "MADE"):
            found = session().read.format("jdbc").options(url=url, dbtable=name).load().collect()
            rows = [{key.lower(): value for key, value in row.asDict().items()} for row in found]
            assert of_table({**row, "attributes": json.loads(row["attributes"])} for row in rows) == in_process(folder)


class TestInputsOfSpark:
    @pytest.mark.parametrize("source", [test_run.BATCH, test_run.STREAM])
    def test_tables_are_made_of_tables(self, tmp_path: Path, source: str) -> None:
        test_run.write_rows(tmp_path, "1.parquet", [*range(30), None])
        path = Path(test_run.config(tmp_path, source, "out"))
        text = path.read_text().replace("[{ path: out }]", "[{ spark: { format: parquet, path: out } }]")
        path.write_text(text.replace("dead_letter: dead-out", "dead_letter: { spark: { format: parquet, path: dead-out } }"))
        assert main(["run", str(path), "--quiet"]) == 0
        found, told = read(tmp_path / "out"), test_run.in_process(tmp_path)
        if source == test_run.STREAM:  # the last instants are open
            told = told[: len(found)]
        assert len(found) > 10
        assert sorted(row["graph"] for row in found) == sorted(each["graph"] for each in told)
        assert {tuple(sorted(row["attributes"].items())) for row in found} == {tuple(sorted(each["attributes"].items())) for each in told}
        assert [(row["reason"], row["error"], row["time"]) for row in read(tmp_path / "dead-out")] == [
            ("unreadable", "its time is NULL or out of range", None)
        ]


@pytest.mark.kafka
@pytest.mark.parametrize("rules", ["jumps", "high"])
def test_messages_of_tasks_have_ids_of_their_own(folder: Path, kafka: Broker, rules: str) -> None:
    topic = kafka.topic(partitions=2)
    section = f'{{ bootstrap.servers: "{kafka.servers}", topic: {topic} }}'
    totals = run(folder, f"sent-{rules}", f"  - {{ kafka: {section}, by: executors }}\n", f"sent-{rules}/rejected", rules=f"{rules}.dotr")
    sent = kafka.consume(topic)
    assert sorted(each.value.decode() for each in sent if each.value) == sorted((folder / rules / "jumps.ndjson").read_text().splitlines())
    ids = {dict(each.headers)["dotr-id"].decode() for each in sent}
    assert len(ids) == totals.events == len(sent)
    assert {each.partition("/")[0].rpartition("-")[0] for each in ids} == ({"jumps"} if rules == "jumps" else {""})
