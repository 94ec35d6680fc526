"""Datalog files: text to rules."""

from dotr.languages.datalog.parser import parse_datalog

__all__ = ["parse_datalog"]
