"""The measures of the plan for the folders, counted by `ast`: `make measures` prints each with its present count and its goal.

The folders are those of dotr/ARCHITECTURE.md; before the files are moved, the rows of folders and imports mean nothing.
"""

from __future__ import annotations

import ast
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Sequence
from functools import cache
from pathlib import PurePosixPath
from statistics import median
from typing import Any, Final

from tests.support.imports import (
    DOORS,
    broken,
    circles_of_modules,
    folder_entries,
    imports,
    is_below,
    modules_in_circles,
    package,
    permitted,
)
from tests.support.modules import nodes, trees
from tests.support.paths import ROOT
from tests.support.unit_questions import UNITS, asked

LANGUAGES: Final = {"LARS": "lars", "EP-SPARQL": "epsparql", "continuous queries": "continuous"}
OPERATORS: Final = frozenset(
    ("Bgp", "Join", "LeftJoin", "Union", "Minus", "Filter", "Extend", "Values", "Group", "Select", "WindowBlock", "MatchPattern")
)
SUFFIXES: Final = frozenset((".dotr", ".rspql", ".lars", ".epsparql"))
CLOSERS: Final = ("Closer", "SameAsCloser", "StratifiedCloser")
GLOSSARY: Final = ("run", "report", "unit", "shape", "stage", "record")
WRITERS: Final = frozenset(("define", "GeneratedFunction", "JoinWriter", "RuleWriter", "HorizonWriter", "compile_triples"))
PRINTED_CODE: Final = r">>> .*(getsource|printed|printed_factory|printed_lines|\.source)\b"
CONNECTORS: Final = ("kafka", "mqtt", "http")
SMALL: Final = 120
LONG: Final = 700
LEAST_OPERATORS: Final = 5
RULE: Final = (
    "PREFIX : <http://e/>\nrule R\ndefine Out = [ dotr_id a :Out ; :x ?x ]\nfrom A = [ SELECT ?x WHERE { ?x a :A } ]\nwith Out.?x = A.?x\n"
)


@cache
def modules() -> dict[str, ast.Module]:
    """The syntax tree of each module of `dotr`, by its path."""
    return {str(path): tree for path, tree in trees().items()}


@cache
def parts() -> dict[str, list[ast.AST]]:
    """The nodes of each module that are counted, by its path."""
    return {str(path): found for path, found in nodes().items()}


@cache
def lengths() -> dict[str, int]:
    """The number of lines of each module."""
    return {path: len((ROOT / path).read_text(encoding="utf-8").splitlines()) for path in modules()}


@cache
def questions() -> dict[str, Counter[str]]:
    """The classes after which each module asks."""
    return {path: asked(found) for path, found in parts().items()}


def asking(kinds: Collection[str], outside: Sequence[str]) -> dict[str, int]:
    """The modules outside of some folders that ask after one of some classes, with the number of questions."""
    counts = {path: sum(found[kind] for kind in kinds) for path, found in questions().items() if not path.startswith(tuple(outside))}
    return {path: count for path, count in counts.items() if count}


def packages() -> str:
    pairs = {(package(each.source), package(each.target)) for each in imports()}
    pairs = {(source, target) for source, target in pairs if source != target and source in permitted() and target in permitted()}
    return f"{len(set(permitted()) - {PurePosixPath(door).stem for door in DOORS})}; {len(pairs)}"


def fullest_folders() -> str:
    sizes = folder_entries()
    return f"{max(sizes.values())}; {sum(size > 13 for size in sizes.values())}"


def breaking_imports() -> str:
    return str(sum(" imports " in line for line in broken()))


def module_sizes() -> str:
    full = [lengths()[path] for path, tree in modules().items() if len(tree.body) > 1 or not ast.get_docstring(tree)]
    full = [length for length in full if length]
    return f"{len(full)}; {median(full):.0f}; {sum(length > LONG for length in full)}"


def unit_questions() -> str:
    found = asking(UNITS, ("dotr/languages/",))
    places = {PurePosixPath(path).parts[1] for path in found}
    return f"{len(found)} in {len(places)} packages, {sum(found.values())} times"


def language_packages() -> str:
    return "; ".join(str(len({PurePosixPath(path).parts[1] for path in modules() if word in path})) for word in LANGUAGES.values())


def doors_of_languages() -> str:
    rooms = [f"dotr.languages.{room}" for room in ("rules", *LANGUAGES.values())]
    found = {each.source for each in imports() for room in rooms if is_below(each.target, room) and not is_below(each.source, room)}
    return str(len(found))


def suffix_lists() -> str:
    found = 0
    for texts in parts().values():
        constants = {node.value for node in texts if isinstance(node, ast.Constant) and isinstance(node.value, str)}
        found += len(constants & SUFFIXES) > 1
    return str(found)


def pattern_questions() -> str:
    return "; ".join(str(len(asking((kind,), ("dotr/model/",)))) for kind in ("LeftJoin", "Group"))


def pattern_walks() -> str:
    kinds = {path: sum(found[each] > 0 for each in OPERATORS) for path, found in questions().items() if not path.startswith("dotr/model/")}
    return str(sum(count >= LEAST_OPERATORS for count in kinds.values()))


def knowledge_questions() -> str:
    return str(sum(questions().get("dotr/instant/datalog/background/knowledge.py", Counter[str]())[each] for each in CLOSERS))


