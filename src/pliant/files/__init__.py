"""Files that survive crashes and locks that do not outlive their holders; below everything that does I/O."""
