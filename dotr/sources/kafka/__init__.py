"""Kafka as an input: each partition is an input of its own, in the order of its offsets."""
