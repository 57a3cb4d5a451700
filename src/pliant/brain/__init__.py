"""The Brain: one service that plans for every job of a cluster."""
