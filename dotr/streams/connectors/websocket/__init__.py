"""WebSockets: messages that a server sends over a connection of frames."""
