"""State that outlives a batch: logs, pages, segments, the schema of the state and its migration."""
