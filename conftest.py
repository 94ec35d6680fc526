"""The environment of each test and docstring example, and the files that a run of the tests has to import."""

from __future__ import annotations

import gc
import os
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest

from dotr.evaluation.codegen import compiled
from dotr.evaluation.joins.compile import _factory

os.environ["DOTR_KEEP_PROGRAMS"] = "0"  # what is tested is what the texts say, but for `tests/languages/test_kept_programs.py`


@pytest.fixture(autouse=True)
def _restored_environment() -> Iterator[None]:
    """Give the next test the environment that this one found.

    Without it, an example that sets a variable to show a secret sets it for all later tests of the
    same process.
    """
    before = _environment()
    yield
    after = _environment()
    if after != before:
        for name in after.keys() - before.keys():
            del os.environ[name]
        os.environ.update(before)


def _environment() -> dict[str, str]:
    """The variables, but for the one that pytest itself changes within each test."""
    return {name: value for name, value in os.environ.items() if name != "PYTEST_CURRENT_TEST"}


@pytest.hookimpl(wrapper=True)
def pytest_collect_file(
    file_path: Path, parent: pytest.Collector
) -> Generator[None, list[pytest.Collector | None], list[pytest.Collector | None]]:
    """Leave out what has nothing to collect, by its text, before it is imported: examples of a file
    without `>>>`, and for `-m core` the tests of a file in which nothing is marked so.
    """
    found = yield
    if not any(found):
        return found
    text = file_path.read_bytes()
    has_core = parent.config.option.markexpr != "core" or b"mark.core" in text
    return [each for each in found if (has_core if type(each) is pytest.Module else b">>>" in text)]


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Compile generated code anew for an example that shows it: of the texts of a long run, `linecache` keeps the latest alone."""
    if isinstance(item, pytest.DoctestItem):
        compiled.cache_clear()
        _factory.cache_clear()


def pytest_collection_finish() -> None:
    """Exclude modules and collected tests from garbage collections, which otherwise visit them again and again."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)
