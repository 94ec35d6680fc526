"""Warnings about rules that compile: what cannot match, has no effect, or costs much."""
