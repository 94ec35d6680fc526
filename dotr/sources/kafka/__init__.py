"""Kafka as an input: each partition of a topic is an input of its own, in the order of its offsets."""
