"""HTTP: a listener as an input, posts as outputs."""
