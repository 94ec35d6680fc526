"""The environment of each test and docstring example, which leaves none behind."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def _restored_environment() -> Iterator[None]:
    """Give the next test the environment that this one found.

    Without it, an example that sets a variable to show a secret sets it for all later tests of the
    same process.
    """
    before = dict(os.environ)
    yield
    if dict(os.environ) != before:
        os.environ.clear()
        os.environ.update(before)
