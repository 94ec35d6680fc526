"""`dotr check`: every problem of rule files, Datalog files, configurations and rule tests, not only the first."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from dotr.config import existing, read_config, read_document, read_tree
from dotr.diagnostics import Diagnostic, Refused, refuse
from dotr.engine.program import compile_program
from dotr.knowledge.knowledge import check_safety
from dotr.languages.datalog import parse_datalog
from dotr.languages.dotr import compile_rules
from dotr.runtimes.pipeline import check_inputs
from dotr.workbench.rule_tests import check_file

_KINDS: Final = (".dotr", ".dlog", ".yaml", ".yml")


def check(paths: Sequence[str]) -> tuple[list[Diagnostic], int]:
    """The problems in these files, and in the files of these kinds below these folders; and how many files were checked."""
    problems: dict[str, Diagnostic] = {}
    checked = 0
    for path in paths:
        if Path(path).is_dir():
            files = sorted(str(file) for file in Path(path).rglob("*") if file.suffix in _KINDS)
        else:
            try:
                files = existing(path, None)
            except Refused as refused:
                problems.update((str(d), d) for d in refused.diagnostics)
                continue
        for file in files:
            checked += 1
            try:
                found = check_one(file)
            except Refused as refused:
                found = list(refused.diagnostics)
            problems.update((str(d), d) for d in found)
    return list(problems.values()), checked


def check_one(path: str) -> list[Diagnostic]:
    """The problems of one file; may raise them as `Refused` instead."""
    match Path(path).suffix:
        case ".dotr":
            return list(compile_rules([read_document(path)], {}).diagnostics)
        case ".dlog":
            return [problem for rule in parse_datalog(read_document(path), {}) for problem in check_safety(rule)]
        case ".yaml" | ".yml":
            data = read_tree(read_document(path)).data
            if isinstance(data, dict) and "cases" in data:
                return check_file(path)
            config = read_config(path)
            problems: list[Diagnostic] = []
            try:
                problems += compile_program(config.program()).warnings
            except Refused as refused:
                problems += refused.diagnostics
            return problems + check_inputs(config)
        case _:
            raise refuse("C303", f"{path} is nothing that dotr checks", None, f"It checks {', '.join(_KINDS)}.")
