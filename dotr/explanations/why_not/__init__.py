"""Explanations of a rule that did not fire."""
