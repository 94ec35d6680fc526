"""Background knowledge: loaded, closed, compiled to a file, and cached."""
