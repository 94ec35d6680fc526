"""The example notebook runs, and shows what is stored in it: `python -m tests.support.notebook` stores it anew."""

from __future__ import annotations

import re

import pytest

from tests.support.notebook import NOTEBOOK, Output, code_cells, outputs, read

pytestmark = pytest.mark.core


def shown(output: Output) -> object:
    """The output without the HTML of pandas, whose style depends on its version."""
    data = output.get("data")
    if data is None or "<style" not in "".join(data.get("text/html", ())):
        return output
    return {**output, "data": {"text/plain": data["text/plain"]}}


def test_cells_give_the_stored_outputs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(NOTEBOOK.parent)
    notebook = read()
    for cell, found in zip(code_cells(notebook), outputs(notebook), strict=True):
        assert [shown(each) for each in cell["outputs"]] == [shown(each) for each in found], "".join(cell["source"])


def test_stored_outputs_hold_nothing_of_the_machine() -> None:
    text = NOTEBOOK.read_text(encoding="utf-8")
    assert re.findall(r"/(?:home|root|tmp|work|Users|usr)\b|0x[0-9a-f]{6,}", text) == []


def test_notebook_has_the_format_of_jupyter() -> None:
    """What `nbformat.validate` looks at, as far as this notebook has it."""
    notebook = read()
    assert (notebook["nbformat"], notebook["nbformat_minor"]) == (4, 5)
    assert notebook["metadata"]["kernelspec"]["name"] == "python3"
    identifiers = [cell["id"] for cell in notebook["cells"]]
    assert len(set(identifiers)) == len(identifiers)
    for cell in notebook["cells"]:
        assert set(cell) == {"cell_type", "id", "metadata", "source"} | (
            {"execution_count", "outputs"} if cell["cell_type"] == "code" else set()
        )
    assert [cell["execution_count"] for cell in code_cells(notebook)] == list(range(1, len(code_cells(notebook)) + 1))
    assert max(len(line.rstrip("\n")) for cell in code_cells(notebook) for line in cell["source"]) <= 100
