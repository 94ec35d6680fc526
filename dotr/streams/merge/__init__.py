"""The merge of inputs by time: complete instants, from files, folders and feeds that grow."""
