"""Tables and streams that Spark reads and writes."""
