"""Server-sent events: streams of events that a server sends over HTTP."""
