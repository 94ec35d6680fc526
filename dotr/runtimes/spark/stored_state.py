"""State as Spark's reader of state gives it, from the folder of a query that runs or has stopped."""

from __future__ import annotations

import json

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from dotr.runtimes.spark.stored_names import BUCKET, KEY, LINES, LOG, LOG_NUMBER, PLACE, WRITTEN

_SEGMENTS = "array<struct<log:int,place:bigint,lines:binary>>"


class StoredState:
    """A query's state after its last batch. Checkpoints of releases that wrote a bucket as one text have no logs."""

    def __init__(self, session: SparkSession, query: str) -> None:
        self._session = session
        self._query = query
        known = session.read.format("state-metadata").load(query).select("operatorId", "operatorProperties").distinct().collect()
        self._has_logs = {
            row.operatorId: any(each["stateName"] == LOG for each in json.loads(row.operatorProperties)["stateVariables"]) for row in known
        }

    @property
    def operators(self) -> list[int]:
        """The numbers of the operators that there are."""
        return sorted(self._has_logs)

    def values(self, operator: int) -> DataFrame:
        """`key` and `written`, a row a bucket."""
        return self._read(operator, BUCKET).selectExpr(f"key.{KEY} AS key", f"value.{WRITTEN} AS written")

    def segments(self, operator: int) -> DataFrame | None:
        """`key`, `log`, `place` and `lines`, a row a piece."""
        if not self._has_logs[operator]:
            return None
        rows = self._read(operator, LOG)
        columns = f"user_map_key.{LOG_NUMBER} AS log", f"user_map_key.{PLACE} AS place", f"user_map_value.{LINES} AS lines"
        return rows.selectExpr(f"key.{KEY} AS key", *columns)

    def buckets(self, operator: int) -> DataFrame:
        """`key`, `written` and all `pieces`, a row a bucket."""
        values, pieces = self.values(operator), self.segments(operator)
        if pieces is None:
            return values.withColumn("pieces", f.array().cast(_SEGMENTS))
        together = pieces.groupBy("key").agg(f.collect_list(f.struct("log", "place", "lines")).alias("pieces"))
        return values.join(together, "key", "left").selectExpr("key", "written", f"coalesce(pieces, CAST(array() AS {_SEGMENTS})) AS pieces")

    def _read(self, operator: int, variable: str) -> DataFrame:
        reader = self._session.read.format("statestore").option("operatorId", operator).option("stateVarName", variable)
        return reader.load(self._query)
