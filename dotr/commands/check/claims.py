"""The programs that a file of rules or Datalog is a part of: those of the configurations, else the
rule tests, of its workspace that name it.

The workspace of a folder is the working directory where the folder lies in it, else the folder
itself. Hidden folders, virtual environments and those of package managers are not entered.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from dotr.commands.test.files import is_test, read_file
from dotr.engine.spec import ProgramSpec
from dotr.errors.diagnostics import Diagnostic, Refused
from dotr.runtimes.pipeline.config import read_config, read_document
from dotr.syntax.yaml import read_tree

YAML: Final = (".yaml", ".yml")
_NOT_ENTERED: Final = frozenset(["__pycache__", "node_modules"])


@dataclass(frozen=True, slots=True)
class Claimants:
    """The YAML files of a workspace that name certain files.

    - `paths`: those whose programs have the files.
    - `problems`: of configurations that name one of the files and cannot be read, where no other
      file names it.
    """

    paths: tuple[str, ...] = ()
    problems: tuple[Diagnostic, ...] = ()


def files_in(folder: str, endings: Sequence[str]) -> Iterator[str]:
    """The files below a folder with one of the endings of names, without those of folders that are
    not entered."""
    for place, folders, names in os.walk(folder):
        folders[:] = sorted(
            name
            for name in folders
            if not name.startswith(".") and name not in _NOT_ENTERED and not os.path.exists(os.path.join(place, name, "pyvenv.cfg"))
        )
        yield from (os.path.normpath(os.path.join(place, name)) for name in sorted(names) if Path(name).suffix in endings)


def claimed_files(spec: ProgramSpec) -> frozenset[str]:
    """The real paths of a program's files of rules and Datalog."""
    return frozenset(os.path.realpath(document.name) for document in (*spec.rules, *spec.datalog))


def claimants(folders: Sequence[str], files: Collection[str], known: Collection[str]) -> Claimants:
    """The configurations of the workspaces of folders that name any of some files, and for the
    files that none names, the rule tests.

    Args:
        folders: the folders that are checked.
        files: the real paths of files below them.
        known: the real paths of YAML files that are left out, since they are checked anyway.
    """
    unclaimed = set(files)
    documents = [
        path
        for root in dict.fromkeys(map(_workspace, folders))
        for path in files_in(root, YAML)
        if os.path.realpath(path) not in known and _may_name_files(path)
    ]
    found: dict[str, None] = {}
    unreadable: list[tuple[Refused, str]] = []
    for tests in (False, True):
        left = set(unclaimed)
        for path in documents if left else ():
            try:
                if is_test(read_tree(read_document(path)).data) is not tests:
                    continue
                spec = read_file(path)[0].spec if tests else read_config(path).spec()[0]
            except Refused as refused:
                unreadable += [(refused, path)] if not tests else []
                continue
            if own := claimed_files(spec) & left:
                found.setdefault(path)
                unclaimed -= own
    names = [os.path.basename(file) for file in unclaimed]
    problems = [
        each for refused, path in unreadable if any(name in Path(path).read_text("utf-8") for name in names) for each in refused.diagnostics
    ]
    return Claimants(tuple(found), tuple(problems))


def _workspace(folder: str) -> str:
    here, path = os.getcwd(), os.path.realpath(folder)
    is_inside = here != os.sep and os.path.commonpath([os.path.realpath(here), path]) == os.path.realpath(here)
    return "." if is_inside else folder


def _may_name_files(path: str) -> bool:
    """True of a YAML file with keys of a configuration or a rule test, so that it may name
    files."""
    try:
        text = Path(path).read_text(encoding="utf-8-sig")
    except (OSError, ValueError):
        return False
    return ("input" in text or "cases" in text) and ("rules" in text or "config" in text)
