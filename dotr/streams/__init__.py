"""Streams in and out: records, times, lateness, formats, the merge by time, sinks and connectors."""
