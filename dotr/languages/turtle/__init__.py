"""Parsers of Turtle: graphs, and templates of `define` and of the `map` of a CSV input."""

from dotr.languages.turtle.parser import parse_template as parse_template
