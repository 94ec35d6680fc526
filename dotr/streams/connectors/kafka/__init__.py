"""Kafka: each partition is an input, read by offsets; outputs exactly once, or at least once."""
