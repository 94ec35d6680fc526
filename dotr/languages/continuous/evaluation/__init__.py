"""Evaluation of continuous queries: contents, closures and answers from report to report."""
