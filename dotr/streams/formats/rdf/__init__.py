"""Serializations of RDF as streams: documents, messages, quads and logs."""
