"""Explanations of what LARS files report."""
