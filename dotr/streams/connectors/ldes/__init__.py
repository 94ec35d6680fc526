"""Linked Data Event Streams: members of the pages of a stream as an input."""
