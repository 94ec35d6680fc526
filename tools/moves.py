"""The move of all files into the folders of `tools/moves.toml`: `python tools/moves.py`, in a clean work tree.

Idea: a file keeps its text, but for the places that name a moved file: imports (in examples, strings and pages too), dotted names
`dotr.a.b`, in prose also `a.b`, and paths `dotr/a/b.py` or `a/b.py`. A name has as many leading parts as there is a moved module for;
names that a removed `__init__` passes on are imported from their own module. Lines of docstrings are broken again.
Table: `files` has a row for each module, `folders` the folder of anything else and of names in prose, `rooms` the sentence of each new
folder, `edits` texts that no rule can find. A new module without a row moves with its neighbours if these have one folder in common;
otherwise the script names it and changes nothing.
The result is staged, and no commit is made. A branch that began before the move runs the script on itself, and is merged then.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path, PurePosixPath
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[1]
TABLE: Final = Path(__file__).with_suffix(".toml")
GONE: Final = "-"
_LONGEST: Final = 100
_UNTOUCHED: Final = (
    "CHANGELOG.md",
    "tools/moves.py",
    "tools/moves.toml",
    "tests/checkpoints/",
    "benchmarks/results/profile/",
)
_TEXTS: Final = (".py", ".md", ".toml", ".yaml", ".yml", ".json", ".ipynb", ".txt", ".sh", ".tsv", "")
_NAMES: Final = r"(?:dotr|tests|benchmarks)"
_IMPORT: Final = re.compile(
    rf"(?P<start>^[ \t]*(?:>>> |\.\.\. )?)?(?:\b|(?<=\\n))from (?P<module>{_NAMES}(?:\.\w+)*) import "
    r"(?P<names>\([^()]*\)|\w+(?: as \w+)?(?:, \w+(?: as \w+)?)*)(?P<end>[ \t]*(?:#[^\n]*)?$)?",
    re.MULTILINE,
)
_DOTTED: Final = re.compile(rf"(?<![\w./-]){_NAMES}(?:\.\w+)+")
_PATH: Final = re.compile(r"(?<![\w.-])(?<![\w.]/)(?:\.\./)*(?:dotr|tests)(?:/[\w.-]*\w)+/?")
_SHORT_PATH: Final = re.compile(r"(?<![\w./-])\w+(?:/\w+)+\.(?:py|dlog|json)\b")
_SHORT_NAME: Final = re.compile(r"(?<=`)\w+(?:\.\w+)+(?=`)")

_OWN_NAME: Final = re.compile(r"(?<=`)\w+(?=`)")


class Moves:
    """The places of all files before and after.

    - `files`: the new path of each file; `GONE` for an `__init__` that only passes names on.
    - `folders`: the new folder of a folder's other files, both with a slash at the end.
    - `modules`: the new dotted name of each module.
    - `renamed`: the new dotted name of each module whose own name changes, by that name, if it has a `_` and is the only one.
    - `passed_on`: for each removed `__init__`, the module and the name behind each of its names.
    """

    def __init__(self, table: Mapping[str, Mapping[str, str]], files: Iterable[str]) -> None:
        self.folders = table["folders"]
        rows = {f"dotr/{old}": (new if new == GONE else f"dotr/{new}".replace("dotr/../", "")) for old, new in table["files"].items()}
        rows |= table["tests"]
        self.files: dict[str, str] = {}
        self.unknown: list[str] = []
        for path in files:
            new = rows.get(path) or self._beside(path, rows)
            if new is None:
                self.unknown.append(path)
            else:
                self.files[path] = new
        self.modules = {_dotted(old): _dotted(new) for old, new in self.files.items() if old.endswith(".py") and new != GONE}
        self.packages = {_dotted(old[:-1]): _dotted(new[:-1]) for old, new in self.folders.items()}
        self.renamed = {}
        stems = Counter(old.rpartition(".")[2] for old in self.modules)
        for old, new in self.modules.items():
            stem = old.rpartition(".")[2]
            if "_" in stem and stems[stem] == 1 and stem != new.rpartition(".")[2] and old.startswith("dotr."):
                self.renamed[stem] = new
        self.passed_on = {_dotted(old): _passed_on(ROOT / old) for old, new in self.files.items() if new == GONE}

    def _beside(self, path: str, rows: Mapping[str, str]) -> str | None:
        """The place of a file without a row: its folder's, if it has one; None if that is a choice."""
        folder, _, name = path.rpartition("/")
        if path.endswith("/__init__.py") and path.startswith("dotr/"):  # a sentence: each new folder has one of its own
            return path if _is_room(folder, rows) else GONE
        if path.startswith("dotr/") and path.endswith(".py") and folder != "dotr":
            places = {rows[each].rpartition("/")[0] for each in rows if each.rpartition("/")[0] == folder and rows[each] != GONE}
            return f"{places.pop()}/{name}" if len(places) == 1 else None
        return self.moved_folder(path) or path

    def moved_folder(self, path: str) -> str | None:
        """The new path of what has no row of its own, by its longest folder that has one."""
        below = ""
        while path:
            if path in self.folders:
                return self.folders[path] + below
            head, slash, tail = path.rstrip("/").rpartition("/")
            below = tail + path[len(path.rstrip("/")) :] + below
            path = head + slash
        return None

    def dotted(self, name: str) -> str:
        """The new form of a dotted name, which may go on behind the module."""
        parts = name.split(".")
        for length in range(len(parts), 1, -1):
            module, rest = ".".join(parts[:length]), parts[length:]
            if module in self.passed_on and rest and rest[0] in self.passed_on[module]:
                where, own = self.passed_on[module][rest[0]]
                return ".".join([self.modules.get(where, where), own, *rest[1:]])
            if module in self.packages and (length == len(parts) or module not in self.modules):
                return ".".join([self.packages[module], *rest])
            if module in self.modules:
                return ".".join([self.modules[module], *rest])
        return name

    def imported(self, module: str, name: str) -> tuple[str, str]:
        """The new module and name of an imported name; a module that has another name now is imported `as` before."""
        if f"{module}.{name}" in self.modules:
            package, _, own = self.modules[f"{module}.{name}"].rpartition(".")
            return package, own
        if module in self.passed_on and name in self.passed_on[module]:
            where, own = self.passed_on[module][name]
            return self.modules.get(where, where), own
        return self.modules.get(module, module), name

    def path(self, path: str) -> str:
        """The new form of a path in a text: of a file, of a module without its ending, or of a folder."""
        for ending in ("", ".py"):
            if (new := self.files.get(path + ending, GONE)) != GONE:
                return new.removesuffix(ending) if ending else new
        slash = "" if path.endswith("/") else "/"
        new = self.moved_folder(path + slash) or path + slash
        return new.removesuffix(slash) if slash else new


