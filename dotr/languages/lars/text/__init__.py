"""Syntax of LARS files."""
