"""Kafka as an input: each partition is a separate input, read in the order of its offsets."""
