"""Closure of an instant, and in bulk, by rules compiled for one predicate each."""
