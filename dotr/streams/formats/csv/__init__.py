"""Rows of CSV, mapped to graphs."""
