"""Figures of a run on Spark, and of its checkpoint."""
