"""How fast and how large a simulated job really is: what planners have to find out."""
