"""Data model shared by all packages: frozen values without behaviour beyond small accessors."""
