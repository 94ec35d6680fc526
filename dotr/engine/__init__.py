"""The compiled program, its two stages, units of other languages, and the driver of one instant."""
