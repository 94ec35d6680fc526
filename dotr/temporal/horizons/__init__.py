"""Closure of windows under rules, maintained incrementally: a step costs what changes."""
