"""Placement of units in layers: ports, partition keys, stages, spread and retention."""
