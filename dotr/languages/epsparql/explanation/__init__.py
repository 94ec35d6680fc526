"""Explanations of events of EP-SPARQL."""
