"""Each line of docs/spark.md runs, in a Spark with Delta, and prints what the page says; the notebook has the same code and outputs."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.paths import ROOT
from tests.support.spark_page import NOTEBOOK, PAGE, blocks, notebook, printed

pytestmark = pytest.mark.spark


def test_code_of_the_page_prints_what_it_says(tmp_path: Path) -> None:
    page = blocks(PAGE.read_text(encoding="utf-8"))
    assert [text for _, text in page if text] != []
    for (code, said), found in zip(page, printed(tmp_path), strict=True):
        assert found == said, code


@pytest.mark.usefixtures("spark")
def test_code_of_the_readme_makes_the_events_of_the_main_job(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    [(code, _)] = blocks((ROOT / "README.md").read_text(encoding="utf-8"))
    for name in ("configs", "data", "kb", "rules"):
        (tmp_path / name).symlink_to(ROOT / name)
    monkeypatch.chdir(tmp_path)
    exec(compile(code.replace('"data/', f'"{ROOT}/data/').replace('"out/', f'"{tmp_path}/out/'), "README.md", "exec"), {})
    assert capsys.readouterr().out == "168\n"


def test_notebook_is_the_page() -> None:
    assert NOTEBOOK.read_text(encoding="utf-8") == notebook(PAGE.read_text(encoding="utf-8"))
