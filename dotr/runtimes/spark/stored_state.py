"""Stored state of a running or stopped query, read by Spark's state data source."""

from __future__ import annotations

import json

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from dotr.runtimes.spark.stored_names import BUCKET, KEY, LINES, LOG, LOG_NUMBER, PLACE, WRITTEN

_SEGMENTS = "array<struct<log:int,place:bigint,lines:binary>>"


class StoredState:
    """The state of a query after its last batch. Old checkpoints, with each bucket as one text,
    have no logs."""

    def __init__(self, session: SparkSession, query: str) -> None:
        self._session = session
        self._query = query
        known = session.read.format("state-metadata").load(query).select("operatorId", "operatorProperties").distinct().collect()
        self._has_logs = {
            row.operatorId: any(each["stateName"] == LOG for each in json.loads(row.operatorProperties)["stateVariables"]) for row in known
        }

    @property
    def operators(self) -> list[int]:
        """The numbers of the stateful operators."""
        return sorted(self._has_logs)

    def values(self, operator: int) -> DataFrame:
        """One row per bucket: `key` and `written`."""
        return self._read(operator, BUCKET).selectExpr(f"key.{KEY} AS key", f"value.{WRITTEN} AS written")

    def segments(self, operator: int) -> DataFrame | None:
        """One row per segment: `key`, `log`, `place` and `lines`; None where there are no logs."""
        if not self._has_logs[operator]:
            return None
        rows = self._read(operator, LOG)
        columns = f"user_map_key.{LOG_NUMBER} AS log", f"user_map_key.{PLACE} AS place", f"user_map_value.{LINES} AS lines"
        return rows.selectExpr(f"key.{KEY} AS key", *columns)

    def buckets(self, operator: int) -> DataFrame:
        """One row per bucket: `key`, `written` and all its `pieces` (segments)."""
        values, pieces = self.values(operator), self.segments(operator)
        if pieces is None:
            return values.withColumn("pieces", f.array().cast(_SEGMENTS))
        together = pieces.groupBy("key").agg(f.collect_list(f.struct("log", "place", "lines")).alias("pieces"))
        return values.join(together, "key", "left").selectExpr(
            "key", "written", f"coalesce(pieces, CAST(array() AS {_SEGMENTS})) AS pieces"
        )

    def _read(self, operator: int, variable: str) -> DataFrame:
        reader = self._session.read.format("statestore").option("operatorId", operator).option("stateVarName", variable)
        return reader.load(self._query)
