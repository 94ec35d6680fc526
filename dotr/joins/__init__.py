"""Joins from a delta: order, sides of each pattern, bounds, limits, and their compilation."""
