"""Who decides in a simulation: the real planner, the baselines, and the oracle that knows the truth. ``registry.py`` names them."""
