"""The page docs/spark.md and its notebook, whose code runs in a Spark with Delta (`tests.support.older_spark`).

    python -m tests.support.spark_page            # rewrites the outputs of the page, and the notebook
    python -m tests.support.spark_page run FILE   # in that Spark: runs the code, writes what each block prints as JSON

A block of text behind a block of code is what the code prints. The notebook has the page's prose and code as cells, and the same outputs.
"""

from __future__ import annotations

import json
import re
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any, Final

from tests.support import older_spark
from tests.support.paths import ROOT

PAGE: Final = ROOT / "docs" / "spark.md"
NOTEBOOK: Final = ROOT / "docs" / "spark.ipynb"
_JVM: Final = "--driver-java-options -XX:TieredStopAtLevel=1"
"""Options of its JVM, which would spend half of its CPU on C2, as JVMs do that run for half a minute."""
_BLOCK: Final = re.compile(r"^```(python|text)\n(.*?)^```\n", re.MULTILINE | re.DOTALL)


def blocks(page: str) -> list[tuple[str, str]]:
    """The blocks of code of a page, each with the text that it is said to print."""
    found: list[tuple[str, str]] = []
    for kind, text in _BLOCK.findall(page):
        if kind == "python":
            found.append((text, ""))
        else:
            found[-1] = (found[-1][0], text)
    return found


def printed(folder: Path) -> list[str]:
    """The texts that the blocks of the page print, run in a process of their own, whose tables are in a folder."""
    submitted = " ".join(f"--conf {key}={value}" for key, value in older_spark.delta(folder / "tables").items())
    (folder / "data").symlink_to(ROOT / "data")
    for name in ("configs", "rules", "kb"):
        (folder / name).symlink_to(ROOT / name)
    variables = {"PYSPARK_SUBMIT_ARGS": f"--conf spark.ui.enabled=false {submitted} {_JVM} pyspark-shell", "PYSPARK_PYTHON": sys.executable}
    command = ["-m", "tests.support.spark_page", "run", str(folder / "printed.json")]
    done = older_spark.run(older_spark.FOR_DELTA, command, folder, variables)
    assert done.returncode == 0, done.stdout[-5000:]
    found = json.loads((folder / "printed.json").read_text())
    assert isinstance(found, list)
    return found


def run(file: Path) -> None:
    namespace: dict[str, object] = {"__name__": "__main__"}
    found = []
    for number, (code, _) in enumerate(blocks(PAGE.read_text(encoding="utf-8")), 1):
        with redirect_stdout(StringIO()) as text:
            exec(compile(code, f"block {number}", "exec"), namespace)
        found.append("".join(f"{line.rstrip()}\n" for line in text.getvalue().rstrip().splitlines()))
    file.write_text(json.dumps(found))


def with_outputs(page: str, outputs: Sequence[str]) -> str:
    """The page with these outputs of its blocks of code."""
    number = -1

    def replaced(block: re.Match[str]) -> str:
        nonlocal number
        number += block[1] == "python"
        return block[0] if block[1] == "python" else f"```text\n{outputs[number]}```\n"

    return _BLOCK.sub(replaced, page)


def notebook(page: str) -> str:
    """The notebook of a page."""
    cells = [*_cells(page)]
    for number, cell in enumerate(cells):
        cell["id"] = f"cell-{number}"
    about = {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}, "language_info": {"name": "python"}}
    return json.dumps({"cells": cells, "metadata": about, "nbformat": 4, "nbformat_minor": 5}, indent=1, ensure_ascii=False) + "\n"


def _cells(page: str) -> Iterator[dict[str, Any]]:
    parts, count = _BLOCK.split(page), 0
    outputs: list[dict[str, Any]] = []
    for prose, kind, text in zip(parts[::3], [*parts[1::3], ""], [*parts[2::3], ""], strict=True):
        if prose.strip():
            yield {"cell_type": "markdown", "metadata": {}, "source": prose.strip().splitlines(keepends=True)}
        if kind == "python":
            outputs = []
            count += 1
            source = text.rstrip().splitlines(keepends=True)
            yield {"cell_type": "code", "execution_count": count, "metadata": {}, "outputs": outputs, "source": source}
        elif kind == "text":
            outputs.append({"name": "stdout", "output_type": "stream", "text": text.splitlines(keepends=True)})


def main() -> None:
    if sys.argv[1:2] == ["run"]:
        run(Path(sys.argv[2]))
        return
    with tempfile.TemporaryDirectory() as folder:
        page = with_outputs(PAGE.read_text(encoding="utf-8"), printed(Path(folder)))
    PAGE.write_text(page, encoding="utf-8")
    NOTEBOOK.write_text(notebook(page), encoding="utf-8")


if __name__ == "__main__":
    main()
