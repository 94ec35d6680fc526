"""Explanations of what is missing at an instant: a fact, a triple, a conclusion."""
