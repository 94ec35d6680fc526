"""Sources: formats, connectors, admission, the merge of inputs by time, and watched folders."""
