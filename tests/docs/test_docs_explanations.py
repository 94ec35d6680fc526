"""Commands on the page on explanations, with the output that the page shows."""

from __future__ import annotations

import re
import shlex
import shutil
from pathlib import Path

import pytest

from dotr.commands import main
from tests.support.paths import ROOT

pytestmark = pytest.mark.core

BLOCK = re.compile(r"^```console\n\$ dotr (.*?)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
COMMANDS = BLOCK.findall((ROOT / "docs" / "explanations.md").read_text(encoding="utf-8"))


@pytest.mark.parametrize(("command", "output"), COMMANDS, ids=[command for command, _ in COMMANDS])
def test_commands_print_what_the_page_shows(
    command: str, output: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for folder in ("configs", "rules", "kb", "data/fire", "tests/explanations"):  # without the outputs of runs
        shutil.copytree(ROOT / folder, tmp_path / folder)
    monkeypatch.chdir(tmp_path)
    main(shlex.split(command))
    captured = capsys.readouterr()
    assert captured.out + captured.err == output
