"""Explanations of results: why an event came, why a rule did not fire, what holds at an instant."""
