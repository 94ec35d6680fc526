"""The examples of docs/connectors.md, section MQTT: the configuration runs, and the commands publish what becomes events."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from dotr.runtimes.pipeline.config import read_config
from tests.support.mosquitto import Mosquitto, wait_until
from tests.support.paths import ROOT

SECTIONS = re.split(r"^## ", (ROOT / "docs/connectors.md").read_text(encoding="utf-8"), flags=re.MULTILINE)
MQTT = next(text for text in SECTIONS if text.startswith("MQTT\n"))
FILES = dict(re.findall(r"^```\w*\n# (\S+\.(?:yaml|dotr))\n(.*?)^```$", MQTT, re.MULTILINE | re.DOTALL))
COMMANDS = re.findall(r"^```sh\n(.*?)^```$", MQTT, re.MULTILINE | re.DOTALL)


@pytest.mark.mosquitto
def test_commands_publish_what_the_page_tells(tmp_path: Path) -> None:
    publish, subscribe = COMMANDS
    with Mosquitto(tmp_path / "mosquitto") as broker:
        for name, text in FILES.items():
            (tmp_path / name).write_text(text.replace("mqtt://localhost", broker.url))

        def command(text: str) -> list[str]:
            return ["bash", "-ec", text.replace("-h localhost", f"-h localhost -p {broker.port}")]

        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        with (
            subprocess.Popen(command(f"exec {subscribe}"), stdout=subprocess.PIPE, text=True) as heard,
            subprocess.Popen([sys.executable, "-m", "dotr", "run", "site.yaml", "--quiet"], env=environment, cwd=tmp_path) as run,
        ):
            try:
                broker.wait_for_subscription("dotr-site-sensors")
                wait_until(lambda: "alarms/#" in broker.log)
                subprocess.run(command(publish), check=True)
                out = tmp_path / "out/hot.ndjson"
                wait_until(lambda: out.exists() and out.read_text().count("\n") == 2)
                assert heard.stdout is not None
                lines = [heard.stdout.readline(), heard.stdout.readline()]
            finally:
                run.send_signal(signal.SIGINT)
                heard.terminate()
    assert run.returncode == 0
    found = [json.loads(line) for line in out.read_text().splitlines()]
    assert [(each["time"], each["attributes"]["room"], each["attributes"]["topic"]) for each in found] == [
        (1, "<http://example.org/kitchen>", '"site/kitchen/temp"'),
        (3, "<http://example.org/attic>", '"site/attic/temp"'),
    ]
    assert [line.startswith("alarms/hot ") and "dotr-id:site/" in line for line in lines] == [True, True]
    assert [json.loads(line[line.index("{") :]) for line in lines] == found
    [letter] = [json.loads(line) for line in (tmp_path / "out/rejected.ndjson").read_text().splitlines()]
    assert letter["error"] == "its content-type, text/turtle, does not fit the format json"


@pytest.mark.core
def test_sections_of_the_page_are_configurations(tmp_path: Path) -> None:
    [output] = re.findall(r"^```yaml\n(output:\n.*?)^```$", MQTT, re.MULTILINE | re.DOTALL)
    every_key = re.sub(r"^( +)# (?=\w+:)", r"\1", FILES["site.yaml"], flags=re.MULTILINE)
    text = re.sub(r"^output:\n(?:  .*\n)+", output, every_key, flags=re.MULTILINE)
    (tmp_path / "site.yaml").write_text(text)
    settings = read_config(str(tmp_path / "site.yaml")).settings
    assert settings.input[0].mqtt is not None
    assert settings.input[0].mqtt.session == "1 h"
    assert settings.output[0].mqtt is not None
    assert settings.output[0].mqtt.retain
