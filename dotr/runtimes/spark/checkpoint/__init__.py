"""Checkpoints: the folder of a run, its state, its figures and its spools."""
