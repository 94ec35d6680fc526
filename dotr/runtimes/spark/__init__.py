"""The Spark runtime: plans batches on the driver, runs stage one in reading tasks on executors, and
keeps state in one keyed operator per layer of rules."""
