"""Descriptions of a published stream: documents in RDF, an event stream, a page for people."""