def _is_room(folder: str, rows: Mapping[str, str]) -> bool:
    """True of a folder that also has modules afterwards."""
    return folder == "dotr" or any(new.startswith(f"{folder}/") for new in rows.values())


def _dotted(path: str) -> str:
    return path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def _passed_on(path: Path) -> dict[str, tuple[str, str]]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    imports = [node for node in tree.body if isinstance(node, ast.ImportFrom) and node.module]
    return {each.asname or each.name: (str(node.module), each.name) for node in imports for each in node.names}


class Rewriting:
    """One text, in which a new name is not read again: it stands as a number until the text is whole."""

    def __init__(self, moves: Moves) -> None:
        self._moves = moves
        self._done: list[str] = []

    def done(self, text: str) -> str:
        """A place holder for a text that is right."""
        self._done.append(text)
        return f"\0{len(self._done) - 1}\0"

    def rewritten(self, text: str, *, prose: bool) -> str:
        """The text with the new names and paths; `prose`: names without `dotr` in front are names of files, too."""
        text = _IMPORT.sub(lambda match: self.done(_moved_import(match, self._moves)), text)
        text = _DOTTED.sub(lambda match: self.done(self._moves.dotted(match[0])), text)
        text = _PATH.sub(self._path, text)
        text = _SHORT_PATH.sub(self._short_path, text)
        if prose:
            text = _SHORT_NAME.sub(self._short_name, text)
            text = _OWN_NAME.sub(lambda match: self.done(self._moves.renamed.get(match[0], match[0])), text)
        return re.sub("\0(\\d+)\0", lambda match: self._done[int(match[1])], text)

    def _path(self, match: re.Match[str]) -> str:
        up = match[0][: len(match[0]) - len(match[0].lstrip("./"))]
        return self.done(up + self._moves.path(match[0][len(up) :]))

    def _short_path(self, match: re.Match[str]) -> str:
        new = self._moves.files.get(f"dotr/{match[0]}", GONE)
        return match[0] if new == GONE else self.done(new.removeprefix("dotr/"))

    def _short_name(self, match: re.Match[str]) -> str:
        name = f"dotr.{match[0]}"
        known = name in self._moves.modules or name.rpartition(".")[0] in self._moves.modules
        return self.done(self._moves.dotted(name).removeprefix("dotr.")) if known else match[0]


