"""Tables of Delta and Iceberg, written in a process with a Spark that they are for (`tests.support.older_spark`). What the tables have, and
what was refused, is written as JSON to `found.json` of its folder.

    python -m tests.support.lake_runs delta       # in a folder with the inputs of `write_inputs`
    python -m tests.support.lake_runs iceberg
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final

from dotr.errors.diagnostics import Refused
from dotr.model.stream import Firing
from dotr.runtimes.spark.start.session import start
from dotr.runtimes.spark.tasks.outputs import TableWriter
from dotr.streams.connectors.spark.tables import EVENT_COLUMNS, TableDestination, event_rows
from tests.support import older_spark

OUTPUTS: Final = """  - { spark: { format: delta, table: gold_events } }
  - { spark: { format: delta, table: made } }
  - { spark: { format: delta, path: lake/at_a_path }, events: [Jump] }
"""
DEAD: Final = "{ spark: { format: delta, path: lake/rejected } }"
REFUSED: Final = {
    "missing": ("delta", "nothing.events"),
    "other format": ("parquet", "gold_events"),
    "other columns": ("delta", "other"),
    "no catalog": ("delta", "nowhere.db.events"),
}


def refusal(action: Callable[[], object]) -> list[tuple[str, str, str]]:
    """The codes, messages and hints of what an action refuses."""
    try:
        action()
    except Refused as refused:
        return [(each.code, each.message, each.hint) for each in refused.diagnostics]
    return []


def delta(folder: Path, session: Any) -> Mapping[str, object]:
    """A pipeline into tables of Delta, whose last batch is repeated."""
    from tests.runtimes.spark.test_executor_outputs import of_table, repeat_last_batch, run

    session.sql(f"CREATE TABLE gold_events ({EVENT_COLUMNS}, region STRING) USING delta")
    session.sql("CREATE TABLE other (time TIMESTAMP, rule INT, event STRING, more STRING) USING delta")

    def tables() -> dict[str, object]:
        read = session.read.format("delta").load
        found = {"gold": session.table("gold_events"), "made": session.table("made"), "path": read(str(folder / "lake" / "at_a_path"))}
        rows = {name: sorted(of_table([row.asDict() for row in frame.collect()]).elements()) for name, frame in found.items()}
        return {**rows, "rejected": read(str(folder / "lake" / "rejected")).count()}

    totals = run(folder, "runs", OUTPUTS, DEAD, batch=1000)
    found: dict[str, object] = {"events": totals.events, "letters": sum(totals.dead_letters.values()), "first": tables()}
    repeat_last_batch(folder, "runs")
    run(folder, "runs", OUTPUTS, DEAD, batch=1000)
    found["repeated"] = tables()
    for name, (form, table) in REFUSED.items():
        found[name] = refusal(partial(TableWriter(TableDestination(form, table), "a1").open, session))
    return found


def iceberg(folder: Path, session: Any) -> Mapping[str, object]:
    """Batches of a table of Iceberg, some of which are written again."""
    import pyarrow as pa

    def write(writer: TableWriter, number: int) -> None:
        batch = [Firing(number * 1_000_000, "R", "E", (("n", f'"{each}"'),), (), 0) for each in range(3)]
        writer.write(session.createDataFrame(pa.Table.from_batches([event_rows(batch)])), number)

    def writer(identity: str) -> TableWriter:
        return TableWriter(TableDestination("iceberg", "lake.db.events"), identity)

    first = writer("a1")
    last: list[object] = [first.open(session)]
    for number in (7, 8):
        write(first, number)
    restarted = writer("a1")
    last.append(restarted.open(session))
    for number in (8, 9):
        write(restarted, number)
    other = writer("b2")
    last.append(other.open(session))
    write(other, 8)
    rows = session.sql("SELECT CAST(time AS BIGINT) AS batch, count(*) AS rows FROM lake.db.events GROUP BY 1 ORDER BY 1").collect()
    missing = TableWriter(TableDestination("iceberg", "nowhere.db.events"), "a1")
    return {"last": last, "rows": [list(row) for row in rows], "missing": refusal(lambda: missing.open(session))}


def main(kind: str) -> None:
    """Write `found.json` in the working directory."""
    folder, made = Path.cwd(), {"delta": (older_spark.delta, delta), "iceberg": (older_spark.iceberg, iceberg)}[kind]
    session = start("lake", "local[2]", made[0](folder / "lake" / "catalog"), folder / "spark.log")
    (folder / "found.json").write_text(json.dumps(made[1](folder, session)))


if __name__ == "__main__":
    main(sys.argv[1])
