"""Parsers of Turtle: graphs, and templates of `define` and of the `map` of an input."""

from dotr.languages.turtle.parser import parse_map as parse_map
from dotr.languages.turtle.parser import parse_template as parse_template
