"""Closure of LARS rules, maintained from point to point."""
