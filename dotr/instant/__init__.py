"""Stage one: an instant is merged, closed over background knowledge, and queried for facts."""
