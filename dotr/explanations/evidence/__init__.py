"""Evidence: what an event, a fact or a triple follows from."""
