"""Runs over a real MQTT broker, by the command line: the same events as from files, through restarts of the broker."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.conftest import Project
from tests.support.mosquitto import Mosquitto, wait_until
from tests.support.paths import ROOT
from tests.support.patience import PATIENCE

pytestmark = pytest.mark.mosquitto

RULES = """
PREFIX : <http://e/>
rule R define Out = [ [] :x ?x ; :y ?y ] from A = [ SELECT ?x WHERE { ?s :v ?x } ]
and last B = [ SELECT ?y WHERE { ?s :v ?y } ] within 2 s from A with Out.?x = A.?x, Out.?y = B.?y
"""
CONFIG = """
name: site
prefixes: {{ "": "http://e/" }}
rules: [r.dotr]
input:
  - {{ name: a, format: ndjson, lateness: 3 s, {input} }}
output:
  - {{ path: out.ndjson }}
dead_letter: dead.ndjson
engine: local
"""


def line(time: int) -> str:
    return json.dumps({"time": time, "graph": f":e{time} :v {time} ."})


def stream(count: int, seed: int = 1) -> list[str]:
    """Elements of about `count` seconds, out of order by 3 s at most, some twice, some unreadable; the last one closes all instants before
    it."""
    choose = random.Random(seed)
    times = sorted(number + choose.random() * 3 for number in range(count))
    lines = [line(int(each * 2) // 2) for each in times]
    for _ in range(count // 20):
        lines.insert(choose.randrange(len(lines)), "broken")
    for number in range(0, len(lines) - 1, 7):
        lines[number], lines[number + 1] = lines[number + 1], lines[number]
    return [*lines, line(10_000)]


class Command:
    """`dotr run` in a process of its own."""

    def __init__(self, project: Project, *options: str, environment: dict[str, str] | None = None) -> None:
        self.folder = project.folder
        self._log = (project.folder / "run.log").open("w")
        self.process = subprocess.Popen(
            [sys.executable, "-m", "dotr", "run", "c.yaml", *options],
            cwd=project.folder,
            env={**os.environ, "PYTHONPATH": str(ROOT), **(environment or {})},
            stdout=self._log,
            stderr=self._log,
            start_new_session=True,
        )

    @property
    def output(self) -> str:
        return (self.folder / "run.log").read_text()

    def wait(self) -> int:
        code = self.process.wait(PATIENCE)
        self._log.close()
        return code

    def stop(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        return self.wait()


@contextmanager
def running(project: Project, *options: str, environment: dict[str, str] | None = None) -> Iterator[Command]:
    command = Command(project, *options, environment=environment)
    try:
        yield command
    finally:
        if command.process.poll() is None:
            os.killpg(command.process.pid, signal.SIGKILL)
            command.wait()


def written(project: Project, name: str = "out.ndjson") -> list[str]:
    path = project.folder / name
    return path.read_text().splitlines() if path.exists() else []


def configure(project: Project, text: str, idle: str = "") -> None:
    project.write("r.dotr", RULES)
    project.write("c.yaml", CONFIG.format(input=f"idle: {idle}, {text}" if idle else text))


def of_files(project: Project, lines: list[str]) -> list[str]:
    """The events of a run over a file with the same elements."""
    project.write("all.ndjson", "\n".join(lines) + "\n")
    project.write("f.yaml", CONFIG.format(input="path: all.ndjson").replace("name: site", "name: files"))
    answer = project.dotr("run", "f.yaml", "--set", "output.0.path=files.ndjson", "--set", "dead_letter=files-dead.ndjson")
    assert answer.code == 0, answer
    return written(project, "files.ndjson")


def broker_of(project: Project, *, keeps: bool = False) -> Mosquitto:
    return Mosquitto(project.folder / "mosquitto", keeps=keeps)


NOTES = """
rule N define Note = [ [] :of ?of ; :v ?v ] from M = [ SELECT ?of ?v WHERE { ?of :note ?v } ] with Note.?of = M.?of, Note.?v = M.?v
"""
NOTED = (
    '{ name: b, format: text, time: $value, idle: 1 s, map: "<http://e/{$topic[1]}> :note {$value} .", '
    'mqtt: { url: "URL", topics: ["notes/+/a", "notes/door"] } }'
)
"""An input of bare values, whose sensors are named by the topic."""


def test_messages_give_the_output_of_the_same_elements_in_a_file(project: Project) -> None:
    lines = stream(150)
    with broker_of(project) as broker:
        configure(project, f'mqtt: {{ url: "{broker.url}", topics: ["site/#"] }}')
        project.change("c.yaml", "output:", f"  - {NOTED.replace('URL', broker.url)}\noutput:")
        project.write("r.dotr", RULES + NOTES)
        with running(project) as run:
            broker.wait_for_subscription("dotr-site-a")
            broker.wait_for_subscription("dotr-site-b")
            broker.publish(("notes/hall/a", "0"), ("notes/door", "1"), ("notes/attic/a", " "), ("notes/attic/a", "soon"))
            choose, rest = random.Random(2), [*lines]
            while rest:
                some = rest[: choose.randrange(1, 60)]
                del rest[: len(some)]
                broker.publish(*[("site/a", each) for each in some])
                time.sleep(choose.random() / 5)
            expected = of_files(project, lines)
            wait_until(lambda: len(written(project)) >= len(expected) + 2)
            assert run.stop() == 0
    notes = [event for event in map(json.loads, written(project)) if event["rule"] == "N"]
    assert [(each["time"], each["attributes"]["of"]) for each in notes] == [(0, "<http://e/hall>"), (1, "<http://e/door>")]
    assert [each for each in written(project) if json.loads(each)["rule"] != "N"] == expected
    found = [json.loads(each) for each in written(project, "dead.ndjson")]
    assert [(each["reason"], each["text"], each["line"]) for each in found if each["input"] == "b"] == [("unreadable", "soon", 4)]
    letters = [each for each in found if each["input"] == "a"]
    numbers = [json.loads(each)["line"] for each in written(project, "files-dead.ndjson")]
    assert [each["line"] for each in letters] == numbers
    assert {(each["reason"], each["input"], each["file"], each["text"]) for each in letters} == {("unreadable", "a", broker.url, "broken")}


def test_run_continues_after_its_broker_is_killed(project: Project) -> None:
    lines = [*(line(number) for number in range(60)), line(10_000)]
    with broker_of(project, keeps=True) as broker:
        configure(project, f'mqtt: {{ url: "{broker.url}", topics: ["site/#"], client_id: one }}')
        with running(project) as run:
            broker.wait_for_subscription("one")
            broker.publish(*[("site/a", each) for each in lines[:30]])
            broker.kill()
            wait_until(lambda: "It is tried again." in run.output)
            broker.start()
            wait_until(lambda: "answers again" in run.output)
            broker.publish(*[("site/a", each) for each in lines[30:]])
            expected = of_files(project, lines)
            wait_until(lambda: len(written(project)) >= len(expected))
            assert run.stop() == 0
    assert written(project) == expected


def test_input_becomes_idle_while_the_broker_is_down(project: Project) -> None:
    with broker_of(project) as broker:
        configure(project, f'mqtt: {{ url: "{broker.url}", topics: ["site/#"], client_id: one }}', idle="1 s")
        with running(project) as run:
            broker.wait_for_subscription("one")
            broker.publish(("site/a", line(1)), ("site/a", line(2)), ("site/a", line(3)))
            broker.kill()
            wait_until(lambda: len(written(project)) == 2)
            assert run.stop() == 0


def test_wrong_credentials_end_the_run_with_2_and_are_not_shown(project: Project) -> None:
    with Mosquitto(project.folder / "mosquitto", users={"dotr": "right-word"}) as broker:
        configure(project, f'mqtt: {{ url: "{broker.url}", topics: ["a"], username: dotr, password: "${{MQTT_WORD}}" }}')
        with running(project, environment={"MQTT_WORD": "wrong-word"}) as run:
            assert run.wait() == 2
            assert "S128 input a: mqtt://localhost:" in run.output
            assert "the user is not authorized" in run.output
        with running(project) as run:
            assert run.wait() == 2
            assert "S124 the environment of this process has no variable MQTT_WORD" in run.output
        with running(project, "--progress", "json", environment={"MQTT_WORD": "right-word"}) as run:
            broker.wait_for_subscription("dotr-site-a")
            broker.publish(("a", "broken"), *[("a", line(number)) for number in range(9)])
            wait_until(lambda: written(project) and written(project, "dead.ndjson"))
            assert run.stop() == 0
        assert "-word" not in "".join(path.read_text() for path in project.folder.glob("*") if path.is_file())


def test_password_in_a_url_may_be_a_variable(project: Project) -> None:
    with Mosquitto(project.folder / "mosquitto", users={"dotr": "right-word"}) as broker:
        url = broker.url.replace("mqtt://", "mqtt://dotr:${MQTT_WORD}@")
        configure(project, f'mqtt: {{ url: "{url}", topics: ["a"] }}')
        with running(project, environment={"MQTT_WORD": "right-word"}) as run:
            broker.wait_for_subscription("dotr-site-a")
            broker.publish(("a", "broken"), *[("a", line(number)) for number in range(9)])
            wait_until(lambda: written(project) and written(project, "dead.ndjson"))
            assert run.stop() == 0
        assert json.loads(written(project, "dead.ndjson")[0])["file"] == broker.url


def test_credentials_revoked_during_a_run_end_it_with_1(project: Project) -> None:
    with Mosquitto(project.folder / "mosquitto", users={"dotr": "right"}) as broker:
        configure(project, f'mqtt: {{ url: "{broker.url}", topics: ["a"], username: dotr, password: "${{MQTT_WORD}}" }}')
        with running(project, environment={"MQTT_WORD": "right"}) as run:
            broker.wait_for_subscription("dotr-site-a")
            broker.publish(*[("a", line(number)) for number in range(9)])
            wait_until(lambda: written(project))
            broker.stop()
            broker.set_users({"dotr": "other"})
            broker.start()
            assert run.wait() == 1
            assert "The run failed: input a: mqtt://localhost:" in run.output
