"""Windows of continuous queries: extents, contents and reports (continuous.md, 3 and 4)."""
