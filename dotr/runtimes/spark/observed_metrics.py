"""Observed metrics of the query, named `dotr`: figures of a batch in the progress that every
StreamingQueryListener of any language receives.

They are aggregated from existing rows: COUNTS, of which a batch has a few, and numbers in the
columns of others. The position in the inputs is in the same progress, as the end offset of the
source.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from dotr.runtimes.spark.exchange.rows import RowKind

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
    """The query's rows, with metrics observed on them."""
    return rows.observe(NAME, *[_sum(name, kinds, value) for name, (kinds, value) in _COUNTED.items()])


def _sum(name: str, kinds: Iterable[RowKind], value: str) -> Column:
    listed = ", ".join(str(kind.value) for kind in kinds)
    return F.expr(f"coalesce(sum(CASE WHEN kind IN ({listed}) THEN cast({value} AS bigint) END), 0)").alias(name)
