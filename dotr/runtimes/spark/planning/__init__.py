"""Ends of batches, planned from time stamps alone."""
