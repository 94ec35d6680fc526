"""Diagnostics, fallbacks, the catalogue of error codes, and output to a terminal."""
