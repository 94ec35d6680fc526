"""Parsers of Turtle: graphs, and templates of `define` and of the `map` of an input.

This module imports nothing: a process that reads only graphs loads no parser of templates.
"""
