"""Rules over DataFrames: rows of Spark's own sources become elements, and events become rows, by
public PySpark alone."""
