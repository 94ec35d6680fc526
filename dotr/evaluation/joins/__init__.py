"""Joins from a delta: order, sides of each pattern, bounds, branches, and their compilation."""
