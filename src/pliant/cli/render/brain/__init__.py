"""What ``pliant brain`` shows, as tables for people."""
