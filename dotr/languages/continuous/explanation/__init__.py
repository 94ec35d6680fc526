"""Explanations of reports of continuous queries."""
