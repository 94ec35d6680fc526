"""Answers of a query, kept from report to report: an operator passes on what has changed."""
