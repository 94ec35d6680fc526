"""Temporal patterns over facts of different instants (TESLA: Cugola, Margara, DEBS 2010)."""
