"""Text to model and back: SPARQL, Turtle, Datalog, YAML with places, durations and names."""
