"""Figures of a run: totals, progress, the Prometheus endpoint and the display on a terminal."""
