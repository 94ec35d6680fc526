"""Formats of elements: records of an input's text, and the text of an output."""
