"""Reasoning over streams of RDF: the DOTR model (Margara, Cugola, Collavini, Dell'Aglio, ESWC
2018).

A stream is a sequence of time-stamped RDF graphs. A `Program` is compiled from rule files and
background knowledge; its `Session` processes the graphs of one instant after the other, and returns
the `Event`s that the rules derive. The command `dotr` (`dotr --help`) runs pipelines over files, in
process or on Spark.

>>> from dotr import Program
>>> program = Program.load(
...     rules="rules/fire.dotr",
...     graphs="kb/building.ttl",
...     datalog="kb/building.dlog",
...     prefixes={"": "http://example.org/building#"},
... )
>>> with program.session() as session:
...     heat = session.advance(10, ":r1 a :Temp ; :has_val 70 ; :is_from_sensor :s1 . :s1 :is_at_location :locA .")
...     [fire] = session.advance(12, ":r2 a :Smoke ; :is_from_sensor :s2 . :s2 :is_at_location :locB .")
>>> fire.time, fire.type, fire.values["room"]
(12, 'Fire', IRI('http://example.org/building#roomA'))

Names are imported at their first use, so that `import dotr` takes little time.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dotr.api.events import IRI as IRI
    from dotr.api.events import Event as Event
    from dotr.api.events import Events as Events
    from dotr.api.frames import frame as frame
    from dotr.api.program import Program as Program
    from dotr.api.session import Session as Session
    from dotr.errors.diagnostics import DotrError as DotrError
    from dotr.evaluation.limits import Limits as Limits
    from dotr.instant.datalog.entailment import Entailment as Entailment
    from dotr.model.time import Unit as Unit

__version__ = "0.1.0"

__all__ = ["IRI", "DotrError", "Entailment", "Event", "Events", "Limits", "Program", "Session", "Unit", "__version__", "frame"]

_MODULES = {
    "DotrError": "dotr.errors.diagnostics",
    "Entailment": "dotr.instant.datalog.entailment",
    "Event": "dotr.api.events",
    "Events": "dotr.api.events",
    "IRI": "dotr.api.events",
    "Limits": "dotr.evaluation.limits",
    "Program": "dotr.api.program",
    "Session": "dotr.api.session",
    "Unit": "dotr.model.time",
    "frame": "dotr.api.frames",
}


def __getattr__(name: str) -> object:
    """Import a public name at its first use."""
    if name in _MODULES:
        value = globals()[name] = getattr(import_module(_MODULES[name]), name)
        return value
    raise AttributeError(f"module 'dotr' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*__all__, *(name for name in globals() if name.startswith("__"))})
