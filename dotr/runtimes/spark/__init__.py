"""The Spark runtime: plans on the driver, reads and closes instants on executors, keeps state, if there is any, in a keyed operator a
layer."""
