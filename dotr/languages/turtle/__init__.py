"""Parsers of Turtle: graphs, and templates of `define` and of the `map` of an input.

Nothing is imported here, so that a process that reads graphs alone loads no parser of templates.
"""
