"""Tables of docs/performance.md and of the README: each is what benchmarks/results says."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from benchmarks.field import pages
from benchmarks.field.measuring import FROM_SECOND_BATCH, spread
from benchmarks.field.results import RESULTS, Figures, all_results
from benchmarks.field.tables import span
from benchmarks.field.works import works

pytestmark = pytest.mark.core
PERFORMANCE = pages.PAGES[1]
_TABLE = re.compile(r"^\|", re.MULTILINE)
_PAGE_OF_PROSE = 600
"""Words on a printed page, about."""


@pytest.mark.parametrize("page", [*pages.PAGES, pages.APPENDIX], ids=lambda page: page.name)
def test_tables_are_made_from_the_results(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert pages.names(text), "a page with tables from results"
    assert set(pages.names(text)) <= {*pages.present_tables()}, "each table has a result"
    assert pages.rewritten(text, pages.present_tables()) == text, "run benchmarks/run tables"


def test_every_table_of_the_page_is_made_from_results() -> None:
    assert not _TABLE.search(pages.without_tables(PERFORMANCE.read_text(encoding="utf-8")))


@pytest.mark.parametrize("page", pages.PAGES, ids=lambda page: page.name)
def test_every_figure_stands_rounded_in_a_json_file(page: Path) -> None:
    known: set[str] = set()
    for result in all_results():
        raw = json.loads((RESULTS / f"{result.work}.json").read_text(encoding="utf-8"))
        for system in (system for case in raw["cases"] for system in case["systems"]):
            known |= {span(Figures(**system[name])) for name in ("thread", "process", "clock") if system[name]}
            parts = [repeat.get("parts", {}) for repeat in system["repeats"]]
            later = [each[FROM_SECOND_BATCH] for each in parts if FROM_SECOND_BATCH in each]
            known |= {span(Figures(*spread(later)))} if later else set()
    tables = "".join(line for line in page.read_text(encoding="utf-8").splitlines(keepends=True) if line.startswith("|"))
    found = set(re.findall(r"[\d.,]+ \([\d.,]+–[\d.,]+\)", tables))
    assert found
    assert found <= known


def test_the_page_is_two_pages_of_prose_and_names_what_is_there() -> None:
    text = pages.without_tables(PERFORMANCE.read_text(encoding="utf-8"))
    assert len(text.split()) <= 2 * _PAGE_OF_PROSE
    plots = [PERFORMANCE.parent / plot for plot in re.findall(r"!\[[^]]*\]\(([^)]+)\)", text)]
    measured = {result.work for result in all_results()}
    waiting = {work for work in works() if work not in measured}
    assert [plot for plot in plots if not plot.is_file() and plot.stem.partition("-")[0] not in waiting] == []
    assert len(plots) >= 4


def test_the_appendix_counts_the_lines_of_each_text() -> None:
    text = pages.APPENDIX.read_text(encoding="utf-8")
    told = [int(number) for number in re.findall(r": (\d+) lines?\n\n```", text)]
    shown = [block.count("\n") for block in re.findall(r"^```\w*\n(.+?)^```$", text, re.MULTILINE | re.DOTALL)]
    assert told == shown
    for system in ("dotr", "Esper 9.0", "Esper 4.2", "Siddhi", "Flink", "rsp-js", "pyoxigraph", "rdflib", "nemo", "Spark"):
        assert re.search(rf"^{system}|and {system}", text, re.MULTILINE), system
