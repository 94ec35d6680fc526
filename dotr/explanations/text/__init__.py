"""Explanations as text."""
