"""One module per command of ``pliant``."""
