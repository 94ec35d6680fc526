"""Files: among other users of the machine, and in stores that a URL names."""
