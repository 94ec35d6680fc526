"""Parsers of rules, continuous queries, LARS, EP-SPARQL, Datalog, SPARQL and Turtle."""
