"""The meaning of a program by brute force: semantics.md in the plainest Python, sharing nothing with the engine but `dotr.model`."""
