"""Maps of records to graphs: templates with cells, their terms and types, and mappings of RML."""
