"""Closure under `owl:sameAs`: classes of equal names, closure over representatives, expansion."""
