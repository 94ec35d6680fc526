"""Stored state of a running or stopped query, read by Spark's state data source."""

from __future__ import annotations

import json
from typing import Final

from pyspark.sql import DataFrame, SparkSession

from dotr.runtimes.spark.exchange.names import BUCKET, KEY, LINES, LOG, LOG_NUMBER, PLACE, WRITTEN

OF_VALUE: Final = -1
"""The number of the log of a bucket's stored value, among the rows of its state."""


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

    def rows(self, operator: int, tasks: int) -> DataFrame:
        """All rows of the state of the buckets: `key`, `log`, `place` and `lines`.

        The rows of a bucket are consecutive, in one of `tasks` partitions: first its value, as that
        of the log `OF_VALUE`, then its segments in order.
        """
        found = self.values(operator).selectExpr("key", f"{OF_VALUE} AS log", "CAST(0 AS BIGINT) AS place", "written AS lines")
        segments = self.segments(operator)
        if segments is not None:
            found = found.union(segments)
        return found.repartition(tasks, "key").sortWithinPartitions("key", "log", "place")

    def _read(self, operator: int, variable: str) -> DataFrame:
        reader = self._session.read.format("statestore").option("operatorId", operator).option("stateVarName", variable)
        return reader.load(self._query)