def json_forms() -> str:
    found = {
        path
        for path, tree in modules().items()
        if path.startswith("dotr/explanations/") or "/explanation/" in path
        if any(isinstance(node, ast.FunctionDef) and node.name == "to_json" for node in ast.walk(tree))
    }
    return str(len(found))


def explanations_at_a_start() -> str:
    found = {
        each.source for each in imports() if each.loads and package(each.source) in ("runtimes", "api") and "explanations" in each.target
    }
    return str(len(found))


def connector_packages() -> str:
    found: dict[str, set[str]] = defaultdict(set)
    for path in modules():
        for name in CONNECTORS:
            if name in path and not path.startswith("dotr/runtimes/spark/"):
                found[name].add(PurePosixPath(path).parts[1])
    return ", ".join(str(len(found[name])) for name in CONNECTORS)


def private_states() -> str:
    found = Counter(
        path
        for path, texts in parts().items()
        for node in texts
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "json.loads" and ast.unparse(node.args[0]).endswith(".rest")
    )
    return f"{found.total()} in {len(found)} files"


def circles() -> str:
    return f"{circles_of_modules()}, of {len(list(modules_in_circles()))} modules"


def parsers_of_a_file() -> str:
    """The parser objects that are built for a second file of one rule."""
    import pyparsing

    from dotr.languages.rules import compile_rules
    from dotr.model.places import Document

    built = 0
    first: Callable[..., None] = pyparsing.ParserElement.__init__

    def counting(self: Any, *arguments: Any, **keywords: Any) -> None:
        nonlocal built
        built += 1
        first(self, *arguments, **keywords)

    compile_rules([Document("a.dotr", RULE)], {})
    pyparsing.ParserElement.__init__ = counting  # type: ignore[method-assign]
    try:
        compile_rules([Document("b.dotr", RULE)], {})
    finally:
        pyparsing.ParserElement.__init__ = first  # type: ignore[method-assign]
    return str(built)


def small_modules() -> str:
    importers: dict[str, set[str]] = defaultdict(set)
    at_once: dict[str, set[str]] = defaultdict(set)
    for each in imports():
        importers[each.target].add(each.source)
        if each.loads:
            at_once[each.target].add(each.source)
    names = {path.removesuffix(".py").replace("/", "."): path for path in modules() if not path.endswith("__init__.py")}
    small = [name for name, path in names.items() if lengths()[path] <= SMALL and len(importers[name]) == 1 == len(at_once[name])]
    return str(len(small))


def code_writers() -> str:
    """The modules that make, print or define generated functions, and those of them without an example that prints code."""
    found = [
        path
        for path, texts in parts().items()
        if any(isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] in WRITERS for node in texts)
    ]
    silent = [path for path in found if not re.search(PRINTED_CODE, (ROOT / path).read_text(encoding="utf-8"))]
    return f"{len(silent)} of {len(found)}"


def glossary() -> str:
    text = (ROOT / "dotr/ARCHITECTURE.md").read_text(encoding="utf-8").partition("## Glossary")[2]
    return str(sum(f"| {word} |" not in text for word in GLOSSARY))


def lines() -> str:
    return f"{sum(lengths().values()):,} in {len(lengths())} modules"


MEASURES: Final[Sequence[tuple[str, Callable[[], str], str]]] = (
    ("packages; pairs of packages of which one imports the other", packages, "13; ≤ 80"),
    ("entries of the fullest folder; folders with more than 13", fullest_folders, "13; 0"),
    ("imports that break the rule", breaking_imports, "0"),
    ("modules with content; their median length; longer than 700 lines", module_sizes, "≤ 560; 170 to 230; ≤ 1"),
    ("files outside of `languages` that ask for a unit's class", unit_questions, "0"),
    (f"packages with modules of {', of '.join(LANGUAGES)}", language_packages, "1; 1; 1"),
    ("modules that import a language's folder from outside", doors_of_languages, "1"),
    ("modules that list suffixes of rule files", suffix_lists, "1"),
    ("files outside of `model` that ask for LeftJoin; for Group", pattern_questions, "≤ 9; ≤ 15"),
    ("modules outside of `model` that tell five pattern operators apart", pattern_walks, "≤ 12"),
    ("questions of Knowledge to its closer about its class", knowledge_questions, "0"),
    ("modules of explanations with a JSON form of their own", json_forms, "≤ 3"),
    ("modules of `api`, `runtimes` that load `explanations` with them", explanations_at_a_start, "0"),
    ("packages with files of kafka, mqtt, http", connector_packages, "1, 1, 1"),
    ("places that take a unit's private JSON apart", private_states, "0"),
    ("circles of modules", circles, "0"),
    ("parser objects built for another file of one rule", parsers_of_a_file, "≤ 20"),
    ("modules of at most 120 lines with one importer, which loads them at once", small_modules, "≤ 20"),
    ("modules that write code, without an example that prints some", code_writers, "≤ 10"),
    ("words of the glossary without an entry", glossary, "0"),
    ("lines", lines, "≤ 111,000"),
)


def main() -> None:
    """Prints the table."""
    rows = [("measure", "now", "goal"), *((name, count(), goal) for name, count, goal in MEASURES)]
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    for row in rows:
        sys.stdout.write("  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip() + "\n")


if __name__ == "__main__":
    main()
