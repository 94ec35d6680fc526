"""Explanations of results: of an event, of a rule that did not fire, of the contents of an instant."""
