"""Diagnostics, fallbacks, the catalogue of error codes, and text on its way to a terminal."""
