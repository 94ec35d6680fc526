"""Rules over DataFrames of Spark: elements are rows, and events are rows again (docs/python.md).

>>> from dotr import Program
>>> from dotr.spark import Stream, events
>>> program = Program.from_config("configs/fire.yaml")
>>> def fires(readings: "pyspark.sql.DataFrame") -> "pyspark.sql.DataFrame":
...     stream = Stream(readings, time="ts", map="[] a :Temp ; :has_val {value} .", lateness="30 seconds", name="readings")
...     return events(program, [stream])

Names are imported at their first use, as those of `dotr`.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dotr.runtimes.frames.events import events as events
    from dotr.runtimes.frames.results import attributes_of as attributes_of
    from dotr.runtimes.frames.stream import Background as Background
    from dotr.runtimes.frames.stream import Stream as Stream

__all__ = ["Background", "Stream", "attributes_of", "events"]

_MODULES = {
    "Background": "dotr.runtimes.frames.stream",
    "Stream": "dotr.runtimes.frames.stream",
    "attributes_of": "dotr.runtimes.frames.results",
    "events": "dotr.runtimes.frames.events",
}


def __getattr__(name: str) -> object:
    """Import a public name at its first use."""
    if name in _MODULES:
        value = globals()[name] = getattr(import_module(_MODULES[name]), name)
        return value
    raise AttributeError(f"module 'dotr.spark' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*__all__, *(name for name in globals() if name.startswith("__"))})
