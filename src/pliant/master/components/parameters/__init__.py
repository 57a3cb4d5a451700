"""The coordinator of parameter servers and its parts: what it observes of them, dumps, moves."""
