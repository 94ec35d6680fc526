"""The configuration of a pipeline, and what it opens: program, inputs, outputs."""
