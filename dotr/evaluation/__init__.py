"""Evaluation: what every evaluator is made of, without a notion of time."""
