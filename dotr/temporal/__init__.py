"""Stage two: facts of different instants related, with keyed state."""
