"""Benchmarks against other systems: works, peers, measuring, results."""
