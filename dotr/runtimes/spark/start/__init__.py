"""Start of Spark: Java, the session, class archives and Python's workers."""
