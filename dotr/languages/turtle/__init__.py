"""Turtle with holes: the templates of `define` and of a CSV input's `map`."""

from dotr.languages.turtle.parser import parse_template as parse_template
