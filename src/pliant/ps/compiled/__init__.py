"""Compiled loops that need no table, and how they are compiled and cached."""
