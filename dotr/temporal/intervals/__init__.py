"""Operators over solutions with intervals: sequences, conjunctions and optional parts (EP-SPARQL)."""
