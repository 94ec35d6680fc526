"""Connectors: Kafka, MQTT and HTTP, as inputs and as outputs."""
