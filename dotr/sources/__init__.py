"""Sources: formats, admission, the merge of inputs by time, and watched folders."""
