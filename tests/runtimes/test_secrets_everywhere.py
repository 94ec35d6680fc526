"""Values of passwords and tokens are in no output of a run, its checkpoint, command lines, metrics, or Spark's pages."""

from __future__ import annotations

import base64
import os
import re
import signal
import time
import urllib.request
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from urllib.error import HTTPError, URLError

import pytest

from tests.conftest import Project
from tests.runtimes.test_mqtt_runs import Command, line
from tests.support.http_server import post_server
from tests.support.kafka_broker import PASSWORD, Broker
from tests.support.mosquitto import Mosquitto, wait_until
from tests.support.patience import PATIENCE
from tests.support.ports import free_port
from tests.support.victims import processes

pytestmark = [pytest.mark.mosquitto, pytest.mark.kafka]

SECRETS = {"KAFKA_WORD": PASSWORD, "MQTT_WORD": "mqtt-s3cret-41", "IN_WORD": "http-s3cret-42", "POST_WORD": "post-s3cret-43"}
PAGES = ("jobs", "stages", "environment", "SQL", "StreamingQuery")
RULES = """
PREFIX : <http://e/>
rule R define Out = [ [] :x ?x ] from A = [ SELECT ?x WHERE { ?s :v ?x } ] with Out.?x = A.?x
"""
CONFIG = """
name: secrets
prefixes: {{ "": "http://e/" }}
rules: [r.dotr]
input:
  - {{ name: k, format: ndjson, idle: 1 s, kafka: {{ bootstrap.servers: "{kafka}", subscribe: {topic}, {sasl} }} }}
  - {{ name: m, format: ndjson, idle: 1 s, mqtt: {{ url: "{mqtt}", topics: ["a"], username: dotr, password: "${{MQTT_WORD}}" }} }}
  - {{ name: h, format: ndjson, idle: 1 s, http: {{ listen: "127.0.0.1:{listen}/in", tokens: "${{IN_WORD}}" }} }}
output:
  - {{ path: out/out.ndjson }}
  - {{ format: ndjson, kafka: {{ bootstrap.servers: "{kafka}", topic: {topic}-out, delivery: at_least_once, {sasl} }} }}
  - {{ format: ndjson, mqtt: {{ url: "{mqtt_with_user}", topic: out }} }}
  - {{ format: ndjson, http: {{ url: "{post}/out", token: "${{POST_WORD}}" }} }}
dead_letter: out/dead.ndjson
metrics: {{ prometheus: {metrics} }}
spark: {{ master: "local[2]", checkpoint: out/checkpoint, conf: {{ {conf} }} }}
"""
SASL = 'security.protocol: SASL_PLAINTEXT, sasl.mechanism: PLAIN, sasl.username: dotr, sasl.password: "${KAFKA_WORD}"'


class Site:
    """The configuration of a run with each kind of credentials, and the texts that its processes show while it runs."""

    def __init__(self, project: Project, kafka: Broker, mosquitto: Mosquitto, post: str) -> None:
        self.project, self.kafka, self.mosquitto = project, kafka, mosquitto
        self.listen, self.metrics, self.pages = free_port(), free_port(), free_port()
        self.topic = kafka.topic("secrets")
        kafka.create(f"{self.topic}-out")
        (project.folder / "log").mkdir()
        log = f"file://{project.folder / 'log'}"
        text = CONFIG.format(
            kafka=kafka.login_servers,
            topic=self.topic,
            sasl=SASL,
            mqtt=mosquitto.url,
            mqtt_with_user=mosquitto.url.replace("mqtt://", "mqtt://dotr:${MQTT_WORD}@"),
            listen=self.listen,
            post=post,
            metrics=self.metrics,
            conf=f'spark.ui.enabled: true, spark.ui.port: {self.pages}, spark.eventLog.enabled: true, spark.eventLog.dir: "{log}"',
        )
        project.write("c.yaml", text)
        project.write("r.dotr", RULES)

    def send(self) -> None:
        """Send an element and an unreadable record over each input."""
        headers = {"Authorization": f"Bearer {SECRETS['IN_WORD']}", "Content-Type": "application/x-ndjson"}
        body = f"{line(3)}\nbroken\n".encode()
        urllib.request.urlopen(urllib.request.Request(f"http://127.0.0.1:{self.listen}/in", body, headers), timeout=PATIENCE).close()
        self.kafka.produce_values(self.topic, [line(1), "broken"])
        self.mosquitto.publish(("a", line(2)), ("a", "broken"))

    def shown(self, run: Command, *pages: str) -> Iterator[tuple[str, bytes]]:
        """Command lines, metrics and Spark's pages of a run."""
        for pid, (_, words) in processes(run.process.pid).items():
            yield f"command line of {pid}", " ".join(words).encode()
        addresses = [f"http://127.0.0.1:{self.metrics}/metrics"]
        addresses += [f"http://127.0.0.1:{self.pages}/{page}/" for page in pages]
        for address in addresses:
            with urllib.request.urlopen(address, timeout=PATIENCE) as answer:
                yield address, answer.read()


