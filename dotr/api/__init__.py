"""Public classes of a caller in Python: programs, sessions, events and tables of events
(docs/python.md)."""