def _moved_import(match: re.Match[str], moves: Moves) -> str:
    names = [each.strip() for each in re.sub(r"#[^\n]*", "", match["names"].strip("()")).split(",")]
    found: dict[str, list[str]] = defaultdict(list)
    for each in filter(None, names):
        name, _, alias = each.partition(" as ")
        module, own = moves.imported(match["module"], name)
        alias = alias or (name if own != name else "")
        found[module].append(f"{own} as {alias}" if alias else own)
    if list(found) == [match["module"]] and "\n" in match["names"]:
        return match[0]
    lines = [f"from {module} import {', '.join(own)}" for module, own in found.items()]
    start, end = match["start"], match["end"] or ""
    if start is None:  # within a line of code or a string
        return "; ".join(lines) + end
    return "\n".join(start + line + (end if number == 0 else "") for number, line in enumerate(lines))


def main() -> int:
    """Moves and rewrites everything, or says what has no place yet."""
    if _git("status", "--porcelain"):
        sys.stderr.write("The work tree has changes: commit them first.\n")
        return 2
    table = tomllib.loads(TABLE.read_text(encoding="utf-8"))
    if (ROOT / "dotr/commands").exists():
        sys.stderr.write("The files are moved already.\n")
        return 2
    tracked = _git("ls-files").splitlines()
    moves = Moves(table, [path for path in tracked if path.startswith(("dotr/", "tests/"))])
    missing = [old for old in table["files"] if not (ROOT / "dotr" / old).exists()]
    for path in missing:
        sys.stderr.write(f"note: {path} has a row in {TABLE.name} and does not exist\n")
    if moves.unknown:
        sys.stderr.write(f"These files need a row in {TABLE.name}, since their neighbours go to several folders:\n")
        sys.stderr.write("".join(f"  {path}\n" for path in moves.unknown))
        return 2
    edits: dict[str, list[tuple[str, str]]] = defaultdict(list)
    for edit in table["edits"]:
        edits[edit["file"]].append((edit["old"], edit["new"]))
    changed = {path: _changed(path, moves, edits.pop(path, [])) for path in tracked if _is_text(path)}
    if edits:
        sys.stderr.write(f"edits of unknown files: {', '.join(edits)}\n")
        return 2
    for old, new in moves.files.items():
        if new == GONE:
            _git("rm", "-q", old)
        elif new != old:
            (ROOT / new).parent.mkdir(parents=True, exist_ok=True)
            _git("mv", old, new)
    for path, text in changed.items():
        if (new := moves.files.get(path, path)) != GONE and text is not None:
            (ROOT / new).write_text(text, encoding="utf-8")
    for folder, sentence in table["rooms"].items():
        if not (room := ROOT / "dotr" / folder / "__init__.py").exists():
            room.write_text(f'"""{sentence}"""\n', encoding="utf-8")
    _git("add", "-A")
    _remove_empty_folders()
    ruff = Path(sys.executable).with_name("ruff")
    subprocess.run([ruff, "check", "-q", "--fix", "--select", "I", "."], cwd=ROOT, check=False)
    subprocess.run([ruff, "format", "-q", "."], cwd=ROOT, check=False)
    _git("add", "-A")
    rooms = {str(PurePosixPath(new).parent) for new in moves.files.values() if new.startswith("dotr/") and new.endswith(".py")}
    for folder in sorted(rooms):
        if not (ROOT / folder / "__init__.py").exists():
            sys.stderr.write(f"note: {folder} has no sentence in {TABLE.name}\n")
    return 0


