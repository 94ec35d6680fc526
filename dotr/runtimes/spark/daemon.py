"""Daemon that forks Python workers with dotr imported: `python -m dotr.runtimes.spark.daemon`.

Idea: Spark's daemon forks a worker for each task that runs at a time, and each imports dotr anew.
This one imports it before the first fork, so that all workers share it.
Invariant: nothing that starts threads is imported before a fork, since a thread that holds a lock
would hold it in the worker for ever: no NumPy, no pandas, no Arrow, and not PySpark's own worker,
which imports those as it needs them.
"""

from __future__ import annotations

import gc
from typing import Final

import pyspark
from pyspark.daemon import manager

from dotr.runtimes.spark import pandas_probe

_WITHOUT_PANDAS: Final = (4, 3)
"""The oldest release of PySpark whose stateful operators are known to need no pandas."""


def import_engine() -> None:
    """Import what workers need of dotr, without threads."""
    import dotr.engine.stream_terms
    import dotr.instant.datalog.background.compiled_store
    import dotr.instant.datalog.same_as.closure
    import dotr.runtimes.spark.buckets.operator
    import dotr.runtimes.spark.buckets.worker
    import dotr.runtimes.spark.source
    import dotr.runtimes.spark.tasks.inputs
    import dotr.runtimes.spark.tasks.stage_one_task
    import dotr.streams.formats.csv.rows
    import dotr.streams.formats.csv.text
    import dotr.streams.formats.parquet
    import dotr.streams.formats.rdf.jelly
    import dotr.streams.formats.rdf.jsonld  # noqa: F401
    from dotr.languages.program_json import PROGRAM_CODEC

    PROGRAM_CODEC.type_of("")  # the name of no type: those of all languages are imported
    gc.freeze()  # what is imported stays, and need not be copied by a worker's collections


if __name__ == "__main__":
    import_engine()
    if tuple(map(int, pyspark.__version__.split(".")[:2])) >= _WITHOUT_PANDAS:
        pandas_probe.OWN_WORKERS.append(True)
    manager()
