"""Closure under `owl:sameAs`: classes of equal names, the closure with representatives, and the expansion."""
