"""The Spark runtime: plans on the driver, reads and closes instants on executors, keeps stage two in a keyed operator a layer."""
