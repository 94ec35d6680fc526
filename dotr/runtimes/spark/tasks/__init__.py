"""Tasks that read: a range of time over all inputs, through stage one."""
