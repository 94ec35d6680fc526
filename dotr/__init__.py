"""Reasoning over streams of RDF: the DOTR model (Margara, Cugola, Collavini, Dell'Aglio, ESWC 2018)."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dotr.engine.program import Program as Program

__all__ = ["Program"]


def __getattr__(name: str) -> object:
    """`dotr.Program`, imported when it is first asked for: most commands start faster without it."""
    if name == "Program":
        from dotr.engine.program import Program

        return Program
    raise AttributeError(f"module 'dotr' has no attribute {name!r}")
