"""The process of one parameter server."""
