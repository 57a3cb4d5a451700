"""What runs first on a node: starts, watches and restarts the program, samples resources, talks to the master."""
