"""Syntax of continuous queries."""
