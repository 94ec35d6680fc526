"""JSON documents and lines, mapped to graphs."""
