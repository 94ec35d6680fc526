"""Windows over streams: extents, contents and reports of continuous queries (continuous.md, 3,
4)."""
