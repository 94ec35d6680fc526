"""Outputs to a real MQTT broker, by the command line, in process."""

from __future__ import annotations

import json

import pytest

from tests.conftest import Project
from tests.runtimes.test_mqtt_runs import RULES, broker_of, line, running
from tests.support.mosquitto import Mosquitto, wait_until

pytestmark = pytest.mark.mosquitto

CONFIG = """
name: site
prefixes: {{ "": "http://e/" }}
rules: [r.dotr]
input:
  - {{ name: a, format: ndjson, {input} }}
output:
  - {{ format: {format}, mqtt: {{ url: "{url}", topic: events/out }} }}
  - {{ path: out.ndjson }}
engine: local
"""


def configure(project: Project, broker: Mosquitto, form: str = "ndjson", given: str = "path: in.ndjson") -> None:
    project.write("r.dotr", RULES)
    project.write("in.ndjson", "".join(line(number) + "\n" for number in range(100)))
    project.write("c.yaml", CONFIG.format(input=given, format=form, url=broker.url))


def test_events_of_a_file_are_published(project: Project) -> None:
    with broker_of(project) as broker, broker.subscribed("events/#") as received:
        configure(project, broker)
        answer = project.dotr("run", "c.yaml")
        assert answer.code == 0, answer
        wait_until(lambda: len(received) == 99)
    assert [message.payload.decode() for message in received] == project.read("out.ndjson").splitlines()


@pytest.mark.parametrize("form", ["trig", "nquads", "csv"])
def test_every_message_is_complete_in_itself(project: Project, form: str) -> None:
    with broker_of(project) as broker, broker.subscribed("events/#") as received:
        configure(project, broker, form)
        assert project.dotr("run", "c.yaml").code == 0
        wait_until(lambda: len(received) == 99)
    texts = [message.payload.decode() for message in received]
    assert len(set(texts)) == 99
    if form == "trig":
        assert all("prefix : <http://e/>" in text.lower() for text in texts)
    if form == "csv":
        assert texts[0].startswith("1,R,Out,")


def test_events_of_received_messages_are_published(project: Project) -> None:
    with broker_of(project) as broker, broker.subscribed("events/#") as received:
        configure(project, broker, given=f'mqtt: {{ url: "{broker.url}", topics: ["site/#"] }}')
        with running(project) as run:
            broker.wait_for_subscription("dotr-site-a")
            broker.publish(*[("site/a", line(number)) for number in range(100)])
            wait_until(lambda: len(received) == 98)
            assert run.stop() == 0
    assert json.loads(received[0].payload)["time"] == 1


def test_ids_are_the_same_in_all_outputs_of_events_and_elements(project: Project) -> None:
    """An output with elements has them in front of the events of their time, whose ordinals go on behind them."""
    rules = "PREFIX : <http://e/>\nquery V = [ SELECT ?v WHERE { [] :v ?v } ]\n" + "".join(
        f"rule {name} define {name} = [ [] :is ?v ] from V with {name}.?v = V.?v\n" for name in ("A", "B")
    )
    outputs = [("all", ""), ("b", "of: [B]"), ("in", "of: [in]"), ("both", "of: [in, B]")]
    with broker_of(project) as broker, broker.subscribed("out/#") as received:
        configure(project, broker)
        project.write("r.dotr", rules)
        project.write("in.ndjson", '{"time": 1, "graph": ":x :v 1 ."}\n{"time": 1, "graph": "[] :v 2 ."}\n')
        text = project.read("c.yaml").split("output:")[0].replace("name: a,", "name: in,") + "engine: local\noutput:\n"
        for topic, names in outputs:
            text += f'  - {{ format: trig, mqtt: {{ url: "{broker.url}", topic: out/{topic} }}, {names} }}\n'
        project.write("c.yaml", text)
        answer = project.dotr("run", "c.yaml")
        assert answer.code == 0, answer
        wait_until(lambda: len(received) == 4 + 2 + 2 + 4)
    ids: dict[str, list[str]] = {topic: [] for topic, _ in outputs}
    for message in received:
        properties = dict(getattr(message.properties, "UserProperty", []))
        ids[message.topic.removeprefix("out/")].append(properties["dotr-id"].removeprefix("site/"))
    assert ids == {
        "all": ["1000000-0", "1000000-1", "1000000-2", "1000000-3"],
        "b": ["1000000-2", "1000000-3"],
        "in": ["1000000-0", "1000000-1"],
        "both": ["1000000-0", "1000000-1", "1000000-4", "1000000-5"],
    }
    assert ["wasGeneratedBy" in message.payload.decode() for message in received if message.topic == "out/both"] == [False] * 2 + [True] * 2


def test_parquet_messages_are_refused(project: Project) -> None:
    with broker_of(project) as broker:
        configure(project, broker, "parquet")
        assert "C204" in project.refused("run", "c.yaml")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ('url: "http://b", topics: [a]', "mqtt.url cannot be used: the URL of a broker is mqtt://HOST:PORT"),
        ('url: "mqtt://b", topics: [a], password: abc', "C225"),
        ('url: "mqtt://dotr:abc@b", topics: [a]', "C225"),
        ('url: "mqtt://b", topics: [a], password: "${P}"', "a password needs a user"),
        ('url: "mqtt://b", topics: ["a/#/b"]', "in a topic filter # stands alone at the end"),
        ('url: "mqtt://b", topics: [a], tls.ca: ca.crt', "certificates are for connections with TLS"),
        ('url: "mqtts://b", topics: [a], tls: { ca: ca.crt }', "C301 cannot read ca.crt: no such file"),
        ('url: "mqtts://b", topics: [a], tls.ca: c.yaml', "c.yaml holds no certificate that can be used"),
        ('url: "mqtt://b", topics: [a], qos: 2', "qos should be 0 or 1"),
        ('url: "mqtt://b", topics: [a], session: long', "session"),
        ('url: "mqtt://b", topics: [a], clean: true', "C201 unknown key clean"),
    ],
)
def test_mistakes_are_reported_without_a_broker(project: Project, settings: str, message: str) -> None:
    project.write("c.yaml", CONFIG.format(input=f"mqtt: {{ {settings} }}", format="ndjson", url="mqtt://b"))
    project.write("r.dotr", RULES)
    answer = project.dotr("check", "c.yaml")
    assert answer.code == 2, answer
    assert message in answer.out + answer.err
    assert "abc" not in answer.out + answer.err


def test_check_warns_of_qos_0_and_of_wide_and_overlapping_topics(project: Project) -> None:
    project.write("r.dotr", RULES)
    topics = 'url: "mqtt://b", topics: ["#"], qos: 0'
    project.write("c.yaml", CONFIG.format(input=f"mqtt: {{ {topics} }}", format="ndjson", url="mqtt://b"))
    answer = project.dotr("check", "c.yaml")
    assert [code for code in ("I113", "I114", "I115") if code not in answer.out + answer.err] == []
    topics = 'url: "mqtt://b", topics: ["a/+", "a/b"]'
    project.write("c.yaml", CONFIG.format(input=f"idle: 1 min, mqtt: {{ {topics} }}", format="ndjson", url="mqtt://b"))
    answer = project.dotr("check", "c.yaml")
    assert "I115 warning: a/+ and a/b have topics in common" in answer.out + answer.err
    assert "I113" not in answer.out + answer.err
