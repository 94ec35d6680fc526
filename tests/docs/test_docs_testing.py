"""docs/testing.md: its files and commands are tried, in their order."""

from __future__ import annotations

import re
import shlex

import pytest

from tests.conftest import Project
from tests.support.paths import ROOT

pytestmark = pytest.mark.core

PAGE = ROOT / "docs" / "testing.md"
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
FILE = re.compile(r"# (\S+\.\w+)\n")


def run(project: Project, page: str) -> str:
    """The page with the output that its commands have."""

    def tried(block: re.Match[str]) -> str:
        syntax, text = block.groups()
        if syntax == "console":
            command = text.partition("\n")[0]
            answer = project.dotr(*shlex.split(command.removeprefix("$ dotr ")))
            return f"```console\n{command}\n{answer.out.rstrip()}\n{answer.err}```"
        named = FILE.match(text)
        assert named is not None
        project.write(named[1], text.removeprefix(named[0]))
        return block[0]

    return BLOCK.sub(tried, page)


def test_commands_print_what_the_page_says(project: Project) -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert run(project, page) == page
