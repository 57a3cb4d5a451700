"""The life cycle of nodes: their states, liveness, what follows from an exit, and stalled parameter servers."""
