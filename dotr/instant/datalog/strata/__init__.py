"""Strata: NOT and AGGREGATE in a closure, and what they take back."""
