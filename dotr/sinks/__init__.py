"""Sinks of outputs and dead letters: files, Kafka, MQTT and HTTP."""
