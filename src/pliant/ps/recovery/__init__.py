"""How a server comes back: dumps, the log of staged pushes, and the executor of the orders after them."""
