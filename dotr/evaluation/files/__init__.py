"""Files among other users of the machine: private files, trusted paths, caches."""
