"""The master: shells that feed events into ``pliant.core`` and carry its decisions out, and the journal."""
