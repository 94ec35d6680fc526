"""Topics of Kafka as outputs: batches exactly once, in transactions, or at least once."""
