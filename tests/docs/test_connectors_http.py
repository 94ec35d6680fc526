"""The examples of docs/connectors.md, section HTTP: the configuration runs, and curl is answered what the page shows."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from dotr.runtimes.pipeline.config import read_config
from tests.support.paths import ROOT
from tests.support.patience import PATIENCE
from tests.support.ports import free_port

SECTION = re.split(r"^## ", (ROOT / "docs/connectors.md").read_text(encoding="utf-8"), flags=re.MULTILINE)
HTTP = next(text for text in SECTION if text.startswith("HTTP\n"))
FILES = dict(re.findall(r"^```\w*\n# (\S+\.(?:yaml|dotr))\n(.*?)^```$", HTTP, re.MULTILINE | re.DOTALL))
COMMANDS = re.findall(r"^```sh\n(.*?)^```\n```json\n(.*?)^```$", HTTP, re.MULTILINE | re.DOTALL)
needs_curl = pytest.mark.skipif(shutil.which("curl") is None, reason="it needs curl: apt-get install curl")


@needs_curl
def test_commands_are_answered_as_the_page_shows(tmp_path: Path) -> None:
    port = free_port()
    for name, text in FILES.items():
        (tmp_path / name).write_text(text.replace("8081", str(port)))
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "IN_TOKENS": "s3cret"}
    command = [sys.executable, "-m", "dotr", "run", "posts.yaml", "--quiet"]
    with subprocess.Popen(command, env=environment, cwd=tmp_path) as run:
        try:
            deadline = time.monotonic() + PATIENCE
            while subprocess.run(["curl", "-s", f"http://127.0.0.1:{port}/"], capture_output=True, check=False).returncode:
                assert time.monotonic() < deadline
                time.sleep(0.05)
            assert len(COMMANDS) == 4
            for given, answer in COMMANDS:
                shell = ["bash", "-c", given.replace("curl ", "curl -sS ").replace("8081", str(port))]
                assert subprocess.run(shell, capture_output=True, text=True, check=True).stdout == answer
            out = tmp_path / "out/hot.ndjson"
            while not out.exists() or out.read_text().count("\n") < 2:
                assert time.monotonic() < deadline
                time.sleep(0.05)
        finally:
            run.send_signal(signal.SIGINT)
    assert run.returncode == 0
    found = [json.loads(line) for line in out.read_text().splitlines()]
    assert [(each["time"], each["attributes"]["room"]) for each in found] == [
        (1, "<http://example.org/kitchen>"),
        (3, "<http://example.org/attic>"),
    ]


def test_output_of_the_page_is_a_configuration(tmp_path: Path) -> None:
    [output] = re.findall(r"^```yaml\n(output:\n.*?)^```$", HTTP, re.MULTILINE | re.DOTALL)
    text = re.sub(r"^output:\n.*\n", output, FILES["posts.yaml"], flags=re.MULTILINE)
    (tmp_path / "posts.yaml").write_text(text)
    [section] = read_config(str(tmp_path / "posts.yaml")).settings.output
    assert section.http is not None
    assert section.http.url == "https://alarms.example.org/fires"
