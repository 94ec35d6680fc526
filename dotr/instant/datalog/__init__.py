"""Datalog: background knowledge, and the closure of one instant over it."""
