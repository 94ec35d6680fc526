"""Languages of stage two: rules, continuous queries, LARS and EP-SPARQL, a folder each, and
programs of all of them."""
