"""Placement of rules in layers: ports, partition keys, event order and retention."""
