"""Following a running job in the terminal, until its end or Ctrl-C."""
