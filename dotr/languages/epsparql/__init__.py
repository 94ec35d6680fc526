"""EP-SPARQL: sequences of SPARQL groups whose solutions have intervals."""
