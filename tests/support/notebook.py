"""The example notebook, run without Jupyter: `python -m tests.support.notebook` rewrites its outputs.

A cell is executed as in Jupyter: printed text is one output, the value of the last expression another, as text and, if it has a
representation in HTML, as HTML. The packages of Jupyter would be thirty times the size of this module's dependencies, and start a process
with sockets.
"""

from __future__ import annotations

import ast
import json
import os
from collections.abc import Iterator
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any, Final

from tests.support.paths import ROOT

NOTEBOOK: Final = ROOT / "docs" / "example.ipynb"

Output = dict[str, Any]
"""An output of a cell in the notebook's format."""


def read(path: Path = NOTEBOOK) -> dict[str, Any]:
    """The notebook as its JSON."""
    found = json.loads(path.read_text(encoding="utf-8"))
    assert isinstance(found, dict)
    return found


def code_cells(notebook: dict[str, Any]) -> list[dict[str, Any]]:
    return [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]


def outputs(notebook: dict[str, Any]) -> Iterator[list[Output]]:
    """The outputs of each code cell, executed in order in one namespace."""
    namespace: dict[str, object] = {"__name__": "__main__"}
    for number, cell in enumerate(code_cells(notebook), 1):
        yield _execute("".join(cell["source"]), number, namespace)


def _execute(source: str, number: int, namespace: dict[str, object]) -> list[Output]:
    tree = ast.parse(source)
    last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) and not source.rstrip().endswith(";") else None
    value: object = None
    with redirect_stdout(StringIO()) as printed:
        exec(compile(tree, f"cell {number}", "exec"), namespace)
        if isinstance(last, ast.Expr):
            value = eval(compile(ast.Expression(last.value), f"cell {number}", "eval"), namespace)  # noqa: S307
    found: list[Output] = []
    if printed.getvalue():
        found.append({"name": "stdout", "output_type": "stream", "text": printed.getvalue().splitlines(keepends=True)})
    if value is not None:
        html = getattr(value, "_repr_html_", None)
        data = {"text/plain": repr(value).splitlines(keepends=True)}
        if html is not None:
            data = {"text/html": html().splitlines(keepends=True), **data}
        found.append({"data": data, "execution_count": number, "metadata": {}, "output_type": "execute_result"})
    return found


def write(path: Path = NOTEBOOK) -> None:
    """Execute the notebook and store the outputs."""
    notebook = read(path)
    os.chdir(path.parent)
    for number, (cell, found) in enumerate(zip(code_cells(notebook), outputs(notebook), strict=True), 1):
        cell["execution_count"], cell["outputs"] = number, found
    path.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    write()
