"""Replays of a stream, and the record of what each step has read and made."""
