"""Operators over solutions with intervals: sequences, conjunctions and optional parts (EP-SPARQL;
Anicic et al., WWW 2011).
"""
