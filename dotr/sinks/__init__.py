"""Sinks: files, batches of files, and dead letters."""
