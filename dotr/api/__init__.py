"""Public Python API: programs, sessions, events and tables of events (docs/python.md)."""
