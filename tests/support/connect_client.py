"""Events over Spark Connect, as a process of its own: a session of Connect and one of this JVM cannot be in one.

    python -m tests.support.connect_client sc://127.0.0.1:PORT FOLDER

Prints the events of a batch and of a stream as JSON: time, room and value of a fire.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

RULE = """PREFIX : <http://e/>
rule Heated "" define Fire = [ [] a :Fire ; :room ?room ]
from Smoke = [ SELECT ?room WHERE { ?s a :Smoke ; :room ?room . ?room :in :house } ]
and last Hot = [ SELECT ?room ?v WHERE { ?t a :Temp ; :room ?room ; :value ?v FILTER(?v > 50 && ?room = Smoke.?room) } ]
  within 5 min from Smoke
with Fire.?room = Smoke.?room, Fire.?v = Hot.?v
"""
SCHEMA = "ts long, kind string, room string, value int"
BATCHES: list[list[tuple[int, str, str, int | None]]] = [
    [(10, "Temp", "a", 70), (12, "Smoke", "a", None), (13, "Smoke", "b", None)],
    [(400, "Temp", "b", 1)],
    [(5, "Temp", "b", 1)],
]


def main(remote: str, folder: Path) -> None:
    """Run both."""
    from pyspark.sql import SparkSession

    from dotr import Program
    from dotr.spark import Background, Stream, attributes_of, events

    session = SparkSession.builder.remote(remote).getOrCreate()
    program = Program.load(text=RULE, prefixes={"": "http://e/"})
    rooms = Background(session.createDataFrame([("a",)], "room string"), map=":{room} :in :house .")

    def told(rows: object) -> list[object]:
        found = events(program, [Stream(rows, time="ts", map="[] a :{kind} ; :room :{room} ; :value {value} ."), rooms])  # type: ignore[arg-type]
        fires = attributes_of(found, program, "Fire")
        shown = fires.selectExpr("unix_seconds(time) as time", "room", "string(v) as v")
        if found.isStreaming:
            query = shown.writeStream.format("parquet").option("path", str(folder / "out"))
            query.option("checkpointLocation", str(folder / "checkpoint")).trigger(availableNow=True).start().awaitTermination()
            shown = session.read.parquet(str(folder / "out"))
        return sorted([list(row) for row in shown.collect()], key=str)

    sys.stdout.write(json.dumps(told(session.createDataFrame([row for rows in BATCHES for row in rows], SCHEMA))) + "\n")
    (folder / "in").mkdir()
    for number, rows in enumerate(BATCHES):
        path = folder / "in" / f"{number}.json"
        path.write_text("".join(json.dumps(dict(zip(("ts", "kind", "room", "value"), row, strict=True))) + "\n" for row in rows))
        os.utime(path, (1_000 + number, 1_000 + number))
    session.conf.set(
        "spark.sql.streaming.stateStore.providerClass", "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    )
    sys.stdout.write(json.dumps(told(session.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).json(str(folder / "in")))) + "\n")
    session.stop()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
