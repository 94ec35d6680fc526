"""The merge of small modules into their neighbours: `python -m tools.merges`, in a clean work tree.

Idea: a row of `tools/merges.toml` has a room, the module that stays, and the modules that fold into it. Their definitions follow the
room's own, or precede them where a line of the room needs them as it is loaded; imports are joined; the docstring of a folded module
becomes a comment above its first definition. Names and paths of a folded module are rewritten as by `tools/moves.py`, but for single words.
A definition that two parts have in the same words stands once.
Table: `merges` has the rows, `names` the new names of definitions of a folded module that another part has, too.
A row is left out, with the reason, if names collide, if each part needs the other as it is loaded, or if an import between the parts has
no plain form. A room of more than 500 lines is noted. A row whose modules are gone is done.
The result is staged, and no commit is made. What a start loads is held by the tests.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Final, NamedTuple

from tools import moves

ROOT: Final = moves.ROOT
TABLE: Final = Path(__file__).with_suffix(".toml")
LONGEST: Final = 500


class NotMerged(Exception):
    """A row that has to be done by hand; the message is the reason."""


class Import(NamedTuple):
    """One name of an import; `module` is empty for a module that is imported whole."""

    module: str
    name: str
    bound: str
    comment: str

    def is_of(self, room: Mapping[str, Part]) -> bool:
        """True of a definition of the room, False of a module of its folder."""
        return self.module in room and not _is_module(f"{self.module}.{self.name}")


class Part:
    """One module of a room.

    - `path`, `name`: from the root of the repository; dotted.
    - `loaded`, `typed`: the imports at once, and those under TYPE_CHECKING.
    """

    def __init__(self, path: str, names: Mapping[str, str]) -> None:
        self.path, self.name = path, moves._dotted(path)
        text = (ROOT / path).read_text(encoding="utf-8")
        for old, new in names.items():
            text = re.sub(rf"\b{old}\b", new, text)
        self.tree = ast.parse(text)
        self.lines = text.splitlines()
        self.document = ast.get_docstring(self.tree) or ""
        self.loaded: list[Import] = []
        self.typed: list[Import] = []
        self._gone: set[int] = set()
        first, *_ = self.tree.body
        if self.document:
            self.drop(first)
        for node in self.tree.body:
            if isinstance(node, ast.Import | ast.ImportFrom):
                self._take(node, self.loaded)
            elif isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING" and _only_imports(node.body) and not node.orelse:
                self.drop(node)
                for each in node.body:
                    self._take(each, self.typed)

    def drop(self, node: ast.stmt) -> None:
        self._gone.update(range(node.lineno - 1, node.end_lineno or node.lineno))

    def _take(self, node: ast.stmt, into: list[Import]) -> None:
        self.drop(node)
        comment = self.lines[node.lineno - 1].partition("  #")[2]
        if isinstance(node, ast.Import | ast.ImportFrom):
            module = (node.module or "") if isinstance(node, ast.ImportFrom) else ""
            into += [Import(module, each.name, each.asname or each.name, comment) for each in node.names]

    def body(self, room: Mapping[str, Part]) -> str:
        """The text below the imports, without imports from the room in functions."""
        gone = set(self._gone)
        for node in ast.walk(self.tree):
            block = getattr(node, "body", None)
            for each in block if isinstance(block, list) and node is not self.tree else ():
                if isinstance(each, ast.ImportFrom) and each.lineno - 1 not in gone and each.module in room:
                    if any(name.asname or _is_module(f"{each.module}.{name.name}") for name in each.names):
                        raise NotMerged(f"{self.path}:{each.lineno} imports a part of the room in a way that has no plain form")
                    end = each.end_lineno or each.lineno
                    gone.update(range(each.lineno - 1, end if self.lines[end].strip() else end + 1))
        return "\n".join(line for number, line in enumerate(self.lines) if number not in gone).strip("\n")

    @cached_property
    def defined(self) -> dict[str, ast.stmt]:
        """The names that the module itself defines."""
        found: dict[str, ast.stmt] = {}
        for node in self.tree.body:
            match node:
                case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                    found[name] = node
                case ast.Assign(targets=targets):
                    found |= {each.id: node for target in targets for each in ast.walk(target) if isinstance(each, ast.Name)}
                case ast.AnnAssign(target=ast.Name(name)):
                    found[name] = node
                case _:
                    pass
        return found

    @cached_property
    def needed(self) -> set[str]:
        """The names that are read as the module is loaded, also within its functions that are called then."""
        names = {name for node in self.tree.body for name in _read(node)}
        waiting = list(names)
        while waiting:
            if isinstance(node := self.defined.get(waiting.pop()), ast.FunctionDef):
                new = {each.id for each in ast.walk(node) if isinstance(each, ast.Name)} - names
                names |= new
                waiting += new
        return names


def _only_imports(nodes: Iterable[ast.stmt]) -> bool:
    return all(isinstance(node, ast.Import | ast.ImportFrom) for node in nodes)


def _is_module(name: str) -> bool:
    path = ROOT / name.replace(".", "/")
    return path.with_suffix(".py").exists() or (path / "__init__.py").exists()


def _read(node: ast.AST) -> Iterator[str]:
    """The names that a statement reads as it is executed; annotations of classes count, those of functions do not."""
    match node:
        case ast.Import() | ast.ImportFrom():
            return
        case ast.FunctionDef() | ast.AsyncFunctionDef():
            parts: Iterable[ast.AST | None] = [*node.decorator_list, *node.args.defaults, *node.args.kw_defaults]
        case ast.ClassDef():
            parts = [*node.decorator_list, *node.bases, *node.keywords, *node.body]
        case _:
            yield from (each.id for each in ast.walk(node) if isinstance(each, ast.Name))
            return
    for part in parts:
        if part is not None:
            yield from _read(part)


def merged(parts: Sequence[Part]) -> str:
    """The text of a room: the first part stays, the others fold into it.

    Raises `NotMerged` with the reason.
    """
    host, room = parts[0], {part.name: part for part in parts}
    for number, part in enumerate(parts):
        for name, node in [(name, node) for each in parts[:number] for name, node in each.defined.items()]:
            if name in part.defined and ast.unparse(node) == ast.unparse(part.defined[name]):
                part.drop(part.defined.pop(name))
    _check_names(parts, room)
    ordered: list[Part] = []
    while waiting := [part for part in parts if part not in ordered]:
        needs = {part: {name for each in waiting if each is not part for name in part.needed & each.defined.keys()} for part in waiting}
        if all(needs.values()):
            raise NotMerged(f"each part needs the other as it is loaded: {', '.join(sorted(set.union(*needs.values())))}")
        ordered.append(next(part for part in waiting if not needs[part]))
    bodies = ["\n".join(f"# {line}".rstrip() for line in part.document.splitlines()) * (part is not host) for part in ordered]
    body = "\n\n\n".join(f"{above}\n\n{part.body(room)}".strip("\n") for above, part in zip(bodies, ordered, strict=True))
    loaded = {each.bound: each for part in parts for each in part.loaded if not each.is_of(room)}
    typed = {each.bound: each for part in parts for each in part.typed if not each.is_of(room) and each.bound not in loaded}
    if not typed and "TYPE_CHECKING" not in body:
        loaded.pop("TYPE_CHECKING", None)
    first = host.tree.body[0]
    text = "\n".join(host.lines[: first.end_lineno]) + "\n\n" if host.document else ""
    text += "".join(_imports(loaded.values()))
    if typed:
        text += "\nif TYPE_CHECKING:\n" + "".join(f"    {line}" for line in _imports(typed.values()))
    return f"{text}\n\n{body}\n"


def _imports(found: Iterable[Import]) -> list[str]:
    """The lines of imports, those of the future first."""
    modules: dict[str, list[Import]] = {}
    for each in found:
        modules.setdefault(each.module or each.name, []).append(each)
    lines = []
    for module in sorted(modules, key=lambda module: module != "__future__"):
        names = ", ".join(each.name + (f" as {each.bound}" if each.bound != each.name else "") for each in modules[module] if each.module)
        comment = next((f"  #{each.comment}" for each in modules[module] if each.comment), "")
        lines += [f"from {module} import {names}{comment}\n"] if names else []
        whole = [each for each in modules[module] if not each.module]
        lines += [f"import {each.name}{f' as {each.bound}' if each.bound != each.name else ''}{comment}\n" for each in whole]
    return lines


def _check_names(parts: Sequence[Part], room: Mapping[str, Part]) -> None:
    """Raises `NotMerged` for a name that is not the same in all parts."""
    owners: dict[str, str] = {}
    for part in parts:
        if ">>>" in part.document and part is not parts[0]:
            raise NotMerged(f"the docstring of {part.path} has an example")
        names = [(name, f"{part.name}.{name}") for name in part.defined]
        for each in (*part.loaded, *part.typed):
            if f"{each.module}.{each.name}" in room or (each.is_of(room) and each.bound != each.name):
                raise NotMerged(f"{part.path} imports a part of the room in a way that has no plain form")
            owner = f"{each.module}.{each.name}"
            if each.is_of(room) and each.name not in room[each.module].defined:  # passed on by the room
                continue
            names.append((each.bound, owner))
        for name, owner in names:
            if owners.setdefault(name, owner) != owner:
                raise NotMerged(f"{name} is {owners[name]} and {owner}")


def main() -> int:
    """Merges all rows, and says which are left out, and why."""
    if moves._git("status", "--porcelain"):
        sys.stderr.write("The work tree has changes: commit them first.\n")
        return 2
    rows = tomllib.loads(TABLE.read_text(encoding="utf-8"))
    texts: dict[str, str] = {}
    table: dict[str, str] = {}
    for room, names in rows["merges"].items():
        host, folded = f"dotr/{room}", [f"dotr/{name}" for name in names if (ROOT / "dotr" / name).exists()]
        if folded:
            try:
                texts[host] = merged([Part(path, rows["names"].get(path.removeprefix("dotr/"), {})) for path in (host, *folded)])
                table |= dict.fromkeys(folded, host)
            except (NotMerged, FileNotFoundError) as error:
                sys.stderr.write(f"left out: {room}: {error}\n")
    if not texts:
        return 0
    tracked = moves._git("ls-files").splitlines()
    places = {path.removeprefix("dotr/"): table.get(path, path).removeprefix("dotr/") for path in tracked if path.startswith("dotr/")}
    tests = {path: path for path in tracked if path.startswith("tests/")}
    moved = moves.Moves(
        {"files": places, "tests": tests, "folders": {}}, [path for path in tracked if path.startswith(("dotr/", "tests/"))]
    )
    moved.renamed = {}
    for host, text in texts.items():
        (ROOT / host).write_text(text, encoding="utf-8")
    if table:
        moves._git("rm", "-q", *table)
    for path in tracked:
        own = path in table or path.startswith("tools/merges.") or not moves._is_text(path)
        if not own and (changed := moves._changed(path, moved, [])) is not None:
            (ROOT / path).write_text(re.sub(r"(`[\w/]+\.py`)(?:, \1)+", r"\1", changed), encoding="utf-8")
    ruff = Path(sys.executable).with_name("ruff")
    subprocess.run([ruff, "check", "-q", "--fix", "--select", "I", "."], cwd=ROOT, check=False)
    subprocess.run([ruff, "format", "-q", "."], cwd=ROOT, check=False)
    moves._git("add", "-A")
    for host in texts:
        if (length := len((ROOT / host).read_text(encoding="utf-8").splitlines())) > LONGEST:
            sys.stderr.write(f"note: {host} has {length} lines\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
