"""The nouns of the project: frozen values that compute nothing."""
