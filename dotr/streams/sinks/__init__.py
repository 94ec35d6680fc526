"""Sinks: files, Parquet, batches, and events and dead letters as text and as messages."""
