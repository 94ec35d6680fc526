"""Tests of what has changed, as arguments of pytest: `python -m tools.changed_tests [COMMIT]` (`./verify --changed`).

Idea: what a change can break are the modules that import a changed module, over any number of imports, lazy ones too. Their tests are
in the folders of the same names under `tests`, and their examples in the modules. A test outside of these folders is chosen if it imports
such a module itself, also through `tests/support` or a fixture's type; folders of tests that stand for no package (cases, pages, errors)
are chosen whole.
Bound: a test that starts `dotr` as a process, below the packages of its folder, is not found; `./verify` runs all.
Changed files are those that differ from COMMIT (default: where the branch left main), and files that git does not know.
"""

from __future__ import annotations

import ast
import subprocess
import sys
from collections import defaultdict
from collections.abc import Collection, Iterable
from functools import cache
from pathlib import PurePosixPath
from typing import Final

from tests.support.imports import dotted
from tests.support.paths import ROOT

CODE: Final = ("benchmarks", "dotr", "tests", "tools")
ALL: Final = ["dotr", "tests", "tools"]
NO_TESTS: Final = frozenset(("CHANGELOG.md", "LICENSE", ".gitignore", ".editorconfig", ".git-blame-ignore-revs", ".pre-commit-config.yaml"))
EVERYWHERE: Final = frozenset(("conftest.py", "pyproject.toml", "setup.sh", "verify"))
"""Files that each test depends on, and no import shows it; `tests/conftest.py` is imported by the tests that use its types."""


@cache
def modules() -> dict[str, PurePosixPath]:
    """The files of all modules of the repository, by dotted name."""
    found = (PurePosixPath(path.relative_to(ROOT)) for folder in CODE for path in (ROOT / folder).rglob("*.py"))
    return {dotted(file): file for file in found}


@cache
def importers() -> dict[str, set[str]]:
    """The modules that import each module, directly."""
    found: dict[str, set[str]] = defaultdict(set)
    for module, file in modules().items():
        for node in ast.walk(ast.parse((ROOT / file).read_bytes())):
            match node:
                case ast.ImportFrom(module=str(source), names=names):
                    targets = [source, *(f"{source}.{each.name}" for each in names)]
                case ast.Import(names=names):
                    targets = [each.name for each in names]
                case _:
                    continue
            for target in targets:
                if target in modules():
                    found[target].add(module)
    return found


def affected(changed: Iterable[str]) -> set[str]:
    """The modules that import one of these over any number of imports, and these.

    >>> found = affected(["dotr.languages.lars.run"])
    >>> "dotr.api.program" in found, "dotr.temporal.stage_two" in found
    (True, False)
    """
    found: set[str] = set()
    waiting = list(changed)
    while waiting:
        module = waiting.pop()
        if module not in found:
            found.add(module)
            waiting += importers().get(module, ())
    return found


def chosen_tests(files: Collection[str]) -> list[str]:
    """Files and folders for pytest that test these changed files, as paths from the root; none where no test reads what has changed.

    >>> chosen_tests(["docs/lars.md"]), chosen_tests(["pyproject.toml"]), chosen_tests(["CHANGELOG.md"])
    (['tests/docs'], ['dotr', 'tests', 'tools'], [])
    """
    paths = [PurePosixPath(file) for file in files if file not in NO_TESTS]
    if any(str(path) in EVERYWHERE for path in paths):
        return ALL
    by_file = {file: module for module, file in modules().items()}
    reached = affected([by_file[path] for path in paths if path in by_file] + [each for path in paths for each in _readers(path, by_file)])
    files_reached = [modules()[module] for module in reached]
    chosen = {str(file) for file in files_reached if _is_test(file) or str(file.parent) in ("dotr", "tools")}
    # by folder: pytest would take a function `test_…` of a module that is named to it as a test
    chosen |= {str(file.parent) for file in files_reached if file.parts[0] == "dotr"} - {"dotr"}
    tested = {folder for module in reached if module.startswith("dotr.") for folder in modules()[module].parents}
    for file in filter(_is_test, modules().values()):
        mirrored = PurePosixPath("dotr", *file.parent.parts[1:])
        is_mirror = len(mirrored.parts) > 1 and (ROOT / mirrored).is_dir()
        if (mirrored in tested) if is_mirror else bool(tested):
            chosen.add(str(file))
    for path in paths:
        if path not in by_file:
            chosen.add(_folder_of_data(path))
    exist = [PurePosixPath(each) for each in chosen if (ROOT / each).exists()]
    return sorted(str(each) for each in exist if not any(str(above) in chosen for above in each.parents))


def _is_test(file: PurePosixPath) -> bool:
    return file.parts[0] == "tests" and file.name.startswith("test_")


def _readers(path: PurePosixPath, by_file: dict[PurePosixPath, str]) -> list[str]:
    """The modules in the folder of a data file of the package, which may read it."""
    if path in by_file or path.parts[0] != "dotr":
        return []
    return [module for file, module in by_file.items() if path.is_relative_to(file.parent) and file.parent.parts != ("dotr",)]


def _folder_of_data(path: PurePosixPath) -> str:
    """The tests of a file that is no module: its own folder in `tests`, for a page those of pages, else all."""
    match path.parts[0]:
        case "tests":
            return str(path.parent)
        case "docs" | "README.md" | "CONTRIBUTING.md":
            return "tests/docs"
        case _:
            return "tests"


def changed_files(commit: str | None = None) -> list[str]:
    """The files that differ from a commit (None: from where the branch left main), and those that git does not know. Raises
    `CalledProcessError` where git knows no such commit."""

    def git(*arguments: str) -> list[str]:
        return subprocess.run(["git", *arguments], cwd=ROOT, check=True, capture_output=True, text=True).stdout.splitlines()

    since = commit or git("merge-base", "HEAD", "main")[0]
    return sorted({*git("diff", "--name-only", since), *git("ls-files", "--others", "--exclude-standard")})


if __name__ == "__main__":
    sys.stdout.writelines(f"{path}\n" for path in chosen_tests(changed_files(*sys.argv[1:2])))
