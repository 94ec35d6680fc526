"""The compiled store: closed background knowledge as one file that every process maps read-only."""
