"""Parsers of the languages that a pipeline's files are written in: rules, Datalog, SPARQL, Turtle."""
