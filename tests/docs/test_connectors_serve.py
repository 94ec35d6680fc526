"""The example of docs/connectors.md, section Serve: the configuration runs, and answers at the address that it prints."""

from __future__ import annotations

import re
from typing import Final

import pytest

from dotr.runtimes.pipeline.config import read_config
from dotr.runtimes.pipeline.outputs import read_outputs
from dotr.streams.connectors.serve.requests import METHODS
from dotr.streams.connectors.serve.server import ROUTES
from tests.conftest import Project
from tests.support.paths import ROOT

pytestmark = pytest.mark.core

PAGE: Final = (ROOT / "docs/connectors.md").read_text(encoding="utf-8")
SECTION: Final = next(each for each in re.split(r"^## ", PAGE, flags=re.MULTILINE) if each.startswith("Serve\n"))


def test_configuration_is_right(project: Project) -> None:
    found = re.search(r"```yaml\n(# fires.yaml\n.*?)```", SECTION, re.DOTALL)
    rule = re.search(r"```\n(# posts.dotr\n.*?)```", PAGE, re.DOTALL)
    assert found is not None
    assert rule is not None
    project.write("posts.dotr", rule[1])
    for text in (found[1], re.sub(r"# (origins|linger)", r"\1", found[1])):
        project.write("fires.yaml", text)
        assert project.dotr("check", "fires.yaml").code == 0
    problems: list[object] = []
    (output,) = read_outputs(read_config("fires.yaml"), [], on_spark=False).events
    assert (problems, str(output.destination)) == ([], "http://127.0.0.1:8080/fire/")


def test_all_resources_and_methods_are_told() -> None:
    for name in ROUTES:
        assert re.search(rf"`/{re.escape(name)}[`?]", SECTION) or name == "ldes/N", name
    assert all(method in SECTION for method in METHODS)
