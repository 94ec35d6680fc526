"""Indexes of triples: in memory, masked, joined, and mapped read-only from a compiled file."""
