"""Continuous queries: windows over streams of graphs, reported as RSP-QL prescribes."""
