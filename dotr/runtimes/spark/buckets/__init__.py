"""Steps of a layer's buckets, with their state."""
