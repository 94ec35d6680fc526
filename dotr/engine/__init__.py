"""The compiled program and the pure step that composes the rooms."""
