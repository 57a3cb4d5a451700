"""Worlds: sets of live processes that can run collectives, joined through the master and left at any moment."""
