"""Publication of an RDF stream over HTTP: the output `serve`."""
