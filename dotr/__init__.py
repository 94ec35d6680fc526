"""Reasoning over streams of RDF: the DOTR model (Margara, Cugola, Collavini, Dell'Aglio, ESWC 2018)."""