@pytest.fixture
def site(project: Project, kafka: Broker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("mosquitto")
    with Mosquitto(folder, users={"dotr": SECRETS["MQTT_WORD"]}) as mosquitto, post_server() as server:
        yield Site(project, kafka, mosquitto, server.url)


def forms(value: str) -> list[bytes]:
    """A value, and the Base64 of it alone and of it behind the user name."""
    return [value.encode(), base64.b64encode(value.encode()), base64.b64encode(f"dotr:{value}".encode())]


def check_nowhere(found: Iterator[tuple[str, bytes]]) -> int:
    """Fail where a text contains one of the values; returns the number of texts."""
    number = 0
    for place, content in found:
        number += 1
        for name, value in SECRETS.items():
            assert not any(form in content for form in forms(value)), f"{name} is in {place}"
    return number


def files(folder: Path) -> Iterator[tuple[str, bytes]]:
    for path in folder.rglob("*"):
        if path.is_file():
            with suppress(FileNotFoundError):  # a temporary file of a run
                yield str(path), path.read_bytes()


def is_done(site: Site) -> bool:
    """True once there is an event, and a dead letter of each input. On a busy machine an element may be a dead letter too (idle)."""
    written = b"".join(content for path, content in files(site.project.folder / "out") if "checkpoint" not in path)
    return b'"event": "Out"' in written and all(b'"reason": "unreadable", "input": "%s"' % name in written for name in (b"k", b"m", b"h"))


def run_and_look(site: Site, engine: str) -> None:
    run = Command(site.project, "--engine", engine, "--progress", "json", environment=SECRETS)
    try:
        site.mosquitto.wait_for_subscription("dotr-secrets-m")
        deadline = time.monotonic() + PATIENCE
        while True:
            try:
                site.send()
                break
            except HTTPError:
                raise
            except URLError:  # it does not listen yet
                assert time.monotonic() < deadline, run.output
                time.sleep(0.2)
        wait_until(lambda: is_done(site), run.output)
        pages = PAGES if engine == "spark" else ()
        assert check_nowhere(site.shown(run, *pages)) >= 2 + len(pages)
        assert run.stop() == 0, run.output
    finally:
        if run.process.poll() is None:
            os.killpg(run.process.pid, signal.SIGKILL)
            run.wait()
    assert check_nowhere(files(site.project.folder)) >= (4 if engine == "local" else 20)
    assert "${MQTT_WORD}" in site.project.read("c.yaml")


def test_secrets_are_in_no_output_of_a_run_in_process(site: Site) -> None:
    run_and_look(site, "local")


@pytest.mark.spark
def test_secrets_are_in_no_output_of_a_run_on_spark(site: Site) -> None:
    run_and_look(site, "spark")
    assert any("eventlog" in path or "app-" in path or "local-" in path for path, _ in files(site.project.folder / "log"))


@pytest.mark.parametrize("name", ["KAFKA_WORD", "MQTT_WORD"])
def test_wrong_secrets_are_refused_without_being_shown(site: Site, name: str) -> None:
    run = Command(site.project, "--engine", "local", "--progress", "json", environment={**SECRETS, name: "wr0ng-s3cret-44"})
    try:
        assert run.wait() == 2, run.output
    finally:
        if run.process.poll() is None:
            os.killpg(run.process.pid, signal.SIGKILL)
            run.wait()
    assert re.search(r"S12[58]", run.output), run.output
    assert not any(b"s3cret" in content for _, content in files(site.project.folder))
    check_nowhere(files(site.project.folder))


@pytest.mark.parametrize("name", sorted(SECRETS))
def test_missing_secret_is_named(site: Site, name: str) -> None:
    environment = {each: value for each, value in SECRETS.items() if each != name}
    run = Command(site.project, "--engine", "local", environment=environment)
    try:
        assert run.wait() == 2, run.output
    finally:
        if run.process.poll() is None:
            os.killpg(run.process.pid, signal.SIGKILL)
            run.wait()
    assert f"S124 the environment of this process has no variable {name}" in run.output
