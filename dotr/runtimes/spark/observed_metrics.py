"""What a batch has done, as observed metrics of the query: they are in the progress that Spark tells every StreamingQueryListener, of
whatever language, under the name `dotr`.

They are read off rows that are there anyhow: a task's COUNTS, of which there are a few a batch, and numbers in a column of the others. How
far the inputs are stands in the same progress, as the offset that the source's batch ends at.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from dotr.runtimes.spark.rows import RowKind

NAME: Final = "dotr"

_COUNTED: Final = {
    "elements": ((RowKind.COUNTS,), "get_json_object(cast(payload AS string), '$[0]')"),
    "instants": ((RowKind.COUNTS,), "get_json_object(cast(payload AS string), '$[1]')"),
    "facts": ((RowKind.COUNTS,), "get_json_object(cast(payload AS string), '$[2]')"),
    "late": ((RowKind.COUNTS,), "get_json_object(cast(payload AS string), '$[4].late')"),
    "events": ((RowKind.FIRINGS, RowKind.RUN), "time"),
    "dead_letters": ((RowKind.DEAD, RowKind.DEAD_RUN), "time"),
    "fallbacks": ((RowKind.FALLBACKS,), "time"),
    "state_bytes_changed": ((RowKind.STATE,), "time"),
}


def with_metrics(rows: DataFrame) -> DataFrame:
    """The query's rows, counted as they pass."""
    return rows.observe(NAME, *[_sum(name, kinds, value) for name, (kinds, value) in _COUNTED.items()])


def _sum(name: str, kinds: Iterable[RowKind], value: str) -> Column:
    listed = ", ".join(str(kind.value) for kind in kinds)
    return F.expr(f"coalesce(sum(CASE WHEN kind IN ({listed}) THEN cast({value} AS bigint) END), 0)").alias(name)