def reflowed(text: str) -> str:
    """The text of a module whose docstrings have lines of at most 100 characters, as far as names have made them longer.

    Examples, and what follows them, stay.
    """
    lines = text.splitlines()
    kinds = (ast.Module, ast.ClassDef, ast.FunctionDef)
    nodes = [node.body[0] for node in ast.walk(ast.parse(text)) if isinstance(node, kinds) and ast.get_docstring(node) and node.body]
    for node in sorted(nodes, key=lambda each: -each.lineno):
        number, end = node.lineno - 1, node.end_lineno or node.lineno
        while number < end and ">>>" not in lines[number]:
            line = lines[number]
            if len(line) > _LONGEST and not line.lstrip().startswith("|") and (cut := _place_to_break(line)):
                rest = line[cut + 1 :]
                lines[number] = line[:cut]
                below = lines[number + 1] if number + 1 < end else ""
                deeper = _deeper(line)
                indent = len(line) - len(line.lstrip()) + deeper
                goes_on = below.strip() and len(below) - len(below.lstrip()) == indent and not _is_item(below) and below.strip() != '"""'
                if goes_on and not rest.endswith('"""'):
                    lines[number + 1] = " " * indent + rest + " " + below.lstrip()
                else:
                    lines.insert(number + 1, " " * indent + rest)
                    end += 1
            number += 1
    return "\n".join(lines) + "\n"


def _place_to_break(line: str) -> int:
    """The last blank, outside of backticks, at which a line may end."""
    first = len(line) - len(line.lstrip())
    places = [place for place in range(first + 1, _LONGEST + 1) if line[place] == " " and line[:place].count("`") % 2 == 0]
    return places[-1] if places else 0


def _is_item(line: str) -> bool:
    return bool(re.match(r"\s*(?:- |>>> |\||\w+:$)|\s+[a-z_][\w.]*: ", line))


def _deeper(line: str) -> int:
    """The further blanks in front of the next line of the same item."""
    return 2 if line.lstrip().startswith("- ") else 4 if re.match(r"\s+[a-z_][\w.]*: ", line) else 0


def _changed(path: str, moves: Moves, edits: list[tuple[str, str]]) -> str | None:
    """The new text of a file, None if it stays."""
    before = text = (ROOT / path).read_text(encoding="utf-8")
    rewriting = Rewriting(moves)
    for old, new in edits:
        if old not in text:
            sys.stderr.write(f"note: {path} has no more {old!r}\n")
        text = text.replace(old, rewriting.done(new))
    text = rewriting.rewritten(text, prose=path.startswith("dotr/") or path.endswith(".md"))
    if path.startswith("dotr/") and path.endswith(".py") and text != before:
        text = reflowed(text)
    return text if text != before else None


def _is_text(path: str) -> bool:
    return not path.startswith(_UNTOUCHED) and PurePosixPath(path).suffix in _TEXTS


def _remove_empty_folders() -> None:
    for folder in sorted((each for top in ("dotr", "tests") for each in (ROOT / top).rglob("*") if each.is_dir()), reverse=True):
        if all(each.name == "__pycache__" for each in folder.iterdir()):
            subprocess.run(["rm", "-r", folder], check=True)


def _git(*arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=ROOT, check=True, capture_output=True, text=True).stdout


if __name__ == "__main__":
    sys.exit(main())
