"""Passes of the rule language: names, labels, attributes, clauses, and the compiled rules."""
