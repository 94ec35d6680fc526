"""Syntax of EP-SPARQL."""
