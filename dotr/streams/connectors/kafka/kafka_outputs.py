"""Kafka outputs of a configuration."""

from __future__ import annotations

from dotr.errors.diagnostics import Diagnostic, Refused
from dotr.runtimes.pipeline.reading import Config
from dotr.streams.connectors.kafka.producer import REFUSED, check_properties
from dotr.streams.connectors.kafka.section import NO_PATHS
from dotr.streams.connectors.sections import KafkaOutputSection, KafkaTopicSection
from dotr.streams.sinks.destinations import KafkaDestination
from dotr.syntax.yaml import Location


def kafka_destination(config: Config, at: Location, section: KafkaTopicSection, *, on_spark: bool) -> KafkaDestination:
    """The destination of the section at the location `at`; `on_spark` is the runtime. Raises
    `Refused` with every problem that can be found without a broker.
    """
    tree = config.files.tree
    problems = [
        Diagnostic("C204", f"{key} cannot be set: {reason}", tree.key_span((*at, key)), "Leave it out.")
        for key, reason in REFUSED.items()
        if key in section.properties
    ]
    exactly_once = section.delivery == "exactly_once" or (section.delivery is None and on_spark)
    if exactly_once and not on_spark:
        hint = "Run it on Spark, or write delivery: at_least_once."
        message = "a run in process begins anew when it is killed, and writes nothing exactly once"
        problems.append(Diagnostic("C204", message, tree.key_span((*at, "delivery")), hint))
    properties = {"bootstrap.servers": section.servers}
    for name, value in section.properties.items():
        text = str(value).lower() if isinstance(value, bool) else str(value)
        if name.endswith(".location") and text not in NO_PATHS:
            text = config.files.path(text, (*at, name))
        properties[name] = text
    key, event_time = (section.key, section.timestamp == "event") if isinstance(section, KafkaOutputSection) else (None, False)
    destination = KafkaDestination(section.topic, tuple(properties.items()), key, exactly_once, event_time, tree.key_span(at))
    if not problems:
        problem = check_properties(destination)
        if problem is not None:
            problems.append(problem)
    if problems:
        raise Refused(problems)
    return destination
