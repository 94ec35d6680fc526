"""MQTT inputs on Spark: the events of the same run in process, through kills of the driver and of the broker."""

from __future__ import annotations

import json
import os
import signal
from contextlib import suppress

import pytest

from tests.conftest import Project
from tests.runtimes.test_mqtt_runs import RULES, Command, broker_of, of_files, stream
from tests.support.interrupted import run_until
from tests.support.mosquitto import wait_until
from tests.support.patience import PATIENCE
from tests.support.victims import processes

pytestmark = [pytest.mark.spark, pytest.mark.mosquitto]

CONFIG = """
name: site
prefixes: {{ "": "http://e/" }}
rules: [r.dotr]
input:
  - {{ name: a, format: ndjson, lateness: 3 s, mqtt: {{ url: "{url}", topics: ["site/#"], session: 1 d }} }}
output:
  - {{ path: out/out.ndjson }}
  - {{ format: ndjson, mqtt: {{ url: "{url}", topic: events/out }} }}
dead_letter: out/dead.ndjson
spark: {{ master: "local[2]", checkpoint: out/checkpoint }}
"""


def written(project: Project, name: str = "out.ndjson") -> list[str]:
    folder = project.folder / "out" / name
    return [line for file in sorted(folder.glob("0*")) for line in file.read_text().splitlines()] if folder.exists() else []


def kill(run: Command) -> None:
    """Kill the driver and all processes that it has started with -9."""
    for pid in processes(run.process.pid):
        with suppress(ProcessLookupError):  # one that ends by itself, as those of a batch do
            os.kill(pid, signal.SIGKILL)
    run.wait()


@pytest.mark.usefixtures("spark")
def test_no_message_is_lost_where_driver_and_broker_are_killed(project: Project, capsys: pytest.CaptureFixture[str]) -> None:
    """The driver is killed while messages arrive, more are published while it is down, and the broker is stopped during the next run, which
    is in this process. Every event is in the files once, and published at least once."""
    lines = stream(120)
    published = 0
    with broker_of(project, keeps=True) as broker:

        def publish(until: int) -> None:
            nonlocal published
            broker.publish(*[("site/a", each) for each in lines[published:until]])
            published = until

        with broker.subscribed("events/#", client_id="reader"):
            pass
        project.write("r.dotr", RULES)
        project.write("c.yaml", CONFIG.format(url=broker.url))
        run = Command(project, "--engine", "spark")
        broker.wait_for_subscription("dotr-site-a")
        publish(40)
        wait_until(lambda: written(project), run.output, PATIENCE)
        publish(60)
        kill(run)
        publish(80)
        expected = of_files(project, lines)

        def rest() -> None:
            broker.wait_for_subscription("dotr-site-a", 2)
            publish(90)
            broker.stop()  # with -9, mosquitto could lose an event that it has acknowledged and not yet saved
            broker.start()
            publish(len(lines))
            wait_until(lambda: len(written(project)) >= len(expected), "events are missing", PATIENCE)

        code = run_until(["run", "c.yaml", "--engine", "spark"], rest, signal.SIGTERM)
        told = capsys.readouterr().err
        assert code == 0, told
        with broker.subscribed("events/#", client_id="reader") as heard:
            wait_until(lambda: {message.payload.decode() for message in heard} == set(expected), "an event was not published")
    assert written(project) == expected
    assert "Traceback" not in run.output + told
    letters = [json.loads(each) for each in written(project, "dead.ndjson")]
    assert {letter["file"] for letter in letters} == {broker.url}
    broken = [letter for letter in letters if letter["reason"] == "unreadable"]
    assert len(broken) >= lines.count("broken"), "a message that came twice is broken twice"
    assert {letter["reason"] for letter in letters} <= {"unreadable", "late"}
