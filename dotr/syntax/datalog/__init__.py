"""Parser of Datalog files (docs/language.md, end)."""

from dotr.syntax.datalog.parser import parse_datalog

__all__ = ["parse_datalog"]
